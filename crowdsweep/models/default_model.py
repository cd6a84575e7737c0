"""The model that labels, and describes annotators, where none is chosen."""

import numpy as np
from jaxtyping import Integer

from crowdsweep.data.dataset import Scale

_ENOUGH = 500  # items with several labels


def default_model(scale: Scale, labels_per_item: Integer[np.ndarray, " items"] | None = None) -> tuple[str, str]:
    """Returns the model of labels alone that is taken, and why it is that one.

    Of several classes per item it is the vote on each of them, else hierarchical Dawid-Skene, on average the best on
    public data (`crowdsweep/models/README.md` has the table). How annotators err shows where they label the same items.
    Where few items have a second label and most have none, what these few tell of the others is mostly luck (measured:
    `docs/pages/how-to/choose-a-model.md`), and the vote labels as well.

    Args:
        scale: of the labels.
        labels_per_item: how many labels each item has that is to be labelled; None for a model that is to describe the
            annotators, which the vote does not.
    """
    if scale == "multilabel":
        return "majority-vote", "the default for labels alone"
    n = labels_per_item
    if n is not None and (n > 1).sum() < min((n == 1).sum(), _ENOUGH):
        return "majority-vote", "most items have one label, which hardly tells how annotators err"
    return "hierarchical-dawid-skene", "the default for labels alone"
