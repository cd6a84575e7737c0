"""MMCE⋆-E: minimax conditional entropy, then a network with a learned vector for each item, trained on its classes.

Without features it can only reproduce what MMCE found. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020),
"Learning from Imperfect Annotations".

    MMCE      `mmce` with gamma 1/4                             targets, its likeliest classes
    h_theta   the network of items, on vectors of 16 numbers    classifier, item_embedding

Deviations: as `mmce-star`.
"""

from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.two_stage._star import star

MODEL = star(
    __name__,
    "MMCE⋆-E: minimax conditional entropy, then a vector for each item",
    Mmce(),
    space={"regularisation": {"values": [0.25, 1, 4]}},
    item_vectors=True,
    version=2,
)
