"""Plain supervised learning of label distributions (baseline PD of Weerasooriya, Ororbia and Homan).

The classifier h(x) learns each item's histogram of answers y_i by KL(y_i || h(x_i)): the whole distribution is wanted,
not a class behind it. The authors train a convolutional network on words, for a fixed number of epochs.
"""

from crowdsweep.models.two_stage._pair import pair
from crowdsweep.models.two_stage._targets import Histograms
from crowdsweep.models.two_stage._training import VALIDATED_SPACE, ValidatedTraining

MODEL = pair(
    __name__,
    title="Plain label-distribution learning: a classifier trained on histograms of answers",
    source="Weerasooriya, Ororbia and Homan, baseline PD",
    targets=Histograms(),
    training=ValidatedTraining(),
    space=VALIDATED_SPACE,
    version=2,
)
