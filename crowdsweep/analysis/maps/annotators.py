"""Maps of annotators: the vectors that a model learned of them, laid out in the plane so that neighbours stay near.

t-SNE of what a trial kept as `annotator_embeddings`, with the share of wrong answers, `annotator_errors`. Only
annotators with answers stand on the map; of very many, those with the first codes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Num

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import first_seeds
from crowdsweep.analysis.maps.plane import LEAST, MOST, in_the_plane
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

EMBEDDINGS, ERRORS = "annotator_embeddings", "annotator_errors"


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorMap:
    """One map.

    Attributes:
        model, seed: whose.
        points: where each annotator stands; lengths mean nothing, nearness does.
        errors: share of wrong answers of each, in [0, 1].
    """

    model: str
    seed: int
    points: Float64[np.ndarray, "annotators 2"]
    errors: Float64[np.ndarray, " annotators"]


def annotator_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[AnnotatorMap]]:
    """Returns maps by dataset and its parameters: of each model that keeps vectors, its first seed's."""
    found: dict[Place, list[AnnotatorMap]] = {}
    for kept in first_seeds(state, trials, rows, (EMBEDDINGS, ERRORS)):
        drawn = laid_out(kept.arrays[EMBEDDINGS], kept.arrays[ERRORS])
        if drawn is not None:
            points, shares = drawn
            map_of = AnnotatorMap(model=kept.model, seed=kept.seed, points=points, errors=shares)
            found.setdefault(kept.place, []).append(map_of)
    return found


def laid_out(
    vectors: Num[np.ndarray, "annotators width"], errors: Num[np.ndarray, " annotators"]
) -> tuple[Float64[np.ndarray, "shown 2"], Float64[np.ndarray, " shown"]] | None:
    """Returns points and shares of wrong answers of annotators with answers; None where they are too few for a map."""
    answered = np.flatnonzero(np.isfinite(errors) & np.isfinite(vectors).all(axis=1))[:MOST]
    if len(answered) < LEAST:
        return None
    return in_the_plane(vectors[answered]), errors[answered].astype(np.float64)
