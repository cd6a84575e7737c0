"""What must hold after a fault and the run that went on: nothing lost, doubled, invented, changed or left behind."""

import csv
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.journal_file import times_finished
from chaos.mlflow_equal import differences
from chaos.person import touched
from chaos.sandbox import Sandbox

from crowdsweep.analysis.trial_table import results_table
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.kept_arrays import content_of
from crowdsweep.record.result import TrialResult
from crowdsweep.record.state import JournalState

COST = ("wall_s", "batch_wall_s", "batch_size", "peak_bytes", "host")
# Of the page: what a trial took, who is cheaper, figures of both, and when it was written.
_COSTS = re.compile(
    r'<td data-label="(?:time per trial|memory)"[^>]*>[^<]*</td>'
    r"|(?:;| and) [^;.]*costs [\d.,]+ times less"
    r"|(?<=\.) [\w-]+ costs [\d.,]+ times less\."
    r'|(?s:(?<=<section id="cost">).*?(?=<table>))'  # figures, which draw it
    r"|\d{4}-\d\d-\d\d \d\d:\d\d UTC"
)
_STORE_FILES = re.compile(
    r"journal\.(jsonl|lock)|artifacts|artifacts/[0-9a-f]{32}\.npy|report\.html|table\.(md|csv|tex)|results\.parquet"
    r"|\.crowdsweep\.json"
)
_MLFLOW_FILES = re.compile(r"mlflow\.db|mlartifacts(/.*)?")
_WORDS = re.compile(r"said-\d+\.txt")
_DAMAGED_COPY = re.compile(r"journal\.jsonl\.damaged-\d+")
ENDS_IN_S = 30.0


def broken_promises(box: Sandbox, fresh: Path) -> Iterator[str]:
    """Yields each promise that does not hold, in words.

    Args:
        box: after the fault, gone on with to its end.
        fresh: the store of the same sweep file that nobody disturbed.
    """
    state, expected = read_journal(box.store), read_journal(fresh)
    yield from _lost(box, state)
    yield from _doubled(box)
    yield from _invented_or_changed(state, expected)
    is_edited = dict(state.config) != dict(expected.config) or set(state.specs) != set(expected.specs)
    yield from _reports(box.store, fresh, page=not is_edited)
    if box.is_tracked:
        yield from _mlflow(box)
    yield from _left_behind(box, state)
    yield from touched(box.persons, box.folder)


def _lost(box: Sandbox, state: JournalState) -> Iterator[str]:
    """What had finished is there; what of it could still be read was not even run again."""
    for key, before in box.known.items():
        after = state.results.get(key)
        if after is None or _numbers(after) != _numbers(before):
            yield f"lost: trial {key} had finished with other numbers: {before} is now {after}"
        elif key in box.kept and after != before:
            yield f"done twice: trial {key} had finished and was run again"


def _doubled(box: Sandbox) -> Iterator[str]:
    for key, times in times_finished(box.journal).items():
        if times > 1 + (key in box.to_be_retried):
            yield f"doubled: trial {key} has finished {times} times"


def _invented_or_changed(state: JournalState, expected: JournalState) -> Iterator[str]:
    """The trials that the sweep file asks for are those of a fresh sweep, each number the same to the last bit."""
    got, wanted = _rows(state), _rows(expected)
    for key in got.keys() - wanted.keys():
        yield f"invented: trial {key}: {got[key]}"
    for key in wanted.keys() - got.keys():
        yield f"missing: trial {key}: {wanted[key]}"
    for key in got.keys() & wanted.keys():
        if got[key] != wanted[key]:
            yield f"changed: trial {key}: {_difference(got[key], wanted[key])}"
    if set(state.specs) == set(wanted):  # nothing else was asked for before
        for part in ("proposals", "values", "selected"):
            if dict(getattr(state, part)) != dict(getattr(expected, part)):
                yield f"changed: {part}: {getattr(state, part)} in place of {getattr(expected, part)}"


def _rows(state: JournalState) -> dict[str, dict[str, Any]]:
    table = results_table(state, "all")
    kept = table.drop_columns([name for name in COST if name in table.column_names])
    return {row["key"]: row for row in kept.to_pylist()}


