"""Single-task learning: a classifier on each item's one class, gold or silver.

Silver is the class that most annotators chose. It is what `mtl` is compared with: the same network and training without
the second head. Reference: Fornaciari, Uma, Paun, Plank, Hovy and Poesio (NAACL 2021), there STL.

    y_i        targets, one-hot     `labels`

Deviations: an item whose silver votes tie is left out (`ties`), as the authors do for word stems; batches are drawn
anew each epoch; with patience (they train ten epochs and keep the best) the loss on the dev items' votes is validated,
gold of dev items being out of reach.
"""

from crowdsweep.models.two_stage._hard_and_soft import SPACE, TRAINING, HardLabels
from crowdsweep.models.two_stage._pair import pair

MODEL = pair(
    __name__,
    title="Single-task learning: a classifier on gold or silver labels (with gold: an upper bound)",
    source="Fornaciari et al. 2021, NAACL, STL",
    targets=HardLabels(),
    training=TRAINING,
    space=SPACE,
    version=2,
)
