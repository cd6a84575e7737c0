"""GLAD+MLP: the classes that GLAD finds, then a classifier that may be trained as long as end-to-end models are.

GLAD weighs each label by its annotator's ability and its item's easiness; the classifier learns the likeliest class.
Baseline of Chen et al. (2020), IJCAI, Tables 1 and 2. It is `mv-mlp` with `glad` for the vote.
"""

from crowdsweep.models.aggregate.glad import Glad
from crowdsweep.models.two_stage._pair import Fixed, pair
from crowdsweep.models.two_stage._targets import Likeliest
from crowdsweep.models.two_stage._training import LONG_SPACE, Training

MODEL = pair(
    __name__,
    title="GLAD+MLP: the classes that GLAD finds, then a classifier",
    source="Chen et al. 2020, section 4 (GLAD+MLP)",
    aggregate=Glad(),
    targets=Fixed(Likeliest()),
    training=Training(),
    space=LONG_SPACE,
    version=3,
)
