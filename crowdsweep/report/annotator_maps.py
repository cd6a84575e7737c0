"""Maps of annotators: the vectors that a model learned of them, laid out in the plane so that neighbours stay near.

t-SNE of what a trial kept as `annotator_embeddings`, with the share of wrong answers, `annotator_errors`. Only
annotators with answers stand on the map; of very many, those with the first codes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Num

from crowdsweep.journal.artifacts import array_of
from crowdsweep.journal.rows import Rows
from crowdsweep.journal.shown import ShownTrial
from crowdsweep.journal.state import JournalState
from crowdsweep.trial.result import Status
from crowdsweep.trial.spec import canonical_json

EMBEDDINGS, ERRORS = "annotator_embeddings", "annotator_errors"
LEAST, MOST = 5, 1_000  # annotators on a map


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


def annotator_maps(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows
) -> dict[tuple[str, str], list[AnnotatorMap]]:
    """Returns maps by dataset and its parameters: of each model that keeps vectors, its first seed's."""
    first: dict[tuple[str, str, str], ShownTrial] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if not trial.chosen or result is None or result.status is not Status.OK:
            continue
        if EMBEDDINGS in result.kept and ERRORS in result.kept:
            place = (trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params)), trial.label)
            if place not in first or trial.spec.seed < first[place].spec.seed:
                first[place] = trial
    found: dict[tuple[str, str], list[AnnotatorMap]] = {}
    for (dataset, params, label), trial in first.items():
        kept = state.results[trial.spec.key].kept
        vectors, errors = (array_of(rows, kept[name]) for name in (EMBEDDINGS, ERRORS))
        drawn = None if vectors is None or errors is None else laid_out(vectors, errors)
        if drawn is not None:
            points, shares = drawn
            map_of = AnnotatorMap(model=label, seed=trial.spec.seed, points=points, errors=shares)
            found.setdefault((dataset, params), []).append(map_of)
    return found


def laid_out(
    vectors: Num[np.ndarray, "annotators width"], errors: Num[np.ndarray, " annotators"]
) -> tuple[Float64[np.ndarray, "shown 2"], Float64[np.ndarray, " shown"]] | None:
    """Returns points and shares of wrong answers of annotators with answers; None where they are too few for a map."""
    from sklearn.manifold import TSNE  # noqa: PLC0415 - takes a second to import, and most sweeps draw no map

    answered = np.flatnonzero(np.isfinite(errors) & np.isfinite(vectors).all(axis=1))[:MOST]
    if len(answered) < LEAST:
        return None
    perplexity = min(30.0, (len(answered) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="random", random_state=0).fit_transform(
        vectors[answered].astype(np.float64)
    )
    return np.asarray(points, np.float64), errors[answered].astype(np.float64)
