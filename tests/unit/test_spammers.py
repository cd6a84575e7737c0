"""Who answers without looking, and who looks and is wrong in a way of their own."""

import numpy as np
import pytest

import crowdsweep as cs
from crowdsweep.labelling.annotators import _association_p  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("scale", ["ordinal", "nominal"])
def test_a_rater_who_is_always_two_steps_off_looks_at_the_items(scale: str) -> None:
    """Their answers are right by chance only, and tell of each item what it is: the steps are two too low."""
    draws = np.random.default_rng(5)
    truth = draws.integers(1, 8, 150)
    rows = [
        (item, f"r{who}", int(np.clip(truth[item] + draws.choice((-1, 0, 0, 0, 1)), 1, 7)))
        for item in range(150)
        for who in draws.choice(6, 3, replace=False)
    ]
    asked = draws.choice(150, 60, replace=False).tolist()
    rows += [(item, "strict", max(1, int(truth[item]) - 2)) for item in asked]
    rows += [(item, "dice", int(draws.integers(1, 8))) for item in asked]
    rows += [(item, "middle", 4) for item in asked]
    item, annotator, label = zip(*rows, strict=True)
    data = cs.load({"item": item, "annotator": annotator, "label": label}, scale=scale)  # type: ignore[arg-type]
    found = cs.fit("hierarchical-dawid-skene", data).annotators
    assert found is not None
    people = found.to_pandas().set_index("annotator")
    assert people.accuracy["strict"] < 0.35  # as one who guesses
    assert people.spammer.to_dict() == {f"r{who}": "no" for who in range(6)} | {
        "strict": "no", "dice": "yes", "middle": "yes",
    }  # fmt: skip
    assert people.spammer_p["strict"] < 0.005


def test_answers_that_are_dealt_out_hang_together_as_seldom_as_the_test_says() -> None:
    draws = np.random.default_rng(0)
    found: list[float] = []
    for _ in range(1500):
        n = int(draws.integers(15, 60))
        believed = draws.dirichlet(np.full(5, 0.3), n)
        given = np.eye(5)[draws.choice(5, n, p=(0.4, 0.3, 0.2, 0.08, 0.02))]
        found.append(_association_p(believed, given))
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.055  # of few answers seldomer than it says
    assert np.mean(np.array(found) < 0.005) < 0.012
    assert _association_p(np.full((9, 3), 1 / 3), np.eye(3)[[0, 1, 2] * 3]) == 1.0
    assert _association_p(np.eye(3)[[0, 1, 2] * 3], np.eye(3)[[0] * 9]) == 1.0


@pytest.mark.parametrize("crowd", ["errors are independent", "one class is rare", "some items are hard"])
def test_who_is_weak_is_hardly_ever_called_a_spammer(crowd: str) -> None:
    """People are right in 0.6 to 0.95 where they know the item; of the spammers half at least are found."""
    weak, found = 0, 0
    for seed in range(3):
        draws = np.random.default_rng(seed)
        truth = draws.choice(3, 400, p=(0.9, 0.05, 0.05) if crowd == "one class is rare" else (1 / 3,) * 3)
        known = draws.beta(2, 0.7, 400) if crowd == "some items are hard" else np.ones(400)
        able = np.append(draws.uniform(0.6, 0.95, 20), np.zeros(4))
        item = np.repeat(np.arange(400), 5)
        who = np.concatenate([draws.choice(24, 5, replace=False) for _ in range(400)])
        looked = draws.random(2000) < (able[who] - 1 / 3) * 1.5 * known[item]
        label = np.where(looked, truth[item], draws.integers(0, 3, 2000))
        fit = cs.fit("one-coin", cs.load({"item": item, "annotator": who, "label": label}))
        assert fit.annotators is not None
        people = fit.annotators.to_pandas().set_index("annotator").spammer
        weak += sum(people[str(code)] == "yes" for code in range(20))
        found += sum(people[str(code)] == "yes" for code in range(20, 24))
    assert weak <= 1
    assert found >= 6
