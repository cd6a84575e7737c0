"""Soft majority vote, then a classifier: it learns each item's share of votes.

The targets are the shares n_ik / n_i, so that an item on which annotators disagree teaches that it is unclear. Trusts
all annotators alike. Baseline of Mena and Nanculef (CIARP 2019), where it is called softMV.

    r_i / sum r_i   targets          f(x)   the classifier

Deviations: none in the method; under `protocol: equal_budget` all epochs are trained instead of stopping early.
"""

from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.two_stage._pair import Fixed, pair
from crowdsweep.models.two_stage._targets import Shares
from crowdsweep.models.two_stage._training import Training

MODEL = pair(
    __name__,
    title="Soft majority vote, then a classifier",
    source="Mena and Nanculef 2019, section 4 (softMV)",
    aggregate=Fixed(MajorityVote(votes="soft")),
    targets=Shares(),
    training=Training(),
    version=3,
)
