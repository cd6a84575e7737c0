"""Maps of items: the latent vectors that a model learned of them, laid out in the plane and coloured by class.

t-SNE of what a trial kept as `item_latents`, with the class that most of each item's annotators gave, `item_classes`
(of ties, the first): Figure 4 of Weerasooriya, Ororbia and Homan. The model saw these classes only as it saw all
labels of its training items; where they stand apart on the map, the latent space has learned them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import class_names, first_seeds
from crowdsweep.analysis.maps.plane import LEAST, MOST, in_the_plane
from crowdsweep.record.array_names import CLASSES
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

LATENTS, CLASS = "item_latents", "item_classes"


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
    for kept in first_seeds(state, trials, rows, (LATENTS, CLASS), (CLASSES,)):
        vectors, classes = kept.arrays[LATENTS][:MOST], kept.arrays[CLASS][:MOST]
        if len(vectors) < LEAST or not np.isfinite(vectors).all():
            continue
        drawn = ItemMap(
            model=kept.model,
            seed=kept.seed,
            points=in_the_plane(vectors),
            classes=classes,
            class_names=class_names(state, kept),
        )
        found.setdefault(kept.place, []).append(drawn)
    return found
