"""What guidance by clusters adds or costs, and what each kind of projection onto clusters does.

Weerasooriya, Ororbia and Homan put a classifier around a model of clusters: it learns the distributions of clusters
instead of the items' own, and its predictions are projected onto clusters. The section sets, for each such model, its
classifier's predictions as they are beside the plain classifier's (`pd` with the same network, the best where there are
several), and projected ones beside those as they are, on the same seeds and items, whatever the sign.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted import Place, counted, scores_of
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.paired import SideBySide, side_by_side
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

PLAIN = "pd"
_SNAP = "test_snap"  # the hyper-parameter of guided models, and what their predictor's uses are called after
Use = Literal["none", "soft", "hard"]
"""What is done with a guided classifier's prediction: nothing, or it is projected onto all clusters or the best one."""
_PROJECTED: tuple[Use, ...] = ("soft", "hard")


@dataclass(frozen=True, kw_only=True)
class GuidedPrediction:
    """A guided model's prediction beside another.

    Attributes:
        model: what the sweep file calls it.
        use: of its prediction.
        plain: the plain classifier beside it; empty where it stands beside its own prediction as it is.
        scores: of both, this one first.
    """

    model: str
    use: Use
    plain: str = ""
    scores: SideBySide


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """What guidance does on one dataset.

    Attributes:
        dataset: as its comparison is called.
        metric: that compares.
        predictions: each beside another.
    """

    dataset: str
    metric: str
    predictions: Sequence[GuidedPrediction]


@dataclass
class _Runs:
    """The counted trials of one model on one dataset, all at one point."""

    label: str
    model: str
    params: Mapping[str, object]
    key: dict[int, str] = field(default_factory=dict[int, str])

    def same_network(self, other: "_Runs") -> bool:
        """Returns whether the other model's classifier is of the same kind."""
        return self.params.get("network") == other.params.get("network")

    def metric(self, plain: str, use: str) -> str:
        """Returns the full name of a metric of one use: the use that the model labels with has no suffix."""
        return plain if self.params.get(_SNAP, use) == use else f"{plain}.{use}"


def guidance_of(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows, blocks: Sequence[DatasetComparison]
) -> list[Guidance]:
    """Returns what guidance does on each dataset on which a guided model ran."""
    ran, kept = _ran(state, trials), KeptScores(state, rows)
    found: list[Guidance] = []
    for block in blocks:
        models = ran.get(block.place, {})
        ranked = [models[score.model] for score in block.scores if score.model in models]
        plain = [runs for runs in ranked if runs.model == PLAIN]
        metric = block.metric.partition(".")[0]
        compared = [
            row
            for runs in models.values()
            if _SNAP in runs.params
            for row in _of_model(state, kept, metric, runs, next(filter(runs.same_network, plain), None))
        ]
        if compared:
            found.append(Guidance(dataset=block.title, metric=metric, predictions=compared))
    return found


def _ran(state: JournalState, trials: Iterable[ShownTrial]) -> dict[Place, dict[str, _Runs]]:
    found: dict[Place, dict[str, _Runs]] = {}
    for one in counted(state, trials):
        models = found.setdefault(one.place, {})
        runs = models.setdefault(one.label, _Runs(one.label, one.spec.model, one.spec.params))
        runs.key[one.spec.seed] = one.spec.key
    return found


def _of_model(
    state: JournalState, kept: KeptScores, metric: str, runs: _Runs, plain: _Runs | None
) -> Iterator[GuidedPrediction]:
    as_it_is = runs.metric(metric, "none")
    pairs: list[tuple[Use, _Runs, str]] = [(use, runs, as_it_is) for use in _PROJECTED]
    if plain is not None:
        pairs.insert(0, ("none", plain, metric))
    for use, other, other_name in pairs:
        first, second = (
            scores_of(state, kept(list(own.key.values()), name), name, own.key)
            for own, name in ((runs, runs.metric(metric, use)), (other, other_name))
        )
        if not first.by_seed.keys() & second.by_seed.keys():
            continue
        yield GuidedPrediction(
            model=runs.label,
            use=use,
            plain="" if other is runs else other.label,
            scores=side_by_side(first, second, len(pairs), metric),
        )
