"""Whether soft labels help: each `mtl` model compared with the `stl` model of the same labels and network.

The section exists for datasets on which both ran. Besides the paired test of crowdsweep, it has the bootstrap test of
Fornaciari et al. (2021), and how peaked the soft labels are of the items that both models, one or none get right (Table
3 of that paper).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from crowdsweep.analysis.counted_trials import counted_results, scores_of
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.paired import SideBySide, side_by_side
from crowdsweep.metrics.soft_labels import bootstrap_p, kurtosis_by_outcome
from crowdsweep.record.array_names import kurtosis_name
from crowdsweep.record.kept_arrays import array_of
from crowdsweep.record.naming import describe_dataset
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True)
class SoftLabelPair:
    """Comparison of an `mtl` model with an `stl` model.

    Attributes:
        multi, single: labels of the `mtl` and the `stl` model in the sweep file.
        labels: the labels that both trained on: `silver` or `gold`.
        scores: scores of both, `mtl` first.
        bootstrap_p: p value of the bootstrap of Fornaciari et al. (2021); None where item scores are not known.
        kurtosis: (mean excess kurtosis of the votes' soft labels, number of predictions) for the predictions that both
            models, only `mtl`, only `stl` and neither get right; empty where no votes of the scored items are known.
    """

    multi: str
    single: str
    labels: str
    scores: SideBySide
    bootstrap_p: float | None
    kurtosis: Sequence[tuple[float, int]]


@dataclass(frozen=True, kw_only=True)
class SoftLabels:
    """Effect of soft labels on one dataset.

    Attributes:
        dataset: the dataset with its parameters, in words.
        metric: the accuracy that compares: on test items, else on dev items.
    """

    dataset: str
    metric: str
    pairs: Sequence[SoftLabelPair]


@dataclass
class _Runs:
    """Counted trials of one model on one dataset: any one of them, and seed → key of all."""

    trial: ShownTrial
    key: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def what(self) -> tuple[str, str]:
        """The settings in which two compared models must agree: labels and network."""
        return self.trial.spec.params["labels"], self.trial.spec.params["network"]


def soft_labels_of(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> list[SoftLabels]:
    """Returns the effect of soft labels on each dataset on which `stl` and `mtl` have a common seed."""
    kept = KeptScores(state, rows)
    found: list[SoftLabels] = []
    for dataset, (metric, models) in _ran(state, trials).items():
        pairs = [
            (single, multi)
            for single in models.values()
            for multi in models.values()
            if (single.trial.spec.model, multi.trial.spec.model) == ("stl", "mtl")
            and single.what == multi.what
            and single.key.keys() & multi.key.keys()
        ]
        if pairs:
            compared = [_compared(state, rows, kept, metric, single, multi, len(pairs)) for single, multi in pairs]
            found.append(SoftLabels(dataset=dataset, metric=metric, pairs=compared))
    return found


def _ran(state: JournalState, trials: Iterable[ShownTrial]) -> Mapping[str, tuple[str, Mapping[str, _Runs]]]:
    """Returns dataset → (the accuracy that compares, label → trials of that model)."""
    found: dict[str, tuple[str, dict[str, _Runs]]] = {}
    among = {row.dataset for row in state.plan.datasets}
    for trial, result in counted_results(state, trials):
        spec = trial.spec
        metric = next((name for name in ("test_accuracy", "dev_accuracy") if name in result.metrics), None)
        if spec.model in ("stl", "mtl") and metric is not None:
            _, models = found.setdefault(describe_dataset(*spec.place, among), (metric, {}))
            models.setdefault(trial.label, _Runs(trial)).key[spec.seed] = spec.key
    return found


def _compared(
    state: JournalState, rows: Rows, kept: KeptScores, metric: str, single: _Runs, multi: _Runs, comparisons: int
) -> SoftLabelPair:
    known = kept([*single.key.values(), *multi.key.values()], metric)
    one, other = (scores_of(state, known, metric, runs.key) for runs in (multi, single))
    pooled = [mine - theirs for _, theirs, mine in _by_item(kept, metric, single, multi)]
    return SoftLabelPair(
        multi=multi.trial.label,
        single=single.trial.label,
        labels=multi.what[0],
        scores=side_by_side(one, other, comparisons, metric),
        bootstrap_p=bootstrap_p(np.concatenate(pooled)) if pooled else None,
        kurtosis=_kurtosis(state, rows, kept, metric, single, multi),
    )


def _by_item(
    kept: KeptScores, metric: str, single: _Runs, multi: _Runs
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields for each common seed: the seed, item scores of `stl`, item scores of `mtl`. Items may differ by seed."""
    for seed in sorted(single.key.keys() & multi.key.keys()):
        keys = single.key[seed], multi.key[seed]
        known = kept(keys, metric)
        if len(known) == 2:
            yield seed, known[keys[0]].astype(np.float64), known[keys[1]].astype(np.float64)


def _kurtosis(
    state: JournalState, rows: Rows, kept: KeptScores, metric: str, single: _Runs, multi: _Runs
) -> Sequence[tuple[float, int]]:
    """Returns the value of `SoftLabelPair.kurtosis`."""
    name, parts = kurtosis_name(metric.partition("_")[0]), []
    for seed, theirs, mine in _by_item(kept, metric, single, multi):
        artifact = state.results[multi.key[seed]].kept.get(name)
        kurtosis = None if artifact is None else array_of(rows, artifact)
        if kurtosis is not None and len(kurtosis) == len(mine):
            parts.append((kurtosis, mine, theirs))
    if not parts:
        return ()
    kurtosis, mine, theirs = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return kurtosis_by_outcome(kurtosis, mine > 0.5, theirs > 0.5)
