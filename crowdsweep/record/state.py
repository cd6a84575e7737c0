"""The state of a journal: the mappings that its rows add up to, and the view of them that others get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from crowdsweep.record.events import PointProposed, PointsTold, RunsCreated, SweepFinished, SweepStarted, SweepStatus
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import Phase, TrialSpec


class Role(NamedTuple):
    """What a trial was asked for. A trial is run once, whoever asks for it: it may have several roles.

    Attributes:
        phase: search or report.
        label: what the sweep file called the model.
        dataset: as the sweep file named it; the same data may lie in another folder later.
        search: key of the search that it belongs to; empty where the point is fixed.
        point: the searched parameters.
    """

    phase: Phase
    label: str
    dataset: str
    search: str = ""
    point: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class JournalState:
    """A read-only view of a sweep: all that stands in its journal, asked for now or earlier (`record.shown`).

    The mappings of `Journal.state` follow the journal while it is written; those of `read_journal` stand still.

    Attributes:
        name, config, plan, environment: of the latest `SweepStarted`; empty before the first.
        specs: by trial key, in the order in which they were first planned; of a trial that was planned several times
            the latest of the report phase, else the latest.
        roles: by trial key: what it was planned for, in that order.
        results: by trial key, in the order they came. One for each key: the first that is ok, else the first.
        lost: by trial key: how often its actor died under it.
        told: by search: what it was told first of earlier sweeps' points, which are none of its own.
        proposals: by search, in the order of their numbers.
        values: by search: number → value, None where the point failed. A number that is missing is still open.
        further: by search of several objectives: number → values of all but the first of them.
        selected: by search that has ended: numbers, best first.
        runs: by MLflow tracking URI, all `RunsCreated` of it as one.
        started, finished: of every driver that worked on this sweep, in order.
        status: `new` before the first driver, `running` from the latest `SweepStarted` on, else that of the latest
            `SweepFinished`.
        rows: how many were read or written.
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
class Known:
    """What is known of a sweep so far: as in `JournalState`, but grown row by row (`kinds.take`)."""

    status: SweepStatus = SweepStatus.NEW
    rows: int = 0
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    roles: dict[str, tuple[Role, ...]] = field(default_factory=dict)
    results: dict[str, TrialResult] = field(default_factory=dict)
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
        """Returns the state as it stands; constant time, nothing is copied but the lists of drivers."""
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
        """Returns the state as it stands, for ever."""
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
