"""Arrays of trials: what is kept of them, where, and in which order."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from crowdsweep.errors import FitFailed, JournalError
from crowdsweep.journal.artifacts import array_of, content_of, place_of
from crowdsweep.journal.codec import encode
from crowdsweep.journal.journal import Journal, open_rows
from crowdsweep.journal.objects import ObjectRows
from crowdsweep.journal.rows import Rows
from crowdsweep.testing.mirror_checks import ok, started
from crowdsweep.trial import artifacts
from crowdsweep.trial.artifacts import Artifact, within_limit
from crowdsweep.trial.events import TrialFinished

ARRAYS = {
    "shares": np.array([0.5, 0.25, np.nan]),
    "counts": np.arange(6, dtype=np.int32).reshape(2, 3),
    "names": np.array(["a", "déjà vu"]),
    "none": np.zeros((0, 4), dtype=bool),
}


def local(folder: Path, write: bool) -> Rows:
    return open_rows(folder, write=write)


def objects(folder: Path, write: bool) -> Rows:
    return ObjectRows(SubTreeFileSystem(str(folder), LocalFileSystem()), "bucket/sweep", write=write, settle_s=0.0)


@pytest.mark.parametrize("open_place", [local, objects])
def test_arrays_come_back_as_they_were(open_place: Callable[[Path, bool], Rows], tmp_path: Path) -> None:
    journal = Journal(tmp_path, rows=open_place(tmp_path, True))
    kept = journal.keep(ARRAYS)
    assert kept == journal.keep({name: array.copy() for name, array in ARRAYS.items()})
    journal.handle_many([started(), TrialFinished(result=replace(ok("k").result, kept=kept))])
    journal.close()
    journal = Journal(tmp_path, rows=open_place(tmp_path, True))
    told = journal.state.results["k"].kept
    journal.close()
    assert told == kept
    for name, array in ARRAYS.items():
        back = array_of(open_place(tmp_path, False), told[name])
        assert back is not None
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert (told[name].dtype, told[name].shape) == (array.dtype.str, array.shape)
        np.testing.assert_array_equal(back, array)
    assert len(list(tmp_path.rglob("*.npy"))) == len(ARRAYS), "equal arrays are kept once"
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("open_place", [local, objects])
def test_only_who_writes_the_journal_writes_arrays(open_place: Callable[[Path, bool], Rows], tmp_path: Path) -> None:
    rows = open_place(tmp_path, True)
    rows.put("artifacts/a.npy", b"first")
    rows.put("artifacts/a.npy", b"second")
    rows.close()
    for closed in (rows, open_place(tmp_path, False)):
        with pytest.raises(JournalError, match="not open for writing"):
            closed.put("artifacts/b.npy", b"x")
        assert closed.get("artifacts/a.npy") == b"first"
        assert closed.get("artifacts/b.npy") is None


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver dies while it writes an array: the next one writes it again, and what is named is whole."""
    journal = Journal(tmp_path)

    def dies(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", dies)
        with pytest.raises(KeyboardInterrupt):
            journal.keep(ARRAYS)
    assert not list(tmp_path.rglob("*.npy"))
    kept = journal.keep(ARRAYS)
    journal.close()
    assert {place_of(artifact) for artifact in kept.values()} == {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.npy")
    }


def test_a_disk_that_cannot_hold_them_stops_the_record(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match="could not be written"):
        journal.keep(ARRAYS)
    with pytest.raises(JournalError, match="could not be written"):
        journal.handle(ok("k"))
    journal.close()


def test_what_is_gone_or_was_too_large_is_none(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, write=False)
    assert array_of(rows, Artifact(dtype="<f8", shape=(9,))) is None
    assert content_of(rows, Artifact(digest="0" * 32, dtype="<f8", shape=(9,))) is None


def test_arrays_never_stand_in_a_row() -> None:
    result = replace(ok("k").result, artifacts=ARRAYS, kept={"big": Artifact(dtype="<f8", shape=(9,))})
    row = encode(TrialFinished(result=result))
    assert "artifacts" not in row
    assert '"kept":{"big":{"digest":"","dtype":"<f8","shape":[9]}}' in row


def test_the_largest_are_left_out_and_the_record_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert artifacts.MOST_BYTES == 16 * 2**20
    monkeypatch.setattr(artifacts, "MOST_BYTES", 100)
    arrays = {"large": np.zeros(11), "small": np.zeros(4), "middle": np.zeros(8)}
    kept, left_out = within_limit(arrays)
    assert list(kept) == ["small", "middle"]
    assert left_out == {"large": Artifact(dtype="<f8", shape=(11,))}
    assert within_limit({}) == ({}, {})


def test_what_is_no_array_of_values_is_the_models_fault() -> None:
    with pytest.raises(FitFailed, match=r"extra 'shapes': expected an array of numbers.*got object"):
        within_limit({"shapes": np.array([{"a": 1}], dtype=object)})
