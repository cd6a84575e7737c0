"""MMCE⋆-E: minimax conditional entropy, of whose classes a network then learns a vector for each item.

There are no features: it can but repeat what MMCE says. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020),
"Learning from Imperfect Annotations".

    MMCE      `mmce` with gamma 1/4                             targets, its likeliest classes
    h_theta   the network of items, on vectors of 16 numbers    classifier, item_embedding

Deviations: as `mmce-star`.
"""

from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.two_stage._pair import pair
from crowdsweep.models.two_stage._star import SOURCE, STAR_SPACE, VECTOR_SPACE, EmbeddedTraining, embedded_cost
from crowdsweep.models.two_stage._targets import Likeliest

MODEL = pair(
    __name__,
    title="MMCE⋆-E: minimax conditional entropy, then a vector for each item",
    source=SOURCE,
    aggregate=Mmce(),
    targets=Likeliest(),
    training=EmbeddedTraining(),
    needs=frozenset(),
    space={**VECTOR_SPACE, "regularisation": {"values": [0.25, 1, 4]}, **STAR_SPACE},
    cost=embedded_cost,
    version=2,
)