def _numbers(result: TrialResult) -> tuple[Any, ...]:
    return result.status, dict(result.metrics), result.failure, dict(result.kept), result.iterations, result.objective


def _difference(got: dict[str, Any], wanted: dict[str, Any]) -> str:
    return "; ".join(
        f"{name} {got.get(name)!r} in place of {wanted.get(name)!r}"
        for name in {**got, **wanted}
        if got.get(name) != wanted.get(name)
    )


def _reports(store: Path, fresh: Path, *, page: bool) -> Iterator[str]:
    """Tables are those of the fresh sweep, but for what a trial cost; so is the page, which cites the sweep file."""
    for name in ("table.md", "table.csv", "table.tex", *(["report.html"] if page else [])):
        got, wanted = (readable(path / name) for path in (store, fresh))
        if got != wanted:
            at = next((n for n, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), -1)
            yield f"report: {name} line {at + 1}: {got[at : at + 1]} in place of {wanted[at : at + 1]}"


def readable(path: Path) -> list[str]:
    """Returns the lines of a report without what trials cost: seconds, the last column of the tables, and memory."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        rows = list(csv.DictReader(text.splitlines()))
        return [str({name: cell for name, cell in row.items() if name not in COST}) for row in rows]
    if path.suffix == ".html":
        return _COSTS.sub("", text).splitlines()
    mark = "|" if path.suffix == ".md" else "&"
    return [_before_last(line.removesuffix(mark), mark) for line in text.splitlines()]


def _before_last(line: str, mark: str) -> str:
    return re.sub(" +", " ", line.rpartition(mark)[0]) if mark in line else line


def _mlflow(box: Sandbox) -> Iterator[str]:
    """MLflow has what the record says; where the last run said in a line that it lacks something, after `mirror`."""
    uri = box.environment.get("MLFLOW_TRACKING_URI") or f"sqlite:///{box.store.absolute()}/mlflow.db"
    lacking = list(differences(box.store, uri, box.mapping["name"]))
    if not lacking or "crowdsweep mirror" not in box.last_said:
        yield from lacking
        return
    code, said = box.run(shlex.join(["mirror", box.place]))
    if code:
        yield f"MLflow: `mirror` ends with {code}: {said[-1000:]}"
    yield from differences(box.store, uri, box.mapping["name"])


def _left_behind(box: Sandbox, state: JournalState) -> Iterator[str]:
    deadline = time.monotonic() + ENDS_IN_S
    while (alive := box.processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, line in alive.items():
        yield f"left behind: process {pid}: {line[:200]}"
    for path in sorted(box.store.rglob("*")):
        name = str(path.relative_to(box.store))
        known = _STORE_FILES.fullmatch(name) or (box.is_tracked and _MLFLOW_FILES.fullmatch(name))
        if not known and not (box.repaired and _DAMAGED_COPY.fullmatch(name)):
            yield f"left behind: {name} in the store"
    usual = {"sweep.yaml", "tmp", box.place} | box.expected | {Path(name).parts[0] for name in box.persons}
    for path in sorted(box.folder.iterdir()):
        if path.name not in usual and not _WORDS.fullmatch(path.name):
            yield f"left behind: {path.name} beside the store"
    for path in sorted(path for path in (box.folder / "tmp").iterdir() if not _is_pythons_trial(path)):
        yield f"left behind: {path.name} where temporary files go"
    rows = open_rows(box.store)
    named = {one for result in state.results.values() for one in result.kept.values() if one.digest}
    for one in named:
        if content_of(rows, one) is None:
            yield f"lost: the array {one.digest} that the record names"
    for path in (box.store / "artifacts").glob("*"):
        if path.stem not in {one.digest for one in named}:
            yield f"left behind: {path.name}, which nothing in the record names"


def _is_pythons_trial(path: Path) -> bool:
    """Tells whether a file is what Python's `tempfile` writes and removes when it is first asked for its folder: a kill
    between the two leaves it, whatever the program."""
    return bool(re.fullmatch(r"[a-z0-9_]{8}", path.name)) and path.is_file() and path.read_bytes() in (b"", b"blat")
