"""Writes a sweep's page into MLflow: the run on top, and the names and ranks of its cells. Once a sweep has ended, as
ranks change until then; it can be repeated, and changes only what is otherwise.
"""

from collections.abc import Mapping, Sequence

from crowdsweep.errors import BadInput
from crowdsweep.tracking.background import Rejected
from crowdsweep.tracking.mlflow_door import MlflowDoor, MlflowException
from crowdsweep.tracking.run_book import StoredRun
from crowdsweep.tracking.run_records import ASKED, KEY, KIND, STORE, SWEEP, TAG_LIMIT, RunRecord
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
from crowdsweep.tracking.uri import discreetly, without_credentials

_NAME = "mlflow.runName"
_ROOM = 40


def publish(uri: str, experiment: str, page: SweepPage) -> None:
    """Writes a sweep's page.

    Args:
        uri: MLflow's tracking URI.
        experiment: name of the experiment that holds the sweep's runs.
        page: what is to stand there.

    Raises:
        BadInput: MLflow cannot be written.
    """
    try:
        write_page(MlflowDoor(uri, experiment), page)
    except (OSError, MlflowException, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)}: the sweep's own page cannot be written: "
            f"{discreetly(str(error), uri)}; see to it, then do the same again"
        ) from None


def write_page(door: MlflowDoor, page: SweepPage) -> StoredRun:
    """Writes a sweep's page through a door, and returns the run on top; may raise whatever MLflow does."""
    door.open()
    try:
        top, cells = _found(door, page)
        for key, run in cells.items():
            if shown := page.cells.get(key):
                _write_cell(door, run, shown)
        if top is None:
            top = _create(door, page)
        tags = {**page.tags, DESCRIPTION: _description(door, page, top, cells), ORDER: FIRST, ASKED: "true"}
        if not (tags.items() <= top.tags.items() and page.metrics.items() <= top.metrics.items()):
            door.summarise(top.run_id, page.metrics, step=0, tags=tags)
        for name, content in page.files.items():
            door.write_file(top, name, content)
        if top.status != "FINISHED":
            door.end(top.run_id, "FINISHED")
        door.mark({**KIND_OF_EXPERIMENT, **view(page.params)})
    finally:
        door.close()
    return top


def _found(door: MlflowDoor, page: SweepPage) -> tuple[StoredRun | None, dict[str, StoredRun]]:
    """Returns the run on top, where there is one, and the cells' by key."""
    top, cells = None, {}
    for run in door.runs(f"tags.`{KIND}` != 'trial'"):
        if run.tags.get(STORE, page.store) != page.store or run.tags.get(SWEEP) != page.sweep:
            continue
        if run.tags[KIND] == "sweep":
            top = top or run
        else:
            cells.setdefault(run.tags.get(KEY, ""), run)
    return top, cells


def _write_cell(door: MlflowDoor, run: StoredRun, shown: CellShown) -> None:
    metrics = shown.metrics or ({RANK: NOT_RANKED} if run.metrics.get(RANK, NOT_RANKED) != NOT_RANKED else {})
    changed = {name: value for name, value in metrics.items() if run.metrics.get(name) != value}
    if changed or run.tags.get(ORDER) != shown.order:
        door.summarise(run.run_id, changed, step=0, tags={ORDER: shown.order})
    if run.tags.get(_NAME) != shown.name:
        door.rename(run.run_id, shown.name)


def _create(door: MlflowDoor, page: SweepPage) -> StoredRun:
    tags = {KIND: "sweep", KEY: f"sweep {page.store}", SWEEP: page.sweep, STORE: page.store, ORDER: FIRST}
    tags["mlflow.source.name"] = "crowdsweep"
    return door.create(RunRecord(kind="sweep", key=tags[KEY], name=page.sweep, tags=tags, params={}))


def _description(door: MlflowDoor, page: SweepPage, top: StoredRun, cells: Mapping[str, StoredRun]) -> str:
    _, experiment = door.place
    links = [f"[{name}]({file_link(top.run_id, experiment, name)})" for name in page.files]
    parts = ["Files: " + ", ".join(links)]
    for title, keys in page.compared.items():
        runs = [cells[key].run_id for key in keys if key in cells]
        if len(runs) > 1:
            parts.append(f"[{title}]({compare_link(runs, experiment)})")
    return _fitting([*page.description[:1], *parts, *page.description[1:]])


def _fitting(parts: Sequence[str]) -> str:
    """Returns as many paragraphs as a tag holds."""
    text = ""
    for part in parts:
        if len(text) + len(part) > TAG_LIMIT - _ROOM:
            return text + "More stands in the report."
        text += part + "\n\n"
    return text
