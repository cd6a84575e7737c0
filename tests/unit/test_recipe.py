"""`label.yaml` in a folder of labels, when something else stands in it: a named error, and labels go elsewhere."""

import os
from pathlib import Path

import pytest
import yaml
from time_limit import at_most

from crowdsweep.errors import BadInput
from crowdsweep.labelling.folder import default_folder
from crowdsweep.labelling.recipe import RECIPE, read_recipe

SOUND = {
    "dataset": "birds",
    "calibration": {"in_words": "as they are"},
    "notes": ["one"],
    "files": ["classifier/", "labels.csv"],
    "classes": ["<<", "no", "1:30", "2001-01-01", "é"],
    "params": {"smoothing": 0.01},
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_text(yaml.safe_dump(SOUND, sort_keys=False, allow_unicode=True), encoding="utf-8")
    read = read_recipe(tmp_path)
    assert (read.dataset, read.files, read.calibration.in_words) == (
        "birds",
        ("classifier/", "labels.csv"),
        "as they are",
    )
    assert read.notes == ("one",)
    assert default_folder(tmp_path, "anesthesia") == tmp_path.with_name(f"{tmp_path.name}-anesthesia")


def test_recipes_without_notes_are_read(tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_text("dataset: birds\n")
    assert (read_recipe(tmp_path).files, read_recipe(tmp_path).notes) == ((), ())


WRONG = {
    "empty": b"",
    "list": b"- a\n",
    "files of numbers": b"dataset: birds\nfiles: [1]\n",
    "files that lead out": b"dataset: birds\nfiles: [../thesis]\n",
    "files that are no names": b"dataset: birds\nfiles: ['/']\n",
    "a text for files": b"dataset: birds\nfiles: labels.csv\n",
    "no dataset": b"files: []\n",
    "a number for a dataset": b"dataset: 1\n",
    "calibration": b"dataset: birds\ncalibration: [1]\n",
    "notes": b"dataset: birds\nnotes: {a: b}\n",
    "lists in lists": b"files: " + b"[" * 3000 + b"]" * 3000,
    "mappings in mappings": b"{a: " * 3000 + b"1" + b"}" * 3000,
    "lists without an end": b"[" * 200_000,
    "merges": b"a0: &a0 {x: 1}\n"
    + b"".join(b"a%d: &a%d {<<: [%s]}\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)),
    "itself": b"dataset: birds\nfiles: &a [*a]\n",
    "python": b"dataset: !!python/object/apply:os.system ['true']\n",
    "no text": b"\xff\xfe",
    "NUL": bytes(40),
    "a date": b"dataset: birds\nwritten: 2001-99-99\n",
    "digits": b"dataset: birds\nseeds: [" + b"9" * 10_000 + b"]\n",
    "large": b"# " + b"x" * (9 << 20),
}


@pytest.mark.parametrize("kind", WRONG)
def test_another_content_is_a_named_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_bytes(WRONG[kind])
    with at_most(5), pytest.raises(BadInput) as refused:
        read_recipe(tmp_path)
    assert str(tmp_path / RECIPE) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert default_folder(tmp_path, "anesthesia") == tmp_path


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "none"])
def test_what_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / RECIPE
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    with at_most(5), pytest.raises(BadInput, match="found"):
        read_recipe(tmp_path)
