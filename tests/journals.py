"""Sweeps that never ran, as events: for whoever reads journals and wants to choose the numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crowdsweep.models import registered
from crowdsweep.record.events import (
    Event,
    PointProposed,
    PointScored,
    PointsSelected,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.record.kinds import apply_event
from crowdsweep.record.plan_record import CellRecord, PlanRecord
from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.spec import Phase, TrialSpec
from crowdsweep.record.state import JournalState, MutableState


def made_up_trials(
    model: str,
    dataset: str,
    metrics: Sequence[Mapping[str, float] | None],
    *,
    dataset_params: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    point: Mapping[str, Any] | None = None,
    phase: Phase = "report",
    label: str = "",
    search: str = "",
    first_seed: int = 0,
    wall_s: float = 1.0,
    confusion: Sequence[Sequence[float]] | None = None,
) -> list[Event]:
    """Returns the events of one cell: its trial at seed `first_seed` + i has metrics[i]; None makes it fail."""
    events: list[Event] = []
    for place, numbers in enumerate(metrics):
        spec = TrialSpec(
            model=model,
            params={**(params or {}), **(point or {})},
            model_version=1,
            dataset=dataset,
            dataset_params=dataset_params or {},
            fingerprint=f"made up {dataset}",
            seed=first_seed + place,
            phase=phase,
            point=point or {},
        )
        failure = None
        if numbers is None:
            failure = Failure(kind="FitFailed", message="diverged <b>here</b>", traceback="Traceback: a & b")
        result = TrialResult(
            key=spec.key,
            status=Status.OK if failure is None else Status.FAILED,
            metrics=numbers or {},
            confusion=confusion if failure is None else None,
            iterations=20,
            wall_s=wall_s,
            batch_wall_s=wall_s * len(metrics),
            batch_size=len(metrics),
            peak_bytes=2**28,
            host="somewhere",
            failure=failure,
        )
        events += [TrialPlanned(spec=spec, label=label or model, search=search), TrialFinished(result=result)]
    return events


def made_up_search(
    search: str,
    model: str,
    dataset: str,
    points: Sequence[Mapping[str, Any]],
    values: Sequence[float | None],
    selected: Sequence[int],
    dataset_params: Mapping[str, Any] | None = None,
) -> list[Event]:
    """Returns the events of one search without its trials."""
    events: list[Event] = []
    for number, (point, value) in enumerate(zip(points, values, strict=True)):
        proposed = PointProposed(
            search=search, number=number, point=point, model=model, dataset=dataset, dataset_params=dataset_params or {}
        )
        events += [proposed, PointScored(search=search, number=number, value=value)]
    return [*events, PointsSelected(search=search, numbers=selected)]


def made_up_sweep(
    events: Iterable[Event],
    *,
    models: Sequence[Mapping[str, Any]],
    name: str = "made-up",
    config: Mapping[str, Any] | None = None,
    searches: Sequence[CellRecord] = (),
    status: SweepStatus | None = SweepStatus.DONE,
) -> list[Event]:
    """Returns a whole sweep's events: the start, these, and the end (none where `status` is None). Its plan asks for
    every trial.

    Args:
        models: entries of the sweep file with every default (`name`, `label`, `params`, perhaps `search`).
        config: further keys of the sweep file.
        searches: as its plan has them; what they leave out is made up from the events.
    """
    events = list(events)
    started = SweepStarted(
        name=name,
        config={"name": name, "models": list(models), **(config or {})},
        plan=plan_asking_for(events, searches),
        environment={"crowdsweep": "0.1.0", "python": "3.11"},
        resumed=False,
        time=0.0,
    )
    ended = [] if status is None else [SweepFinished(status=status, time=1.0)]
    return [started, *events, *ended]


def plan_asking_for(events: Iterable[Event], searches: Sequence[CellRecord] = ()) -> PlanRecord:
    """Returns the plan of a sweep in which these events happened, none of them for nothing.

    Args:
        events: of the sweep; its searches propose points before they score them.
        searches: those of which more is known than the events say.
    """
    cells: dict[tuple[str, str], CellRecord] = {}
    labels: dict[str, str] = {}
    points: dict[str, list[PointProposed]] = {}
    n_seeds = 0
    for event in events:
        if isinstance(event, PointProposed):
            points.setdefault(event.search, []).append(event)
        if isinstance(event, TrialPlanned):
            spec, label = event.spec, event.label or event.spec.model
            labels.setdefault(event.search, label)
            n_seeds = max(n_seeds, spec.seed + 1 if spec.phase == "report" else 0)
            if not event.search:
                cells.setdefault((spec.cell_key, label), _cell(spec.cell_key, label, spec))
    known = {search.key: search for search in searches}
    found = [
        replace(
            known.get(key) or _cell(key, labels.get(key, first.model), first),
            model=first.model,
            dataset=first.dataset,
            dataset_params=first.dataset_params,
            points=(key in known and known[key].points) or max(point.number for point in proposed) + 1,
        )
        for key, proposed in points.items()
        for first in proposed[:1]
    ]
    return PlanRecord(cells=tuple(cells.values()), searches=tuple(found), report_seeds=n_seeds)


def _cell(key: str, label: str, of: TrialSpec | PointProposed) -> CellRecord:
    sees_gold = of.model in registered.model_names() and "gold" in registered.model_info(of.model).needs
    return CellRecord(
        key=key,
        label=label,
        model=of.model,
        dataset=of.dataset,
        dataset_params=of.dataset_params,
        sees_gold=sees_gold,
        metric="value",
        goal="maximize",
    )


def folded(events: Iterable[Event]) -> JournalState:
    """Returns what a journal with these events says."""
    known = MutableState()
    for event in events:
        apply_event(known, event)
    return known.view()
