"""The accuracy of annotators on items with gold, and where it contradicts the model's estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64
from scipy import stats

from crowdsweep.labelling.annotators import AnnotatorFacts
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.questions import Questions
from crowdsweep.labelling.temperature import said_by

_FEWEST = 5  # least number of answers to gold by which an annotator is compared with the model
_CHANCE = 0.01  # probability of a false alarm over all annotators
_NAMED = 5

Column = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AgainstGold:
    """Annotators' answers to questions with gold.

    Attributes:
        right: number of right answers of each annotator; an unsure answer counts as the share that it gives to gold.
        n: number of answers of each annotator.
    """

    right: Column
    n: Int64[np.ndarray, " annotators"]

    def columns(self) -> dict[str, Any]:
        """Returns columns for the table of annotators. Intervals are Jeffreys's 95 % intervals, extended to 0 where no
        answer is right and to 1 where all are; they are null for annotators without an answer."""
        none = self.n == 0
        low = np.where(self.right <= 0, 0.0, stats.beta.ppf(0.025, 0.5 + self.right, 0.5 + self.n - self.right))
        high = np.where(self.right >= self.n, 1.0, stats.beta.ppf(0.975, 0.5 + self.right, 0.5 + self.n - self.right))
        return {
            "gold_right": self.right,
            "gold_n": self.n,
            "gold_accuracy_low": pa.array(low, mask=none),
            "gold_accuracy_high": pa.array(high, mask=none),
        }


def gold_of_annotators(
    fitted: Fitted, questions: Questions, code: Int64[np.ndarray, " annotators"]
) -> AgainstGold | None:
    """Counts annotators' right answers to questions with gold; returns None where no question has gold.

    Args:
        code: numbers of the annotators, ascending.
    """
    truth = gold_of_questions(fitted, questions)
    known = truth[questions.question] >= 0
    if not known.any():
        return None
    place = np.searchsorted(code, questions.annotator[known])
    agrees = (questions.answer == truth[questions.question])[known].astype(np.float64)
    right = said_by(questions.certainty[known], agrees, questions.n_answers)
    return AgainstGold(
        right=np.bincount(place, right, len(code)), n=np.bincount(place, minlength=len(code)).astype(np.int64)
    )


def contradictions(facts: AnnotatorFacts, against: AgainstGold, names: Sequence[str]) -> str:
    """Returns a message that names annotators whose accuracy on gold contradicts the model's estimate; empty where
    there are none."""
    compared = np.flatnonzero(against.n >= _FEWEST)
    if not len(compared):
        return ""
    n, said = against.n[compared], facts.accuracy[compared]
    share = against.right[compared] / n
    deviation = (facts.high - facts.low)[compared] / (2 * stats.norm.ppf(0.975))
    chance = np.clip(said, 0.5 / n, 1.0 - 0.5 / n)
    away = np.abs(share - said) / np.sqrt(deviation**2 + chance * (1.0 - chance) / n)
    found = compared[np.argsort(-away, kind="stable")[: int((away > stats.norm.isf(_CHANCE / 2 / len(n))).sum())]]
    if not len(found):
        return ""
    shown = ", ".join(
        f"{names[one]} {against.right[one] / against.n[one]:.2f} on gold, {facts.accuracy[one]:.2f} by the model"
        for one in found[:_NAMED].tolist()
    )
    more = ", …" if len(found) > _NAMED else ""
    return (
        f"gold contradicts the accuracy of {len(found)} of {len(compared)} annotators: {shown}{more}; go by gold_right "
        f"and gold_n"
    )


def gold_of_questions(fitted: Fitted, questions: Questions) -> Int64[np.ndarray, " questions"]:
    """Returns the right answer of each question, -1 where it is not known."""
    dataset = fitted.dataset
    gold = dataset.gold.of_items(fitted.code, dataset.items.n_items)
    truth = np.full(len(questions.posterior), -1, dtype=np.int64)
    if fitted.training.scale != "multilabel":
        truth[gold.item] = gold.label
        return truth
    truth[gold.known_classes(fitted.training.n_items, questions.kinds).reshape(-1)] = 0
    positive = gold.positive()
    truth[positive.item.astype(np.int64) * questions.kinds + positive.label] = 1
    return truth
