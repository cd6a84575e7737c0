"""Rows that are sealed and chained as ours are and hold what no driver writes: each is one named error."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_up_stores import files_in, sweep

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import JournalDamaged, JournalError
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.rows import START, chain, parse_row
from crowdsweep.views.report_files import write_report


def forged(sound: Path, evil: Path, change: Callable[[dict], None], kind: str = "trial_finished") -> Path:
    """A store whose checksums and chain agree, with one row that says something else."""
    evil.mkdir()
    texts, is_done = [], False
    for line in (sound / "journal.jsonl").read_bytes().splitlines(keepends=True):
        found = parse_row(line)
        assert found is not None
        row = json.loads(found.text)
        if row["kind"] == kind and not is_done:
            change(row["data"][{"trial_finished": "result", "trial_planned": "spec", "sweep_started": "plan"}[kind]])
            is_done = True
        texts.append(json.dumps(row, separators=(",", ":"), ensure_ascii=True))
    (evil / "journal.jsonl").write_bytes(chain(texts, START)[0])
    if (sound / "artifacts").exists():
        shutil.copytree(sound / "artifacts", evil / "artifacts")
    return evil


@pytest.mark.parametrize(
    "digest", ["../../victim/thesis", "/etc/passwd", "x", "\0", "\ud800", "0" * 33, "A" * 32, 5, None, ["0" * 32]]
)
def test_a_digest_that_is_none_is_refused_by_name_and_removes_nothing(digest: object, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    np.save(tmp_path / "victim" / "thesis.npy", np.arange(5))
    before = files_in(tmp_path / "victim")
    evil = forged(
        sweep(tmp_path / "sound"),
        tmp_path / "evil",
        lambda result: result.update(kept={"x": {"digest": digest, "dtype": "<f8", "shape": [3]}}),
    )
    for call in (lambda: repair_journal(evil), lambda: read_journal(evil), lambda: Journal(evil)):
        with pytest.raises(JournalDamaged, match=r"journal\.jsonl, row \d+: a row of kind 'trial_finished'"):
            call()
    assert files_in(tmp_path / "victim") == before


def test_an_array_outside_of_the_store_cannot_be_named() -> None:
    with pytest.raises(ValueError, match="32 hex digits"):
        Artifact(digest="../../victim/thesis", dtype="<f8", shape=(3,))
    with pytest.raises(ValueError, match="lengths"):
        Artifact(dtype="<f8", shape=(-3,))


@pytest.mark.parametrize("confusion", [[1, 2], ["ab", "cd"], [[1.0], [0.5, 0.5]], [[]], [], {}, "x", [{}], [[None]]])
def test_a_matrix_that_is_none_is_one_error(confusion: object, tmp_path: Path) -> None:
    evil = forged(sweep(tmp_path / "sound"), tmp_path / "evil", lambda result: result.update(confusion=confusion))
    with pytest.raises(JournalError, match="trial_finished"):
        write_report(evil)


@pytest.mark.parametrize(
    "value",
    [{"$float": "nan"}, {"$float": "inf"}, 10**400, "0.5", None, []],
    ids=["nan", "inf", "huge", "text", "null", "list"],
)
def test_a_metric_that_is_no_finite_number_is_one_error(value: object, tmp_path: Path) -> None:
    evil = forged(sweep(tmp_path / "sound"), tmp_path / "evil", lambda result: result["metrics"].update(x=value))
    with pytest.raises(JournalDamaged, match="trial_finished"):
        read_journal(evil)


@pytest.mark.parametrize("value", [{"$float": "nan"}, {"$float": "-inf"}, "a\ud800b"])
@pytest.mark.parametrize("name", ["params", "dataset_params", "point"])
def test_parameters_that_no_key_can_be_made_of_are_one_error(name: str, value: object, tmp_path: Path) -> None:
    evil = forged(
        sweep(tmp_path / "sound"), tmp_path / "evil", lambda spec: spec.update({name: {"x": value}}), "trial_planned"
    )
    with pytest.raises(JournalDamaged, match="trial_planned"):
        read_journal(evil)


@pytest.mark.unchecked
def test_odd_values_of_a_record_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole number, and half a character in a name."""

    def change(spec: dict) -> None:
        spec["dataset"] = "a\ud800b"

    asked = forged(
        sweep(tmp_path / "sound"), tmp_path / "asked", lambda plan: change(plan["cells"][0]), "sweep_started"
    )
    first = forged(asked, tmp_path / "first", change, "trial_planned")
    evil = forged(first, tmp_path / "evil", lambda result: result["metrics"].update(test_accuracy=10**15))
    assert run_command_line(["results", str(evil)]) == 0
    assert "a\\ud800b" in capsys.readouterr().out
    write_report(evil)
    beyond = forged(first, tmp_path / "beyond", lambda result: result["metrics"].update(test_accuracy=10**18))
    assert run_command_line(["results", str(beyond)]) == 2
    said = capsys.readouterr().err
    assert ", row " in said, said
    assert "metrics" in said, said
