"""Writes a sweep's page into MLflow: the top run, and the names and ranks of the cells. It is written after the sweep
has ended, because ranks change until then.

Only a comparison of MLflow with the record decides what is written. The next page is therefore right after a kill, a
repair, a move or a copy, and where nothing differs nothing is written.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_failures import TrackingFailed, words_of
from crowdsweep.tracking.run_book import Rejected, StoredRun, delete_doubles
from crowdsweep.tracking.run_records import (
    ASKED,
    BETWEEN,
    FILES,
    KEY,
    KIND,
    NAME,
    PREFIX,
    STORE,
    SWEEP,
    TAG_LIMIT,
    RunRecord,
)
from crowdsweep.tracking.sweep_page import (
    DESCRIPTION,
    FIRST,
    KIND_OF_EXPERIMENT,
    NOT_RANKED,
    ORDER,
    RANK,
    CellShown,
    SweepPage,
    compare_link,
    file_link,
    view,
)
from crowdsweep.tracking.time_limit import with_time_limit

_ROOM = 40


def publish(uri: str, experiment: str, page: SweepPage) -> None:
    """Writes a sweep's page into MLflow.

    Raises:
        TrackingFailed: MLflow cannot be written; the message says why, in one line.
    """
    door = MlflowConnection(uri, experiment)
    try:
        with_time_limit(door, lambda _: write_page(door, page))
    except (OSError, Rejected) as error:
        raise TrackingFailed(words_of(error, uri)) from None


def write_page(door: MlflowConnection, page: SweepPage) -> StoredRun:
    """Writes a sweep's page through a door, and returns the top run; may raise whatever the door does."""
    door.open()
    try:
        top, cells, others = _found(door, page)
        for run in others:
            door.delete(run.run_id)  # duplicates of the top run
        for key, run in cells.items():
            _write_cell(door, run, page.cells.get(key) or _unknown(run))
        if top is None:
            top = _create(door, page)
            delete_doubles(door, page.store, page.sweep, {_key(page): top.run_id})
        digest = _digest(page.files)
        if top.tags.get(FILES) != digest or not _sizes(page.files).items() <= door.files(top).items():
            if top.tags.get(FILES):
                door.tag(top.run_id, FILES, "")  # no digest holds until all files are written
            door.write_files([(top, name, content) for name, content in page.files.items()])
        tags = {**page.tags, DESCRIPTION: _description(door, page, top, cells), ORDER: FIRST, ASKED: "true"}
        tags[FILES] = digest  # last, after the files
        if not (tags.items() <= top.tags.items() and page.metrics.items() <= top.metrics.items()):
            door.summarise(top.run_id, page.metrics, step=0, tags=tags)
        if top.status != "FINISHED":
            door.end(top.run_id, "FINISHED")
        door.mark({**KIND_OF_EXPERIMENT, **view(page.params)})
    finally:
        door.close()
    return top


def _found(door: MlflowConnection, page: SweepPage) -> tuple[StoredRun | None, dict[str, StoredRun], list[StoredRun]]:
    """Returns the top run (None where there is none), the runs of cells by key, and duplicates of the top run."""
    cells: dict[str, StoredRun] = {}
    tops: list[StoredRun] = []
    for run in door.runs(f"tags.`{KIND}` != 'trial'"):
        if run.tags.get(STORE) != page.store or run.tags.get(SWEEP) != page.sweep:
            continue
        if run.tags[KIND] == "sweep":
            tops.append(run)
        else:
            cells.setdefault(run.tags.get(KEY, ""), run)
    return (tops[0] if tops else None), cells, tops[1:]


def _unknown(run: StoredRun) -> CellShown:
    """Returns how to show a cell that the record does not know: one of a copy of the store, or of lost rows."""
    parts = (run.tags.get(PREFIX + "label", ""), run.tags.get(PREFIX + "dataset", ""))
    return CellShown(name=BETWEEN.join(part for part in parts if part) or run.tags.get(NAME, ""))


def _digest(files: Mapping[str, bytes]) -> str:
    found = blake2b(digest_size=16)
    for name, content in sorted(files.items()):
        found.update(f"{name} {len(content)} ".encode())
        found.update(content)
    return found.hexdigest()


def _sizes(files: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(content) for name, content in files.items()}


def _write_cell(door: MlflowConnection, run: StoredRun, shown: CellShown) -> None:
    metrics = dict(shown.metrics)
    if RANK not in metrics and run.metrics.get(RANK, NOT_RANKED) != NOT_RANKED:
        metrics[RANK] = NOT_RANKED
    changed = {name: value for name, value in metrics.items() if run.metrics.get(name) != value}
    if changed or run.tags.get(ORDER) != shown.order:
        door.summarise(run.run_id, changed, step=0, tags={ORDER: shown.order})
    if run.tags.get(NAME) != shown.name:
        door.rename(run.run_id, shown.name)


def _create(door: MlflowConnection, page: SweepPage) -> StoredRun:
    tags = {KIND: "sweep", KEY: _key(page), SWEEP: page.sweep, STORE: page.store, ORDER: FIRST}
    tags["mlflow.source.name"] = "crowdsweep"
    return door.create(RunRecord(kind="sweep", key=tags[KEY], name=page.sweep, tags=tags, params={}))


def _key(page: SweepPage) -> str:
    return f"sweep {page.store}"


def _description(door: MlflowConnection, page: SweepPage, top: StoredRun, cells: Mapping[str, StoredRun]) -> str:
    _, experiment = door.place
    links = [f"[{name}]({file_link(top.run_id, experiment, name)})" for name in page.files]
    parts = ["Files: " + ", ".join(links)]
    for title, keys in page.compared.items():
        runs = [cells[key].run_id for key in keys if key in cells]
        if len(runs) > 1:
            parts.append(f"[{title}]({compare_link(runs, experiment)})")
    return _fitting([*page.description[:1], *parts, *page.description[1:]])


def _fitting(parts: Sequence[str]) -> str:
    """Returns as many paragraphs as fit into a tag, and a note where some are left out."""
    text = ""
    for part in parts:
        if len(text) + len(part) > TAG_LIMIT - _ROOM:
            return text + "More is in the report."
        text += part + "\n\n"
    return text
