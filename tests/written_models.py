"""Models that tests write into a plug-in folder, and trials of them."""

from typing import Any

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.models import registered
from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.spec import TrialSpec

# Models as a person would add them, one file each, found through CROWDSWEEP_PLUGINS.
HEAD = """
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import ConfusionMatrices, FitResult, ModelInfo

CALLS = []
"""


FOOT = """
MODEL = ModelInfo(name={name!r}, title="t", model=Probe, source="s", cost=lambda shape, params: 1.0, {info})
"""


VOTES = """
def votes(data, context):
    return FitResult(item_probs=data.annotations.label_distribution(), objective=np.arange(3.0), iterations=3)
"""


PREDICTING = """
class Uniform:
    uses = ("soft", "snap")
    def predict(self, items, use):
        probs = np.zeros((items.n_items, 2))
        probs[:, 0 if use == "soft" else 1] = 1.0
        return probs

@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        CALLS.append(context.gold)
        matrices = np.tile(np.eye(data.n_classes), (data.n_annotators, 1, 1))
        return FitResult(
            item_probs=data.annotations.label_distribution(),
            annotators=ConfusionMatrices(matrices=matrices),
            label_probs=lambda item, annotator: np.full((len(item), data.n_classes), 1 / data.n_classes),
            predictor=Uniform(),
        )
"""


COUNTING = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        CALLS.append(context.seeds.seed)
        context.report(1, 0.5)
        return votes(data, context)
"""
)


def dataset(*, gold: bool = True, features: bool = True, anonymous: bool = False) -> CrowdDataset:
    """Twelve items of two classes, six to train, three for dev, three for test; three annotators, one of them idle."""
    label = np.arange(12) % 2
    answers = Annotations.of(
        item=np.repeat(np.arange(12), 2),
        annotator=np.tile([0, 1], 12),
        label=np.where(np.tile([True, False], 12), np.repeat(label, 2), 0),  # annotator 1 always says 0
        n_items=12,
        n_annotators=3,
        n_classes=2,
    )
    known = np.arange(12 if gold else 0)
    return CrowdDataset(
        name="probe",
        annotations=answers.anonymised() if anonymous else answers,
        items=Items(n_items=12, features=np.zeros((12, 2), np.float32) if features else None),
        split=np.repeat([SPLITS.index(name) for name in ("train", "dev", "test")], [6, 3, 3]).astype(np.int8),
        gold=Gold(item=known.astype(np.int32), label=label[known].astype(np.int32)),
        item_names=NumberedNames("i", 12),
        annotator_names=NumberedNames("a", 3),
        class_names=("no", "yes"),
    )


def specs_of(model: str, base: CrowdDataset, seeds: range = range(8), **fields: Any) -> list[TrialSpec]:
    params = registered.full_params(model, fields.pop("params", {}))
    plain = {"model": model, "params": params, "model_version": 1, "dataset": base.name}
    return [TrialSpec(**plain, fingerprint=base.fingerprint, seed=seed, **fields) for seed in seeds]


def silent(event: TrialProgressed) -> bool:
    """Takes a report and lets the trial go on."""
    return True
