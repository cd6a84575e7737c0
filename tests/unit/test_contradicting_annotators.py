"""Annotators who contradict each other: at its defaults ldl-nm learns what each of them says."""

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all
from crowdsweep.models.joint.ldl_nm import LdlNm
from crowdsweep.seeds import SeedStream


@pytest.mark.parametrize("contrary", [25, pytest.param(10, marks=pytest.mark.long)])
def test_ldl_nm_trains_until_it_knows_annotators_who_contradict_each_other(contrary: int) -> None:
    """The ensemble's mean, which is what an epoch is chosen on elsewhere, is flat in the first epochs, and stays so."""
    rng = np.random.default_rng(1)
    kind, turned = np.arange(200) % 2, np.arange(50) < contrary
    item = np.repeat(np.arange(200), 10)
    annotator = np.concatenate([rng.choice(50, 10, replace=False) for _ in range(200)])
    label = kind[item] ^ turned[annotator] ^ (rng.random(2000) < 0.1)
    features = (np.eye(2)[kind] @ rng.normal(size=(2, 5)) * 2 + 0.3 * rng.normal(size=(200, 5))).astype(np.float32)
    asked = rng.random(2000) < 0.2
    data = TrainingData(
        annotations=Annotations.of(
            item=item[~asked],
            annotator=annotator[~asked],
            label=label[~asked],
            n_items=200,
            n_annotators=50,
            n_classes=2,
        ),
        items=Items(n_items=200, features=features),
    )
    (found,) = fit_all(LdlNm(), [data], [FitContext(seeds=SeedStream(0))])
    assert found.label_probs is not None
    said = found.label_probs(item[asked].astype(np.int32), annotator[asked].astype(np.int32))
    assert np.log(said[np.arange(asked.sum()), label[asked]]).mean() > -0.4  # of chance it is -.69, of the truth -.33
