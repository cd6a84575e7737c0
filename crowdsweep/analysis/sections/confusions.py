"""The crowd's confusion matrix, as the best ranked model that has one estimates it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdsweep.analysis.compare import Comparison
from crowdsweep.analysis.counted_trials import counted_results
from crowdsweep.record.array_names import CLASSES
from crowdsweep.record.kept_arrays import array_of
from crowdsweep.record.result import CROWD_CONFUSION
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place, canonical_json
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True)
class CrowdMatrix:
    """The crowd's estimated confusion matrix on one dataset.

    Attributes:
        place: dataset and its parameters, canonical JSON.
        model: label of the model that estimates it.
        matrix: [true][observed], mean over seeds; rows sum to one.
        class_names: names of the classes, in the order of the rows; empty where they are not known.
    """

    place: Place
    model: str
    matrix: Sequence[Sequence[float]]
    class_names: Sequence[str] = ()

    @property
    def right(self) -> float:
        """Probability that a label is right, as a mean over classes."""
        return float(np.mean(np.diagonal(np.asarray(self.matrix))))

    @property
    def above_chance(self) -> float:
        """How far the crowd is from answering at random (0) to being always right (1)."""
        chance = 1.0 / len(self.matrix)
        return (self.right - chance) / (1.0 - chance) if chance < 1.0 else 1.0


def crowd_matrices(
    state: JournalState, trials: Iterable[ShownTrial], comparison: Comparison, rows: Rows
) -> list[CrowdMatrix]:
    """Returns the crowd's confusion matrix on each dataset that has one, of the best ranked model that estimates it."""
    by_cell: dict[tuple[str, str, str, str], list[Any]] = {}
    names: dict[Place, Sequence[str]] = {row.place: row.class_names for row in state.plan.datasets}
    for trial, result in counted_results(state, trials):
        place = trial.spec.place
        matrix: Any = result.confusion
        if matrix is None and CROWD_CONFUSION in result.kept:
            matrix = array_of(rows, result.kept[CROWD_CONFUSION])
        if matrix is not None:
            point = canonical_json(dict(trial.spec.point))
            by_cell.setdefault((*place, trial.label, point), []).append(matrix)
        if not names.get(place) and CLASSES in result.kept:
            known = array_of(rows, result.kept[CLASSES])
            names[place] = [] if known is None else known.tolist()
    found: list[CrowdMatrix] = []
    for block in comparison.datasets:
        for score in [*block.ranked, *block.unranked]:
            if matrices := by_cell.get((*block.place, score.model, score.point)):
                mean = np.mean(np.asarray(matrices, dtype=np.float64), axis=0).tolist()
                known = names.get(block.place, ())
                found.append(CrowdMatrix(place=block.place, model=score.model, matrix=mean, class_names=known))
                break
    return found
