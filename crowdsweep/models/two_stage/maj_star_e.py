"""MAJ⋆-E: majority vote, of whose winners a network then learns a vector for each item.

There are no features: it can but repeat the vote, with ties broken, and shows what LIA-E's network adds by itself,
which is nothing. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    MAJ       `majority-vote`, of soft answers their mean       targets, its winners
    h_theta   the network of items, on vectors of 16 numbers    classifier, item_embedding

Deviations: as `maj-star`.
"""

from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.two_stage._pair import Fixed
from crowdsweep.models.two_stage._star import star

MODEL = star(
    __name__,
    "MAJ⋆-E: majority vote, then a vector for each item",
    Fixed(MajorityVote()),
    item_vectors=True,
    version=2,
)
