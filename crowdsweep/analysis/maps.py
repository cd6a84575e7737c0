"""Every map of a report: what models learned of annotators, of items, and of clusters of both.

Annotators: t-SNE of what a trial kept as `annotator_embeddings`, with the share of wrong answers, `annotator_errors`.
Only annotators with answers stand on the map; of very many, those with the first codes.

Items: t-SNE of `item_latents`, with the class that most of each item's annotators gave, `item_classes` (of ties, the
first): Figure 4 of Weerasooriya, Ororbia and Homan. The model saw these classes only as it saw all labels of its
training items; where they stand apart on the map, the latent space has learned them.

Clusters: Theta (`labels`), how many items and annotators each cluster has (of each its best one), and how many equal
clusters those sizes amount to. Clusters that nobody is in have only their prior to show and are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, Num

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import class_names, first_seeds
from crowdsweep.record.array_names import CLASSES
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

EMBEDDINGS, ERRORS = "annotator_embeddings", "annotator_errors"
_LATENTS, _CLASS = "item_latents", "item_classes"
_OF_CLUSTERS = ("labels", "cluster_sizes", "effective_clusters")
_OF_ANNOTATORS = ("annotator_cluster_sizes", "effective_annotator_clusters")
_FEWEST_POINTS, _MOST_POINTS = 5, 1_000  # on a map
_LEAST_SIZE = 0.5  # items or annotators in a cluster that is shown: ties share what they belong to


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorMap:
    """One map.

    Attributes:
        model, seed: whose.
        points: the position of each annotator in the plane; only nearness has a meaning.
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
    answered = np.flatnonzero(np.isfinite(errors) & np.isfinite(vectors).all(axis=1))[:_MOST_POINTS]
    if len(answered) < _FEWEST_POINTS:
        return None
    return _in_the_plane(vectors[answered]), errors[answered].astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemMap:
    """One map.

    Attributes:
        model, seed: whose.
        points: where each item stands; lengths mean nothing, nearness does.
        classes: the code of the class of each.
        class_names: what the codes stand for; empty where that is not known.
    """

    model: str
    seed: int
    points: Float64[np.ndarray, "items 2"]
    classes: Int[np.ndarray, " items"]
    class_names: tuple[str, ...]


def item_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[ItemMap]]:
    """Returns maps by dataset and its parameters: of each model that keeps latent vectors, its first seed's."""
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
    """The clusters of one fit, the largest first, empty ones left out.

    Attributes:
        model, seed: whose.
        labels: Theta; one cluster of annotators where the model has none.
        item_sizes, annotator_sizes: how many are in each; the latter empty where the model has no such clusters.
        effective_items, effective_annotators: numbers of equal clusters that are as uneven; 1 without clusters.
        n_item_clusters, n_annotator_clusters: as asked for.
        class_names: what the class codes stand for; empty where that is not known.
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
        """How many clusters there are, in a sentence."""
        items = f"{self.n_item_clusters} clusters of items, {len(self.item_sizes)} in use ({self.effective_items:.1f}"
        told = f"{items} effective)"
        if len(self.annotator_sizes):
            told += (
                f"; {self.n_annotator_clusters} of annotators, {len(self.annotator_sizes)} in use "
                f"({self.effective_annotators:.1f} effective)"
            )
        return told + ". Effective: as many equal clusters would be as uneven."


def cluster_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[ClusterMap]]:
    """Returns clusters by dataset and its parameters: of each model that keeps them, its first seed's."""
    found: dict[Place, list[ClusterMap]] = {}
    for kept in first_seeds(state, trials, rows, _OF_CLUSTERS, (*_OF_ANNOTATORS, CLASSES)):
        arrays = kept.arrays
        labels, item_sizes = arrays["labels"], arrays["cluster_sizes"]
        if labels.ndim != 3 or item_sizes.shape != labels.shape[:1]:  # a plug-in's own arrays of these names
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
    """The maps of each dataset, one for each model that has one."""

    annotators: Mapping[Place, Sequence[AnnotatorMap]]
    items: Mapping[Place, Sequence[ItemMap]]
    clusters: Mapping[Place, Sequence[ClusterMap]]


def maps_of(state: JournalState, trials: Sequence[ShownTrial], rows: Rows, axis: str = "") -> Maps:
    """Returns what there is to draw of a sweep; of a study that thins its datasets, of the whole ones alone: each map
    takes seconds, and those of a dataset with fewer labels say nothing that is asked.

    Args:
        state, trials, rows: of the sweep.
        axis: parameter of datasets that the sweep's study moves; empty where it moves none.
    """
    if axis:
        trials = [trial for trial in trials if axis not in trial.spec.dataset_params] or trials
    return Maps(
        annotators=annotator_maps(state, trials, rows),
        items=item_maps(state, trials, rows),
        clusters=cluster_maps(state, trials, rows),
    )


def _in_the_plane(vectors: Num[np.ndarray, "points width"]) -> Float64[np.ndarray, "points 2"]:
    """Returns where each of five vectors or more stands, the same always; lengths mean nothing, nearness does.

    O(points²) in time and memory: a thousand take seconds.
    """
    from sklearn.manifold import TSNE  # noqa: PLC0415 - takes a second to import, and most sweeps draw no map

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    drawn = TSNE(perplexity=perplexity, init="random", random_state=0).fit_transform(vectors.astype(np.float64))
    return np.asarray(drawn, np.float64)
