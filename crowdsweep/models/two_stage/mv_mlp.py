"""MV+MLP: hard majority vote, then a classifier that may be trained as long as end-to-end models are.

The classifier f learns the class with the most votes, one of them at random where they tie. Baseline of Chen et al.
(2020), IJCAI, Tables 1 and 2. It is `hard-mv`, but how long it trains, which decides the result as much as what it
learns, is searched as for the models that it is compared with. The paper: on sentiment polarity 1,200 hidden units,
learning rate 1e-4, 200 epochs; on music genre `network: linear`, 1e-3, 5,000 epochs.
"""

from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.two_stage._pair import Fixed, pair
from crowdsweep.models.two_stage._targets import Likeliest
from crowdsweep.models.two_stage._training import LONG_SPACE, Training

MODEL = pair(
    __name__,
    title="MV+MLP: hard majority vote, then a classifier",
    source="Chen et al. 2020, section 4 (MV+MLP)",
    aggregate=Fixed(MajorityVote(votes="hard")),
    targets=Fixed(Likeliest()),
    training=Training(),
    space=LONG_SPACE,
    version=3,
)
