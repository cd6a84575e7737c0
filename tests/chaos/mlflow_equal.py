"""Whether MLflow has what the record says, and nothing else: trials, cells with their ranks, and the run on top."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crowdsweep.analysis.sweep import analysed
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import Status
from crowdsweep.record.shown import one_each, shown_trials
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import written_files

ENDED = {Status.OK: "FINISHED", Status.FAILED: "FAILED", Status.STOPPED: "KILLED"}
MOST_RUNS = 5000


def differences(store: Path, uri: str, experiment: str) -> Iterator[str]:
    """Yields in words what MLflow says otherwise than the record.

    Args:
        store: of the sweep.
        uri: where its runs are.
        experiment: that they are in.
    """
    from mlflow import MlflowClient

    os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        yield f"MLflow: it has no experiment {experiment!r}"
        return
    runs = client.search_runs([found.experiment_id], max_results=MOST_RUNS)
    times = Counter(run.data.tags.get("crowdsweep.key", "") for run in runs)
    yield from (f"MLflow: {key} has {number} runs" for key, number in times.items() if number > 1)
    yield from (f"MLflow: run {run.info.run_id} still runs" for run in runs if run.info.status == "RUNNING")
    left = {run.data.tags["crowdsweep.key"]: run for run in runs if "crowdsweep.key" in run.data.tags}
    yield from _trials(store, left)
    page = sweep_page(analysed(store), written_files(store))
    for key, shown in page.cells.items():
        run = left.pop(key, None)
        if run is None:
            yield f"MLflow: cell {shown.name} has no run"
        elif (run.info.run_name, run.data.tags.get("crowdsweep.order")) != (shown.name, shown.order):
            yield f"MLflow: cell {shown.name}, order {shown.order}, is called {run.info.run_name} there"
        else:
            yield from _metrics(shown.name, run, shown.metrics)
    tops = [run for run in left.values() if run.data.tags.get("crowdsweep.kind") == "sweep"]
    if len(tops) != 1 or len(left) != 1:
        yield f"MLflow: {len(tops)} runs on top, {len(left) - len(tops)} that the record does not know"
        return
    yield from _on_top(client, tops[0], page)


def _trials(store: Path, left: dict[str, Any]) -> Iterator[str]:
    state = read_journal(store)
    for key, trial in one_each(shown_trials(state, every=True)).items():
        result, run = state.results[key], left.pop(key, None)
        if run is None:
            yield f"MLflow: trial {key} has no run"
            continue
        if run.info.status != ENDED[result.status]:
            yield f"MLflow: trial {key} is {run.info.status} in place of {ENDED[result.status]}"
        if run.data.tags.get("crowdsweep.asked") != str(trial.asked).lower():
            yield f"MLflow: trial {key} is asked for: {trial.asked}; there {run.data.tags.get('crowdsweep.asked')}"
        yield from _metrics(f"trial {key}", run, result.metrics)


def _metrics(whose: str, run: Any, wanted: Mapping[str, float]) -> Iterator[str]:
    for name, value in wanted.items():
        got = run.data.metrics.get(name, float("inf"))
        if not abs(got - value) <= 1e-12 * max(1.0, abs(value)):
            yield f"MLflow: {name} of {whose} is {got}, not {value}"


def _on_top(client: Any, top: Any, page: Any) -> Iterator[str]:
    if top.info.status != "FINISHED":
        yield f"MLflow: the run on top is {top.info.status}"
    for name, value in page.tags.items():
        if top.data.tags.get(name) != value:
            yield f"MLflow: {name} of the run on top is {top.data.tags.get(name)!r}, not {value!r}"
    yield from _metrics("the run on top", top, page.metrics)
    for name, content in page.files.items():
        try:
            same = Path(client.download_artifacts(top.info.run_id, name)).read_bytes() == content
        except Exception as error:  # noqa: BLE001 - whatever keeps it from being read
            yield f"MLflow: {name} of the run on top cannot be read: {error}"
        else:
            if not same:
                yield f"MLflow: {name} of the run on top is not the report's"
