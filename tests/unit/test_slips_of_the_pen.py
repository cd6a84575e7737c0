"""Classes that are misspelled, and those that only look alike."""

import numpy as np
import pytest

import crowdsweep as cs
from crowdsweep.data.spelling import misspelled


@pytest.mark.parametrize("slip", ["sprots", "spots", "sportss", "sporta", "sportd"])
def test_a_rare_class_a_letter_away_from_a_frequent_one_is_a_slip(slip: str) -> None:
    assert misspelled({"politics": 300, "sports": 300, slip: 6}) == [(slip, "sports")]
    assert misspelled({"politics": 300, "sports": 300, slip: 7}) == []  # as if it were chosen


@pytest.mark.parametrize(
    ("frequent", "rare"),
    [
        ("typical", "atypical"), ("grade 1", "grade 2"), ("cat", "car"), ("light", "night"), ("male", "female"),
        ("sports", "strops"), ("sports", ""), ("Left 10", "Left 100"),
    ],
)  # fmt: skip
def test_classes_that_only_look_alike_are_none(frequent: str, rare: str) -> None:
    assert misspelled({frequent: 1000, rare: 1}) == []


def test_the_data_say_so() -> None:
    draws = np.random.default_rng(0)
    label = draws.choice(["positive", "negative"], 300).tolist()
    label[3], label[200], label[201] = "negativ", "postive", "postive"
    data = cs.load({"item": np.arange(300) // 3, "annotator": np.arange(300) % 3, "label": label})
    (told,) = (note for note in data.notes if "typing errors" in note)
    assert "'negativ' (1) for 'negative', 'postive' (2) for 'positive'" in told
