"""LeWiDi's submission files against a twin with explicit loops, and the ids and annotators of its files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.write import write_rows
from crowdsweep.labelling.exports.lewidi import lewidi
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.labelled import labelled_items

PEOPLE = [f"Ann{n}" for n in range(6)]
CLASSES = ("contradiction", "entailment", "neutral")


def item(draws: np.random.Generator, several: bool, pairs: bool = True) -> dict[str, Any]:
    """An item of which the last annotator who was asked gave no answer; another is known of no other item."""
    truth, asked = int(draws.integers(3)), [*draws.choice(PEOPLE, 3, replace=False).tolist(), "Ann9"]
    given: dict[str, str] = {}
    for who in asked[:2]:
        label = CLASSES[truth if draws.random() < 0.7 else int(draws.integers(3))]
        given[who] = f"{label},neutral" if several and label != "neutral" and draws.random() < 0.3 else label
    soft: dict[str, Any] = {label: {"0": "", "1": ""} if several else "" for label in CLASSES}
    text = {"context": f"{draws.random()}", "statement": "so"} if pairs else "so it goes"
    unanswered = dict.fromkeys(asked[2:], "")
    return {
        "text": text, "annotators": ",".join(asked), "annotations": given | unanswered, "soft_label": soft,
    }  # fmt: skip


def dataset_of(folder: Path, *, several: bool, same_ids: bool) -> CrowdDataset:
    folder.mkdir()
    for split, first in (("train", 0), ("dev", 0 if same_ids else 100), ("test", 0 if same_ids else 200)):
        draws = np.random.default_rng(first + len(split))
        told = {str(first + n): item(draws, several) for n in range(1, 16)}
        (folder / f"VEN_{split}.json").write_text(json.dumps(told))
    write_rows(read_form("lewidi", folder), folder.parent / "data")
    return read_folder(folder.parent / "data")


def lines_of(files: dict[str, bytes], name: str) -> dict[str, Any]:
    rows = [line.split("\t") for line in files[name].decode().splitlines()]
    return {item: json.loads(told) for item, told in rows}


def twin_of(fitted: Fitted, item: str, who: str, several: bool) -> Any:
    """What an annotator would say of an item: by sums over classes, one at a time."""
    place = [fitted.dataset.item_names[int(code)] for code in fitted.code].index(item)
    probs, names = fitted.item_probs[place], list(fitted.dataset.annotator_names)
    matrix = fitted.confusion(np.array([names.index(who)]))[0] if who in names else None
    said: list[float] = []
    for label in range(3):
        if matrix is None:
            said.append(probs[label])
        elif several:
            said.append(probs[label] * matrix[label, 1, 1] + (1 - probs[label]) * matrix[label, 0, 1])
        else:
            said.append(sum(probs[truth] * matrix[truth, label] for truth in range(3)))
    return [int(one > 0.5) for one in said] if several else CLASSES[int(np.argmax(said))]


@pytest.mark.parametrize("same_ids", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_each_annotator_who_was_asked_is_predicted(tmp_path: Path, several: bool, same_ids: bool) -> None:
    dataset = dataset_of(tmp_path / "VEN", several=several, same_ids=same_ids)
    fitted = fit_everything("majority-vote" if several else "dawid-skene", {}, dataset, {}, n_seeds=1)
    files = lewidi(labelled_items(fitted))
    assert set(files) == {f"lewidi-{split}-{kind}.tsv" for split in ("train", "dev", "test") for kind in ("soft", "pe")}
    given_items = {
        split: json.loads((tmp_path / "VEN" / f"VEN_{split}.json").read_text()) for split in ("train", "test")
    }
    changed = 0
    for split, told in given_items.items():
        soft, people = lines_of(files, f"lewidi-{split}-soft.tsv"), lines_of(files, f"lewidi-{split}-pe.tsv")
        assert set(soft) == set(people) == set(told), "ids are those of the file"
        for name, given in told.items():
            own = f"{split}-{name}" if same_ids else name
            place = [dataset.item_names[int(code)] for code in fitted.code].index(own)
            shares = fitted.item_probs[place]
            expected = [[1 - p, p] for p in shares] if several else shares
            np.testing.assert_allclose(soft[name], expected, atol=1e-9)
            twins = [twin_of(fitted, own, who, several) for who in given["annotators"].split(",")]
            assert people[name] == ([list(column) for column in zip(*twins, strict=True)] if several else twins)
            changed += len({json.dumps(twin) for twin in twins}) > 1
    assert changed, "annotators who differ are predicted to differ"


def test_what_is_rounded_sums_to_one(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "VEN", several=False, same_ids=False)
    fitted = fit_everything("dawid-skene", {}, dataset, {}, n_seeds=1)
    soft = lines_of(lewidi(labelled_items(fitted)), "lewidi-dev-soft.tsv")
    assert all(abs(sum(told) - 1) < 1e-12 for told in soft.values())
