"""What guidance by clusters adds or costs, and what each kind of projection onto clusters does.

Weerasooriya, Ororbia and Homan put a classifier around a model of clusters: it learns the distributions of clusters
instead of the items' own, and its predictions are projected onto clusters. The section sets, for each such model, its
classifier's predictions as they are beside the plain classifier's (`pd` with the same network, the best where there are
several), and projected ones beside those as they are, on the same seeds and items, whatever the sign.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted import Place, counted, scores_of
from crowdsweep.analysis.kept_scores import KeptScores
from crowdsweep.analysis.paired import paired_test
from crowdsweep.metrics.shown import show_interval, show_number
from crowdsweep.metrics.wording import readable
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.studies.contract import Cell, StudyTable
from crowdsweep.units import show_p

PLAIN = "pd"
_SNAP = "test_snap"  # the hyper-parameter of guided models, and what their predictor's uses are called after
_AS_IT_IS, _PROJECTED = "none", ("soft", "hard")
NOTE = (
    "difference: the first minus the second, with its 95 % interval and the p of a paired test, uncorrected. As it is: "
    "the classifier's own prediction; soft: all clusters in proportion; hard: the best one. Each model stands at its "
    "own point: where points were searched, the plain classifier may differ in more than what it learns."
)


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


def guidance_tables(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows, blocks: Sequence[DatasetComparison]
) -> list[StudyTable]:
    """Returns a table for each dataset on which a guided model ran; none where none did."""
    ran, kept = _ran(state, trials), KeptScores(state, rows)
    tables: list[StudyTable] = []
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
            columns = ("model", "prediction", "beside", readable(metric), "other's", "difference", "95 % interval", "p")
            tables.append(StudyTable(title=block.title, columns=columns, rows=compared, note=NOTE))
    return tables


def _ran(state: JournalState, trials: Iterable[ShownTrial]) -> dict[Place, dict[str, _Runs]]:
    found: dict[Place, dict[str, _Runs]] = {}
    for one in counted(state, trials):
        models = found.setdefault(one.place, {})
        runs = models.setdefault(one.label, _Runs(one.label, one.spec.model, one.spec.params))
        runs.key[one.spec.seed] = one.spec.key
    return found


def _of_model(
    state: JournalState, kept: KeptScores, metric: str, runs: _Runs, plain: _Runs | None
) -> Iterator[list[Cell]]:
    as_it_is = runs.metric(metric, _AS_IT_IS)
    pairs = [(_AS_IT_IS, plain, metric)] if plain is not None else []
    pairs += [(use, runs, as_it_is) for use in _PROJECTED]
    for use, other, other_name in pairs:
        first, second = (
            scores_of(state, kept(list(own.key.values()), name), name, own.key)
            for own, name in ((runs, runs.metric(metric, use)), (other, other_name))
        )
        if not first.by_seed.keys() & second.by_seed.keys():
            continue
        test = paired_test(first, second, len(pairs), metric=metric)
        yield [
            runs.label,
            "as it is" if use == _AS_IT_IS else f"projected, {use}",
            other.label if use == _AS_IT_IS else "as it is",
            *(
                show_number(float(np.mean(list(part.by_seed.values()))), metric, test.difference)
                for part in (first, second)
            ),
            "" if test.difference is None else show_number(test.difference.mean, metric, test.difference),
            "" if test.difference is None else show_interval(test.difference, metric),
            show_p(test.p).removeprefix("= "),
        ]
