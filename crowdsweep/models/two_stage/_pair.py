"""Two-stage models as declarations: what aggregates, what targets that makes, and what is trained on them.

`pair` puts a model together of these parts. The hyper-parameters of a part are the model's own, unless the part is
`Fixed`: `hard-mv` is the majority vote, fixed, its winners, of which `ties` may be chosen, and a classifier's training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any, final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._cost import training_cost
from crowdsweep.models.contract import FitContext, FitResult, Model, ModelInfo, Need
from crowdsweep.models.two_stage._targets import Targets, fit_quietly
from crowdsweep.models.two_stage._training import CLASSIFIER_SPACE, SecondStage

READS_FEATURES: frozenset[Need] = frozenset({"features"})


@final
@dataclass(frozen=True)
class Fixed:
    """A part that brings no hyper-parameters."""

    part: Any


def pair(
    module: str,
    *,
    targets: Targets | Fixed,
    training: SecondStage,
    aggregate: Model | Fixed | None = None,
    **about: Any,
) -> ModelInfo:
    """Returns a model that trains a classifier on targets.

    Args:
        module: `__name__` of the model's file, which has the model's name.
        aggregate: the aggregator that the targets are made of, if any.
        about: of `ModelInfo`, as of `two_stage`.
    """

    def fit_batch(model: Any, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        aggregate = model.aggregate
        fitted = [None] * len(data) if aggregate is None else fit_quietly(aggregate, data, contexts)
        return model.training.fit(data, contexts, list(map(model.targets.stage, data, contexts, fitted)))

    aggregate = Fixed(None) if aggregate is None else aggregate
    model = model_class(module, fit_batch, aggregate=aggregate, targets=targets, training=training)
    return two_stage(name=name_of(module), model=model, **about)


def two_stage(**about: Any) -> ModelInfo:
    """Returns what the platform knows of a model whose second stage is a `SecondStage`; `about` comes on top."""
    usual: dict[str, Any] = {
        "steps": "epochs",
        "predicts_labels": True,
        "needs": READS_FEATURES,
        "supports": frozenset({"votes", "soft_answers"}),
        "checkpoints": True,
        "space": CLASSIFIER_SPACE,
        "cost": training_cost,
        "label_symmetric": False,
    }
    return ModelInfo(**{**usual, **about})


def model_class(module: str, fit_batch: Callable[..., list[FitResult]], **parts: Any) -> type[Any]:
    """Returns the dataclass of a model whose fields are its parts, but for those that are `Fixed`.

    Args:
        module: `__name__` of the model's file, where the class is found as `MODEL.model`.
        parts: by the name of their field, with their defaults.
    """
    fixed = {name: part.part for name, part in parts.items() if isinstance(part, Fixed)}
    offered = [(name, type(part), part) for name, part in parts.items() if name not in fixed]
    namespace = {**fixed, "fit_batch": fit_batch, "__doc__": f"Hyper-parameters of {name_of(module)}."}
    model = make_dataclass("Pair", offered, namespace=namespace, frozen=True, kw_only=True)
    model.__module__, model.__qualname__ = module, "MODEL.model"  # where pickle finds it
    return final(model)


def name_of(module: str) -> str:
    """Returns the name of the model in a file."""
    return module.rpartition(".")[2].replace("_", "-")
