"""What a journal says, folded into mappings as its rows come in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from crowdsweep.trial.events import (
    BatchLost,
    Event,
    PointProposed,
    PointScored,
    PointsSelected,
    RunsCreated,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.trial.result import Status, TrialResult
from crowdsweep.trial.spec import Phase, TrialSpec


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """A read-only view of a sweep.

    The mappings of `Journal.state` follow the journal while it is written; those of `read_journal` stand still.

    Attributes:
        name, config, plan, environment: of the latest `SweepStarted`; empty before the first.
        specs: by trial key, in the order they were planned. A trial that was planned in both phases stands here with
            `report`.
        phases: by trial key: all phases it was planned in, in that order.
        results: by trial key, in the order they came. One for each key: the first that is ok, else the first.
        lost: by trial key: how often its actor died under it.
        proposals: by study, in the order they were asked for.
        values: by study: number → value, None where the point failed. A number that is missing is still open.
        selected: by study that has ended: numbers, best first.
        runs: by MLflow tracking URI, all `RunsCreated` of it as one.
        started, finished: of every driver that worked on this sweep, in order.
        status: `new` before the first driver, `running` from the latest `SweepStarted` on, else that of the latest
            `SweepFinished`.
        rows: how many were read or written.
    """

    name: str
    config: Mapping[str, Any]
    plan: Mapping[str, Any]
    environment: Mapping[str, str]
    specs: Mapping[str, TrialSpec]
    phases: Mapping[str, Sequence[Phase]]
    results: Mapping[str, TrialResult]
    lost: Mapping[str, int]
    proposals: Mapping[str, Sequence[PointProposed]]
    values: Mapping[str, Mapping[int, float | None]]
    selected: Mapping[str, Sequence[int]]
    runs: Mapping[str, RunsCreated]
    started: Sequence[SweepStarted]
    finished: Sequence[SweepFinished]
    status: SweepStatus
    rows: int


@dataclass(kw_only=True)
class StateFold:
    """Takes the journal's events one at a time, in order; constant time each."""

    status: SweepStatus = SweepStatus.NEW
    rows: int = 0
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    phases: dict[str, tuple[Phase, ...]] = field(default_factory=dict)
    results: dict[str, TrialResult] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    proposals: dict[str, list[PointProposed]] = field(default_factory=dict)
    values: dict[str, dict[int, float | None]] = field(default_factory=dict)
    selected: dict[str, tuple[int, ...]] = field(default_factory=dict)
    runs: dict[str, RunsCreated] = field(default_factory=dict)
    started: list[SweepStarted] = field(default_factory=list)
    finished: list[SweepFinished] = field(default_factory=list)
    _own_runs: dict[str, dict[str, str]] = field(default_factory=dict)

    def is_news(self, event: Event) -> bool:
        """Whether an event would change the state: a trial finishes once, and only success supersedes failure."""
        match event:
            case TrialFinished(result=result):
                known = self.results.get(result.key)
                return known is None or (known.status is not Status.OK and result.status is Status.OK)
            case TrialPlanned(spec=spec):
                return spec.phase not in self.phases.get(spec.key, ())
            case _:
                return True

    def take(self, event: Event) -> None:
        """Takes one event that stands in the journal."""
        self.rows += 1
        if not self.is_news(event):
            return
        match event:
            case TrialFinished(result=result):
                self.results[result.key] = result
            case TrialPlanned(spec=spec):
                self._plan(spec)
            case BatchLost(keys=keys):
                for key in keys:
                    self.lost[key] = self.lost.get(key, 0) + 1
            case PointProposed(study=study):
                self.proposals.setdefault(study, []).append(event)
            case PointScored(study=study, number=number, value=value):
                self.values.setdefault(study, {})[number] = value
            case PointsSelected(study=study, numbers=numbers):
                self.selected[study] = tuple(numbers)
            case RunsCreated():
                self._merge(event)
            case SweepStarted():
                self.started.append(event)
                self.status = SweepStatus.RUNNING
            case SweepFinished(status=status):
                self.finished.append(event)
                self.status = status
            case _:
                raise TypeError(f"{type(event).__name__} is not journalled")

    def view(self) -> JournalState:
        """Returns the state as it stands; constant time, nothing is copied but the lists of drivers."""
        latest = self.started[-1] if self.started else None
        return JournalState(
            name=latest.name if latest else "",
            config=latest.config if latest else {},
            plan=latest.plan if latest else {},
            environment=latest.environment if latest else {},
            specs=MappingProxyType(self.specs),
            phases=MappingProxyType(self.phases),
            results=MappingProxyType(self.results),
            lost=MappingProxyType(self.lost),
            proposals=MappingProxyType(self.proposals),
            values=MappingProxyType(self.values),
            selected=MappingProxyType(self.selected),
            runs=MappingProxyType(self.runs),
            started=tuple(self.started),
            finished=tuple(self.finished),
            status=self.status,
            rows=self.rows,
        )

    def _plan(self, spec: TrialSpec) -> None:
        phases = self.phases.get(spec.key, ())
        self.phases[spec.key] = (*phases, spec.phase)
        if not phases or spec.phase == "report":
            self.specs[spec.key] = spec

    def _merge(self, created: RunsCreated) -> None:
        known = self.runs.get(created.tracking_uri)
        if known is None or known.experiment_id != created.experiment_id:
            own = self._own_runs[created.tracking_uri] = dict(created.runs)
            self.runs[created.tracking_uri] = replace(created, runs=MappingProxyType(own))
        else:
            self._own_runs[created.tracking_uri].update(created.runs)
