"""The scores of single items that trials kept, read from beside the journal."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from crowdsweep.record.array_names import names_of
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.kept_arrays import arrays_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.state import JournalState


class KeptScores:
    """Looks up the scores of items (`compare.ItemScores`).

    Args:
        state: what the journal says.
        rows: what it is read from.
    """

    def __init__(self, state: JournalState, rows: Rows) -> None:
        self._state = state
        self._rows = rows

    def __call__(self, keys: Sequence[str], metric: str) -> Mapping[str, Float[np.ndarray, " items"]]:
        """Returns the scores of the items by this metric of those of the trials that kept them; none where the trials
        were not all scored on the same items."""
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
