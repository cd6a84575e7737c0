"""The maps of a report: what models learned about annotators, items, and clusters of both.

Annotators: t-SNE of the stored array `annotator_embeddings`, with each annotator's share of wrong labels,
`annotator_errors`. The map has only annotators with labels, and at most 1,000: those with the lowest codes.

Items: t-SNE of `item_latents`, with each item's majority class, `item_classes` (the first class of a tie), as in Figure
4 of Weerasooriya, Ororbia and Homan. The model saw these classes only through the labels of its training items. Classes
that are apart on the map are therefore learned by the latent space.

Clusters: Theta (`labels`), the number of items and annotators whose most likely cluster is each one, and the effective
number of clusters: that of equally large clusters that are as uneven. Empty clusters show only their prior and are left
out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, Num

from crowdsweep.analysis.kept_arrays import class_names, first_seeds
from crowdsweep.record.array_names import CLASSES
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState

EMBEDDINGS, ERRORS = "annotator_embeddings", "annotator_errors"
_LATENTS, _CLASS = "item_latents", "item_classes"
_OF_CLUSTERS = ("labels", "cluster_sizes", "effective_clusters")
_OF_ANNOTATORS = ("annotator_cluster_sizes", "effective_annotator_clusters")
_FEWEST_POINTS, _MOST_POINTS = 5, 1_000  # on a map
_LEAST_SIZE = 0.5  # least number of items or annotators in a shown cluster; ties are shared between clusters


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorMap:
    """Map of the annotators of one dataset, as one fit sees them.

    Attributes:
        points: position of each annotator in the plane; only nearness has a meaning.
        errors: share of wrong labels of each annotator, in [0, 1].
    """

    model: str
    seed: int
    points: Float64[np.ndarray, "annotators 2"]
    errors: Float64[np.ndarray, " annotators"]


def annotator_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[AnnotatorMap]]:
    """Returns (dataset, parameters) → maps, one of the first seed of each model that stores annotator vectors."""
    found: dict[Place, list[AnnotatorMap]] = {}
    for kept in first_seeds(state, trials, rows, (EMBEDDINGS, ERRORS)):
        drawn = annotator_points(kept.arrays[EMBEDDINGS], kept.arrays[ERRORS])
        if drawn is not None:
            points, shares = drawn
            map_of = AnnotatorMap(model=kept.model, seed=kept.seed, points=points, errors=shares)
            found.setdefault(kept.place, []).append(map_of)
    return found


def annotator_points(
    vectors: Num[np.ndarray, "annotators width"], errors: Num[np.ndarray, " annotators"]
) -> tuple[Float64[np.ndarray, "shown 2"], Float64[np.ndarray, " shown"]] | None:
    """Returns positions and error shares of the annotators with labels; None where there are fewer than five."""
    answered = np.flatnonzero(np.isfinite(errors) & np.isfinite(vectors).all(axis=1))[:_MOST_POINTS]
    if len(answered) < _FEWEST_POINTS:
        return None
    return _in_the_plane(vectors[answered]), errors[answered].astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemMap:
    """Map of the items of one dataset, as one fit sees them.

    Attributes:
        points: position of each item in the plane; only nearness has a meaning.
        class_names: names of the classes by code; empty where they are not known.
    """

    model: str
    seed: int
    points: Float64[np.ndarray, "items 2"]
    classes: Int[np.ndarray, " items"]
    class_names: tuple[str, ...]


def item_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[ItemMap]]:
    """Returns (dataset, parameters) → maps, one of the first seed of each model that stores latent vectors of items."""
    found: dict[Place, list[ItemMap]] = {}
    for kept in first_seeds(state, trials, rows, (_LATENTS, _CLASS), (CLASSES,)):
        vectors, classes = kept.arrays[_LATENTS][:_MOST_POINTS], kept.arrays[_CLASS][:_MOST_POINTS]
        if len(vectors) < _FEWEST_POINTS or not np.isfinite(vectors).all():
            continue
        drawn = ItemMap(
            model=kept.model,
            seed=kept.seed,
            points=_in_the_plane(vectors),
            classes=classes,
            class_names=class_names(state, kept),
        )
        found.setdefault(kept.place, []).append(drawn)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterMap:
    """The clusters of one fit, the largest first, without empty ones.

    Attributes:
        labels: Theta; with one annotator cluster where the model does not cluster annotators.
        item_sizes, annotator_sizes: number of items and annotators in each cluster; `annotator_sizes` is empty where
            the model does not cluster annotators.
        effective_items, effective_annotators: effective number of clusters, that is, of equally large clusters that are
            as uneven; 1 without clusters.
        n_item_clusters, n_annotator_clusters: number of clusters of the model, empty ones included.
        class_names: names of the classes by code; empty where they are not known.
    """

    model: str
    seed: int
    labels: Float64[np.ndarray, "clusters annotator_clusters classes"]
    item_sizes: Float64[np.ndarray, " clusters"]
    annotator_sizes: Float64[np.ndarray, " _"]
    effective_items: float
    effective_annotators: float
    n_item_clusters: int
    n_annotator_clusters: int
    class_names: tuple[str, ...]

    @property
    def summary(self) -> str:
        """A sentence on the number of clusters."""
        items = f"{self.n_item_clusters} clusters of items, {len(self.item_sizes)} in use ({self.effective_items:.1f}"
        told = f"{items} effective)"
        if len(self.annotator_sizes):
            told += (
                f"; {self.n_annotator_clusters} of annotators, {len(self.annotator_sizes)} in use "
                f"({self.effective_annotators:.1f} effective)"
            )
        return told + ". Effective number: exp of the entropy of their shares."


def cluster_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[ClusterMap]]:
    """Returns (dataset, parameters) → clusters, those of the first seed of each model that stores them."""
    found: dict[Place, list[ClusterMap]] = {}
    for kept in first_seeds(state, trials, rows, _OF_CLUSTERS, (*_OF_ANNOTATORS, CLASSES)):
        arrays = kept.arrays
        labels, item_sizes = arrays["labels"], arrays["cluster_sizes"]
        if labels.ndim != 3 or item_sizes.shape != labels.shape[:1]:  # a plug-in may use these names for other arrays
            continue
        of_annotators = set(_OF_ANNOTATORS) <= set(arrays)
        annotator_sizes = arrays["annotator_cluster_sizes"] if of_annotators else np.full(labels.shape[1], np.inf)
        rows_shown, columns_shown = _largest_first(item_sizes), _largest_first(annotator_sizes)
        drawn = ClusterMap(
            model=kept.model,
            seed=kept.seed,
            labels=labels[np.ix_(rows_shown, columns_shown)],
            item_sizes=item_sizes[rows_shown],
            annotator_sizes=annotator_sizes[columns_shown] if of_annotators else np.empty(0),
            effective_items=float(arrays["effective_clusters"]),
            effective_annotators=float(arrays["effective_annotator_clusters"]) if of_annotators else 1.0,
            n_item_clusters=labels.shape[0],
            n_annotator_clusters=labels.shape[1],
            class_names=class_names(state, kept),
        )
        found.setdefault(kept.place, []).append(drawn)
    return found


def _largest_first(sizes: Float64[np.ndarray, " clusters"]) -> np.ndarray:
    order = np.argsort(-sizes, kind="stable")
    return order[sizes[order] >= _LEAST_SIZE]


@dataclass(frozen=True, kw_only=True, eq=False)
class Maps:
    """The maps of each dataset, one per model that stores the arrays of a map."""

    annotators: Mapping[Place, Sequence[AnnotatorMap]]
    items: Mapping[Place, Sequence[ItemMap]]
    clusters: Mapping[Place, Sequence[ClusterMap]]


def maps_of(state: JournalState, trials: Sequence[ShownTrial], rows: Rows, axis: str = "") -> Maps:
    """Returns all maps of a sweep.

    For a study that thins its datasets, only the full datasets have maps: each map takes seconds, and those of thinned
    datasets answer no question of the study.

    Args:
        axis: dataset parameter that the sweep's study varies; empty where it varies none.
    """
    if axis:
        trials = [trial for trial in trials if axis not in trial.spec.dataset_params] or trials
    return Maps(
        annotators=annotator_maps(state, trials, rows),
        items=item_maps(state, trials, rows),
        clusters=cluster_maps(state, trials, rows),
    )


def _in_the_plane(vectors: Num[np.ndarray, "points width"]) -> Float64[np.ndarray, "points 2"]:
    """Returns the position of each vector in the plane by t-SNE with a fixed seed; only nearness has a meaning.

    Takes O(points²) time and memory: seconds for a thousand points. There must be at least five vectors.
    """
    from sklearn.manifold import TSNE  # noqa: PLC0415 - takes a second to import, and most sweeps draw no map

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    drawn = TSNE(perplexity=perplexity, init="random", random_state=0).fit_transform(vectors.astype(np.float64))
    return np.asarray(drawn, np.float64)
