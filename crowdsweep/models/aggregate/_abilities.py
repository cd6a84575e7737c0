"""Annotators of one ability each, who are right more often on easy items than on difficult ones.

An annotator answers an item rightly with probability sigmoid(ability × easiness), else with each other class equally
often. Ability may be negative, which is adversarial; easiness is positive.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.special import expit

from crowdsweep.arrays import AnnotatorCodes, Confusion, Confusions, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.models.contract import LabelProbs

Abilities = Float64[np.ndarray, " annotators"]
Easiness = Float64[np.ndarray, " items"]

_QUANTILES = 64  # so many typical items, and typical annotators, stand for all where an average runs over them


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AbilityModel:
    """Annotators by ability alone; a matrix is the average over items of typical easiness.

    Attributes:
        ability: alpha.
        easiness: beta', quantiles over the training items.
        crowd: quantiles of the abilities, each counting as often as it answered: for an annotator without answers.
    """

    ability: Abilities
    easiness: Float64[np.ndarray, " typical"]
    crowd: Float64[np.ndarray, " typical"]
    answered: Bool[np.ndarray, " annotators"]
    n_classes: int

    @property
    def n_annotators(self) -> int:
        return len(self.ability)

    def right(
        self, annotators: Int[np.ndarray, " rows"], easiness: Float64[np.ndarray, "#rows items"]
    ) -> Float64[np.ndarray, "rows items"]:
        """Returns the probability that each of these annotators answers each of these items rightly."""
        probs = expit(self.ability[annotators][:, None] * easiness)
        unknown = ~self.answered[annotators]
        if unknown.any():
            theirs = easiness if len(easiness) == 1 else easiness[unknown]
            probs[unknown] = expit(self.crowd * theirs[:, :, None]).mean(axis=2)
        return probs

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        right = self.right(annotators, self.easiness[None]).mean(axis=1)
        wrong = (1.0 - right) / max(self.n_classes - 1, 1)
        identity = np.eye(self.n_classes)
        return right[:, None, None] * identity + wrong[:, None, None] * (1.0 - identity)

    def global_confusion(self) -> Confusion | None:
        return None


def abilities_of(annotations: Annotations, easiness: Easiness, ability: Abilities) -> AbilityModel:
    """Returns the annotators of these abilities.

    Args:
        easiness: of the items that are typical.
        ability: of every declared annotator.
    """
    middles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    given = ability[annotations.annotator] if len(annotations) else ability
    return AbilityModel(
        ability=ability,
        easiness=np.quantile(easiness, middles),
        crowd=np.quantile(given, middles),
        answered=annotations.labels_per_annotator > 0,
        n_classes=annotations.n_classes,
    )


def label_probs_of_abilities(posterior: ItemProbs, annotators: AbilityModel, easiness: Easiness) -> LabelProbs:
    """Returns the function rows (item, annotator) -> posterior × right + (1 - posterior) × wrong."""

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        right = annotators.right(annotator, easiness[item][:, None])
        wrong = (1.0 - right) / max(annotators.n_classes - 1, 1)
        return posterior[item] * right + (1.0 - posterior[item]) * wrong

    return label_probs
