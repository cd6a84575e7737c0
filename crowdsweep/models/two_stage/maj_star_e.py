"""MAJ⋆-E: majority vote, then a network with a learned vector for each item, trained on the winners.

Without features it can only reproduce the vote, ties broken; it shows that LIA-E's network adds nothing by itself.
Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

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
