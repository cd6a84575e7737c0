"""The model that labels, and describes annotators, where none is chosen."""

import numpy as np

from crowdsweep.data.dataset import CrowdDataset

DEFAULT_MODEL = "hierarchical-dawid-skene"
"""The model of labels alone that is on average the best on public data (`crowdsweep/models/README.md` has the table);
of several classes per item it is fitted to each class."""

_ENOUGH = 500  # items with several answers


def default_model(dataset: CrowdDataset) -> tuple[str, str]:
    """Returns the model of labels alone that labels a dataset, and why it is that one.

    How annotators err shows where they label the same items. Where few have a second answer and most have none, what
    these few tell of the others is mostly luck (measured: `docs/pages/how-to/choose-a-model.md`).
    """
    rows = dataset.annotations
    item = rows.item[rows.pair_starts] if dataset.scale == "multilabel" else rows.item
    n = np.bincount(item)
    if (n > 1).sum() < min((n == 1).sum(), _ENOUGH):
        return "majority-vote", "most items have one label, which says little about how annotators err"
    return DEFAULT_MODEL, "the default for labels alone"
