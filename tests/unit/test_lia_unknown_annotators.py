"""LIA's annotators without answers have the crowd's matrix, which is made once however many chunks ask for it."""

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._lia_fitted import FittedLia, LiaAnnotators
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

N_ITEMS, N_ACTIVE, N_ANNOTATORS = 20, 4, 60


def test_of_many_unknown_annotators_nothing_is_computed_but_the_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(N_ITEMS), 3)
    rows = Annotations.of(
        item=item,
        annotator=rng.integers(0, N_ACTIVE, len(item)) * 15,
        label=rng.integers(0, 2, len(item)),
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=2,
    )
    data = TrainingData(
        annotations=rows, items=Items(n_items=N_ITEMS, features=rng.normal(size=(N_ITEMS, 2)).astype(np.float32))
    )
    asked: list[int] = []
    competence = FittedLia.competence

    def counting(self: FittedLia, annotators: np.ndarray) -> torch.Tensor:
        asked.append(len(annotators))
        return competence(self, annotators)

    settings = {"iterations": 1, "epochs": 1, "steps": 0}
    fitted = fit_one(build_model("lia", settings), data, FitContext(seeds=SeedStream(0)))
    annotators = fitted.annotators
    assert isinstance(annotators, LiaAnnotators)
    monkeypatch.setattr(FittedLia, "competence", counting)
    chunks = np.array_split(np.arange(N_ANNOTATORS), 20)
    matrices = np.concatenate([annotators.confusion(part) for part in chunks])
    assert sum(asked) <= 2 * N_ACTIVE
    active = np.flatnonzero(rows.labels_per_annotator)
    given = rows.labels_per_annotator[active]
    crowd = np.tensordot(given / given.sum(), matrices[active], axes=1)
    idle = np.setdiff1d(np.arange(N_ANNOTATORS), active)
    np.testing.assert_allclose(matrices[idle], np.broadcast_to(crowd, (len(idle), 2, 2)), atol=1e-12)
