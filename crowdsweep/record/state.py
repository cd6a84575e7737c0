"""The state of a sweep that the rows of its journal add up to, and the read-only view of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from crowdsweep.record.events import PointProposed, PointsTold, RunsCreated, SweepFinished, SweepStarted, SweepStatus
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import Phase, TrialSpec


class Role(NamedTuple):
    """A purpose for which a trial was planned. A trial is run only once, but may have several roles.

    Attributes:
        label: the sweep file's name for the model.
        dataset: as the sweep file named it; the same data may later be in another folder.
        search: key of the search that the trial belongs to; empty for a fixed point.
    """

    phase: Phase
    label: str
    dataset: str
    search: str = ""
    point: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """A read-only view of a sweep: everything in its journal, whether or not the latest plan still asks for it.

    `record.shown` selects what the latest plan asks for. The mappings of `Journal.state` change while the journal is
    written; those of `read_journal` do not.

    Attributes:
        name, config, plan, environment: of the latest `SweepStarted`; empty before the first.
        specs: by trial key, in the order of first planning. For a trial that was planned several times, the latest spec
            of the report phase, else the latest.
        roles: by trial key, in the order of planning.
        results: by trial key, in the order of arrival. Each key has one result: the first of the best rank, where ok is
            best, then failed, failed by infrastructure, and stopped.
        lost: by trial key: how often the trial's actor died while it ran.
        told: by search: the points of earlier sweeps that it was told first, which are not its own.
        proposals: by search, in the order of their numbers.
        values: by search: number → value, None if the point failed. A missing number is still open.
        further: by search with several objectives: number → values of all objectives but the first.
        selected: by search that has ended: numbers of the selected points, best first.
        runs: by MLflow tracking URI, with all its `RunsCreated` merged into one.
        started, finished: of every driver that ran this sweep, in order.
        status: `new` before the first driver, `running` from the latest `SweepStarted` on, else that of the latest
            `SweepFinished`.
        rows: number of rows read or written.
    """

    name: str
    config: Mapping[str, Any]
    plan: PlanRecord
    environment: Mapping[str, str]
    specs: Mapping[str, TrialSpec]
    roles: Mapping[str, Sequence[Role]]
    results: Mapping[str, TrialResult]
    lost: Mapping[str, int]
    told: Mapping[str, PointsTold]
    proposals: Mapping[str, Sequence[PointProposed]]
    values: Mapping[str, Mapping[int, float | None]]
    further: Mapping[str, Mapping[int, Sequence[float]]]
    selected: Mapping[str, Sequence[int]]
    runs: Mapping[str, RunsCreated]
    started: Sequence[SweepStarted]
    finished: Sequence[SweepFinished]
    status: SweepStatus
    rows: int


@dataclass(kw_only=True)
class MutableState:
    """The mutable state of a sweep, to which `kinds.take` applies each row; fields as in `JournalState`.

    Attributes:
        roles_before: of the trial that was planned last; other seeds of its cell share them.
    """

    status: SweepStatus = SweepStatus.NEW
    rows: int = 0
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    roles: dict[str, tuple[Role, ...]] = field(default_factory=dict)
    results: dict[str, TrialResult] = field(default_factory=dict)
    roles_before: tuple[Role, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)
    told: dict[str, PointsTold] = field(default_factory=dict)
    proposals: dict[str, list[PointProposed]] = field(default_factory=dict)
    values: dict[str, dict[int, float | None]] = field(default_factory=dict)
    further: dict[str, dict[int, tuple[float, ...]]] = field(default_factory=dict)
    selected: dict[str, tuple[int, ...]] = field(default_factory=dict)
    runs: dict[str, RunsCreated] = field(default_factory=dict)
    started: list[SweepStarted] = field(default_factory=list)
    finished: list[SweepFinished] = field(default_factory=list)

    def view(self) -> JournalState:
        """Returns a read-only view of the current state; only the lists of drivers are copied."""
        latest = self.started[-1] if self.started else None
        return JournalState(
            name=latest.name if latest else "",
            config=latest.config if latest else {},
            plan=latest.plan if latest else PlanRecord(),
            environment=latest.environment if latest else {},
            specs=MappingProxyType(self.specs),
            roles=MappingProxyType(self.roles),
            results=MappingProxyType(self.results),
            lost=MappingProxyType(self.lost),
            told=MappingProxyType(self.told),
            proposals=MappingProxyType(self.proposals),
            values=MappingProxyType(self.values),
            further=MappingProxyType(self.further),
            selected=MappingProxyType(self.selected),
            runs=MappingProxyType(self.runs),
            started=tuple(self.started),
            finished=tuple(self.finished),
            status=self.status,
            rows=self.rows,
        )

    def copied(self) -> JournalState:
        """Returns a copy of the current state, which later rows do not change."""
        return replace(
            self.view(),
            specs=dict(self.specs),
            roles=dict(self.roles),
            results=dict(self.results),
            lost=dict(self.lost),
            told=dict(self.told),
            proposals={search: tuple(points) for search, points in self.proposals.items()},
            values={search: dict(values) for search, values in self.values.items()},
            further={search: dict(values) for search, values in self.further.items()},
            selected=dict(self.selected),
            runs=dict(self.runs),
        )
