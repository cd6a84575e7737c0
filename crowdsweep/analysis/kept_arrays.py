"""Arrays that trials stored beside the journal: those that the report draws, and the scores of single items."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from crowdsweep.analysis.counted_trials import counted_results
from crowdsweep.record.array_names import CLASSES, names_of
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.kept_arrays import arrays_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place, TrialSpec
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptArrays:
    """Stored arrays of one trial.

    Attributes:
        place: dataset and its parameters, canonical JSON.
        arrays: name → array: every required one, and the optional ones that the trial has.
    """

    place: Place
    model: str
    seed: int
    arrays: Mapping[str, np.ndarray]


def first_seeds(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows, names: Iterable[str], more: Iterable[str] = ()
) -> Iterator[KeptArrays]:
    """Yields the arrays of each model on each dataset: those of its lowest seed that stored all required arrays.

    Args:
        trials: shown trials, of which the chosen ones count.
        names: required arrays; a trial without one of them is skipped.
        more: optional arrays, which are read where the trial has them.
    """
    wanted, optional = list(names), list(more)
    first: dict[tuple[Place, str], TrialSpec] = {}
    for trial, result in counted_results(state, trials):
        if set(wanted) <= set(result.kept):
            known = first.setdefault((trial.spec.place, trial.label), trial.spec)
            if trial.spec.seed < known.seed:
                first[trial.spec.place, trial.label] = trial.spec
    for (place, label), spec in first.items():
        kept = state.results[spec.key].kept
        names = [name for name in [*wanted, *optional] if name in kept]
        found = arrays_of(rows, [kept[name] for name in names])
        arrays = {name: found[kept[name].digest] for name in names if kept[name].digest in found}
        if set(wanted) <= set(arrays):
            yield KeptArrays(place=place, model=label, seed=spec.seed, arrays=arrays)


def class_names(state: JournalState, kept: KeptArrays) -> tuple[str, ...]:
    """Returns the names of the classes in the order of their codes, from the plan, else the trial, else none."""
    for row in state.plan.datasets:
        if row.place == kept.place and row.class_names:
            return tuple(row.class_names)
    return tuple(kept.arrays.get(CLASSES, np.empty(0, "<U1")).tolist())


class KeptScores:
    """Lookup of the scores of single items in a record (an `ItemScores` function)."""

    def __init__(self, state: JournalState, rows: Rows) -> None:
        self._state = state
        self._rows = rows

    def __call__(self, keys: Sequence[str], metric: str) -> Mapping[str, Float[np.ndarray, " items"]]:
        """Returns key → scores of the items by this metric, for those of the trials that stored them.

        Empty where these trials were not all scored on the same items.
        """
        scores, column, items = names_of(metric)
        kept: dict[str, Artifact] = {}
        for key in keys:
            result = self._state.results[key]
            if scores in result.kept and items in result.kept:
                kept[key] = result.kept[scores]
        if len({self._state.results[key].kept[items].digest for key in kept}) != 1:
            return {}
        arrays = arrays_of(self._rows, kept.values())
        columns = {d: a[column] for d, a in arrays.items() if column in (a.dtype.names or ())}
        return {key: columns[one.digest] for key, one in kept.items() if one.digest in columns}
