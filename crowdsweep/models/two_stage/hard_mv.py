"""Hard majority vote, then a classifier: it learns the class that got the most votes.

Baseline of Mena and Nanculef (CIARP 2019), there hardMV: targets argmax r_i, classifier f(x). Their code takes the
first of tied classes; here `equal_budget` trains all epochs.
"""

from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.two_stage._pair import Fixed, pair
from crowdsweep.models.two_stage._targets import Likeliest
from crowdsweep.models.two_stage._training import Training

MODEL = pair(
    __name__,
    title="Hard majority vote, then a classifier",
    source="Mena and Nanculef 2019, section 4 (hardMV)",
    aggregate=Fixed(MajorityVote(votes="hard")),
    targets=Likeliest(),
    training=Training(),
    version=4,
)
