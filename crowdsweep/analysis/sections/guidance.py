"""Effect of guidance by clusters on the score, and effect of each kind of projection onto clusters.

In the guided models of Weerasooriya, Ororbia and Homan, a classifier learns the label distributions of clusters instead
of those of single items. Its predictions are then projected onto clusters.

For each guided model the section compares the unprojected predictions of its classifier with those of the plain
classifier (`pd` with the same network; the best where there are several). It also compares the projected predictions
with the unprojected ones. All comparisons are on the same seeds and items, and are shown whatever their sign.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted_trials import counted_results, scores_of
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.paired import SideBySide, side_by_side
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState

PLAIN = "pd"
_SNAP = "test_snap"  # hyper-parameter of guided models: the use of predictions (`Use`) that the model labels with
Use = Literal["none", "soft", "hard"]
"""Projection of a guided classifier's prediction: none, onto all clusters, or onto the best one."""
_PROJECTED: tuple[Use, ...] = ("soft", "hard")


@dataclass(frozen=True, kw_only=True)
class GuidedPrediction:
    """Comparison of a guided model's prediction with another one.

    Attributes:
        plain: label of the plain classifier that it is compared with; empty where it is compared with its own
            unprojected prediction.
        scores: scores of both predictions, this one first.
    """

    model: str
    use: Use
    plain: str = ""
    scores: SideBySide


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """Effect of guidance on one dataset."""

    dataset: str
    metric: str
    predictions: Sequence[GuidedPrediction]


@dataclass
class _Runs:
    """Counted trials of one model on one dataset, all at one point; `key` maps seed → trial key."""

    label: str
    model: str
    params: Mapping[str, object]
    key: dict[int, str] = field(default_factory=dict[int, str])

    def same_network(self, other: "_Runs") -> bool:
        """Whether the other model has the same kind of network."""
        return self.params.get("network") == other.params.get("network")

    def metric(self, plain: str, use: str) -> str:
        """Returns the full name of a metric for one use; there is no suffix for the use that the model labels with."""
        return plain if self.params.get(_SNAP, use) == use else f"{plain}.{use}"


def guidance_of(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows, blocks: Sequence[DatasetComparison]
) -> list[Guidance]:
    """Returns the effect of guidance on each dataset on which a guided model ran."""
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
    for trial, _ in counted_results(state, trials):
        spec, models = trial.spec, found.setdefault(trial.spec.place, {})
        models.setdefault(trial.label, _Runs(trial.label, spec.model, spec.params)).key[spec.seed] = spec.key
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
