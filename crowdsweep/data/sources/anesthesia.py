"""Pre-operative fitness of 45 patients, graded 1 to 4 by five anaesthetists.

Dawid & Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied Statistics
28(1), 1979, table 1. Observer 1 graded every patient three times, so pairs repeat. There is no gold.
"""

from collections.abc import Mapping

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.catalogue import Source
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, Scalar

# One word per patient: three grades by observer 1, then one each by observers 2 to 5.
_GRADES = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223 2232223 4444444 2223343 1111111 2223212 1121111
1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 1222222 1111111 1111111 2232222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 3344343 1222232 2233233 3333432 1111111 1111111 1122111 2232222 1121111 2222222
"""
_OBSERVERS = (0, 0, 0, 1, 2, 3, 4)


def _base(params: Mapping[str, Scalar]) -> CrowdDataset:
    patients = _GRADES.split()
    n_items = len(patients)
    return CrowdDataset(
        name=SOURCE.name,
        title=SOURCE.title,
        annotations=Annotations.of(
            item=np.repeat(np.arange(n_items), len(_OBSERVERS)),
            annotator=np.tile(_OBSERVERS, n_items),
            label=np.array([int(grade) - 1 for patient in patients for grade in patient]),
            n_items=n_items,
            n_annotators=5,
            n_classes=4,
        ),
        items=Items(n_items=n_items),
        split=np.zeros(n_items, dtype=np.int8),
        gold=Gold(item=np.empty(0, dtype=np.int32), label=np.empty(0, dtype=np.int32)),
        item_names=[str(number + 1) for number in range(n_items)],
        annotator_names=[str(observer + 1) for observer in range(5)],
        class_names=("1", "2", "3", "4"),
        params=params,
    )


SOURCE = Source(
    name="anesthesia",
    title="Pre-operative fitness by five anaesthetists (Dawid & Skene 1979)",
    defaults={},
    base=_base,
)
