"""Whether soft labels help: each mtl beside the stl that has the same labels and the same network.

The section stands where both ran on a dataset. Beside our paired test it has the bootstrap of the paper that compares
them, and how peaked the soft labels are of what both get right, one of them, or neither (its Table 3).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from crowdsweep.analysis.compare import describe_dataset
from crowdsweep.analysis.counted import counted, scores_of
from crowdsweep.analysis.kept_scores import KeptScores
from crowdsweep.analysis.paired import paired_test
from crowdsweep.metrics.shown import show_interval, show_number
from crowdsweep.metrics.soft_labels import bootstrap_p, kurtosis_by_outcome
from crowdsweep.metrics.wording import readable
from crowdsweep.record.array_names import kurtosis_name
from crowdsweep.record.kept_arrays import array_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.studies.contract import StudyTable
from crowdsweep.units import show_p

NOTE = (
    "difference: mtl minus stl, with its 95 % interval and the p of our paired test, uncorrected; bootstrap p: of "
    "1,000 samples of a third of all runs' pooled predictions, the share whose difference exceeds twice the observed "
    "one (Fornaciari et al. 2021), which takes runs on the same items for independent."
)
PEAKED = (
    "mean excess kurtosis of the votes' soft labels (softmax of counts), and the number of predictions: the higher, "
    "the more one class stands out."
)


@dataclass
class _Runs:
    """The counted trials of one model of a sweep on one dataset."""

    trial: ShownTrial
    key: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def what(self) -> tuple[str, str]:
        """What must be the same of two models that are compared."""
        return self.trial.spec.params["labels"], self.trial.spec.params["network"]


def soft_label_tables(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> list[StudyTable]:
    """Returns the tables of the section; none where stl and mtl did not both run."""
    kept = KeptScores(state, rows)
    tables: list[StudyTable] = []
    for dataset, (metric, models) in _ran(state, trials).items():
        pairs = [
            (single, multi)
            for single in models.values()
            for multi in models.values()
            if (single.trial.spec.model, multi.trial.spec.model) == ("stl", "mtl")
            and single.what == multi.what
            and single.key.keys() & multi.key.keys()
        ]
        if not pairs:
            continue
        columns = ("mtl", "stl", "labels", readable(metric), "stl's", "difference", "95 % interval", "p", "bootstrap p")
        compared = [_compared(state, kept, metric, single, multi, len(pairs)) for single, multi in pairs]
        tables.append(StudyTable(title=f"Soft labels on {dataset}", columns=columns, rows=compared, note=NOTE))
        peaked = [row for pair in pairs if (row := _peaked(state, rows, kept, metric, *pair)) is not None]
        if peaked:
            columns = ("mtl", "stl", "both right", "mtl only", "stl only", "both wrong")
            title = f"How peaked the votes are, {dataset}"
            tables.append(StudyTable(title=title, columns=columns, rows=peaked, note=PEAKED))
    return tables


def _ran(state: JournalState, trials: Iterable[ShownTrial]) -> Mapping[str, tuple[str, Mapping[str, _Runs]]]:
    """Returns by dataset which accuracy compares, and the models that have it."""
    found: dict[str, tuple[str, dict[str, _Runs]]] = {}
    among = {row.dataset for row in state.plan.datasets}
    for one in counted(state, trials):
        metric = next((name for name in ("test_accuracy", "dev_accuracy") if name in one.result.metrics), None)
        if one.spec.model in ("stl", "mtl") and metric is not None:
            _, models = found.setdefault(describe_dataset(*one.place, among), (metric, {}))
            models.setdefault(one.label, _Runs(one.trial)).key[one.spec.seed] = one.spec.key
    return found


def _compared(
    state: JournalState, kept: KeptScores, metric: str, single: _Runs, multi: _Runs, comparisons: int
) -> list[str | float | int | None]:
    known = kept([*single.key.values(), *multi.key.values()], metric)
    one, other = (scores_of(state, known, metric, runs.key) for runs in (multi, single))
    test = paired_test(one, other, comparisons, metric=metric)
    pooled = [mine - theirs for _, theirs, mine in _by_item(kept, metric, single, multi)]
    means = [show_number(float(np.mean(list(own.by_seed.values()))), metric, test.difference) for own in (one, other)]
    difference = test.difference
    return [
        multi.trial.label,
        single.trial.label,
        multi.what[0],
        *means,
        "" if difference is None else show_number(difference.mean, metric, difference),
        "" if difference is None else show_interval(difference, metric),
        show_p(test.p),
        show_p(bootstrap_p(np.concatenate(pooled))) if pooled else "",
    ]


def _by_item(
    kept: KeptScores, metric: str, single: _Runs, multi: _Runs
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields for each seed that both have what each scores of the items, stl's first. Items may differ by seed."""
    for seed in sorted(single.key.keys() & multi.key.keys()):
        keys = single.key[seed], multi.key[seed]
        known = kept(keys, metric)
        if len(known) == 2:
            yield seed, known[keys[0]].astype(np.float64), known[keys[1]].astype(np.float64)


def _peaked(
    state: JournalState, rows: Rows, kept: KeptScores, metric: str, single: _Runs, multi: _Runs
) -> list[str | float | int | None] | None:
    """Returns a row of the kurtosis table; None where no votes of the scored items are known."""
    name, parts = kurtosis_name(metric.partition("_")[0]), []
    for seed, theirs, mine in _by_item(kept, metric, single, multi):
        artifact = state.results[multi.key[seed]].kept.get(name)
        kurtosis = None if artifact is None else array_of(rows, artifact)
        if kurtosis is not None and len(kurtosis) == len(mine):
            parts.append((kurtosis, mine, theirs))
    if not parts:
        return None
    kurtosis, mine, theirs = (np.concatenate([part[i] for part in parts]) for i in range(3))
    found = kurtosis_by_outcome(kurtosis, mine > 0.5, theirs > 0.5)
    return [multi.trial.label, single.trial.label, *(f"{mean:.3f} ({count:,})" for mean, count in found)]
