"""Replaces the real crowd by a simulated one: annotators of known ability answer a dataset's items with gold.

The crowds are those of the Crowd Mixture Model's experiments (Mena and Nanculef, CIARP 2019, and the authors' code).
Only the shares of the groups and how often each is right are taken from there. Wrong answers are spread evenly over the
other classes, since the published matrices belong to specific sets of three and of ten classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from crowdsweep.data.dataset import SPLITS, CrowdDataset, NumberedNames
from crowdsweep.data.simulate import simulate_crowd
from crowdsweep.errors import DataError
from crowdsweep.seeds import SeedStream

ANNOTATORS, LABELS_PER_ITEM = 100, 5.0
"""Defaults, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of annotators: the share of each group, and how often its members are right."""

    shares: tuple[float, ...]
    right: tuple[float, ...]

    def confusion(self, n_classes: int) -> Float64[np.ndarray, "groups true observed"]:
        """Returns the confusion matrix of each group, with errors spread evenly over the other classes.

        A group that is right less often than chance answers against the truth.
        """
        right = np.array(self.right)[:, None, None]
        one = np.eye(n_classes)
        return right * one + (1 - right) * (1 - one) / (n_classes - 1)


# By `catalogue.CrowdName`.
CROWDS: Mapping[str, Groups] = {
    "setup1": Groups(shares=(0.25, 0.55, 0.20), right=(0.727, 0.642, 0.385)),
    "cifar": Groups(shares=(0.20, 0.45, 0.15, 0.20), right=(0.74, 0.60, 0.45, 0.32)),
    "bad-votes": Groups(shares=(0.25, 0.35, 0.40), right=(0.727, 0.642, 0.385)),
}


def answered_by(
    dataset: CrowdDataset, crowd: str, annotators: int, labels_per_item: float, seeds: SeedStream
) -> CrowdDataset:
    """Returns the dataset with the answers of a simulated crowd in place of all real ones.

    The crowd answers the training items with gold or, if there are none, all items with gold.

    Args:
        dataset: a dataset with gold of one class per item.
        crowd: key of `CROWDS`.

    Raises:
        DataError: there is no such gold, or the crowd cannot give that many labels.
    """
    where = f"dataset {dataset.name}, parameter crowd"
    if dataset.scale == "multilabel" or dataset.gold.applies is not None:
        raise DataError(f"{where}: expected gold of one class per item, which a crowd can be simulated for")
    trains = dataset.split[dataset.gold.item] == SPLITS.index("train")
    known = trains if trains.any() else np.ones(len(dataset.gold), dtype=bool)
    items = dataset.gold.item[known]
    if not len(items):
        raise DataError(f"{where}: expected items with gold, whose answers can be simulated; found none")
    groups = CROWDS[crowd]
    annotations, true_crowd = simulate_crowd(
        dataset.gold.label[known],
        items=items,
        n_items=dataset.items.n_items,
        n_annotators=annotators,
        labels_per_item=labels_per_item,
        group_probs=np.array(groups.shares),
        confusion=groups.confusion(dataset.n_classes),
        seeds=seeds,
    )
    return replace(
        dataset,
        annotations=annotations,
        annotator_names=NumberedNames("annotator", annotators),
        annotator_features=None,
        crowd=true_crowd,
    )
