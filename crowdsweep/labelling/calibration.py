"""Calibrated probabilities: of labels with `probability` 0.9, nine in ten should be right.

The temperature and the pseudo-count (`temperature`) are chosen by gold where enough items have both gold and answers.
Elsewhere they are chosen by held-out answers: the model is fitted once more, without a tenth of the answers. If it has
a classifier, that fit also misses all answers of a tenth of the items. Only unseen items show how sure a classifier is
of unseen items. Gold of fewer items then moves what held-out answers chose, the further the more of it there is.

Errors that all annotators share do not show in held-out answers. On public datasets, of the labels to which models of
crowds give more than 0.99, nine in ten are right. So a share of every probability is attributed to luck and spread
evenly over the classes. This share is chosen by gold where there is some; elsewhere it is `LUCK`, which bounds how sure
any label can be.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data import splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrialData
from crowdsweep.errors import BadInput, FitFailed
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.questions import questions_of
from crowdsweep.labelling.temperature import (
    TEMPERATURES,
    Unseen,
    curve,
    evenly_spaced,
    mean_temperature,
    prior,
    tempered,
)
from crowdsweep.metrics.items import as_binary
from crowdsweep.seeds import SeedStream

LUCK = 0.03
HELD_OUT = 0.1
ENOUGH_GOLD = 30  # items with gold and answers, from which on gold alone calibrates the probabilities
_AROUND = 0.5  # how far, in logarithms, the temperature by gold may lie from that by held-out answers
_SMOOTHING = 0.5
_FOR_SMOOTHING = 2.0  # log-likelihood that the pseudo-count must cost before it is left out
_LUCKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
_MOST_ROWS, _MOST_NUMBERS = 50_000, 20_000_000

Source = Literal["gold", "gold and held-out answers", "held-out answers", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How probabilities are calibrated.

    Attributes:
        temperature: above 1 where the probabilities were too sure.
        smoothing: pseudo-count that is added to an item's answers for each class.
        luck: share of each probability that is spread evenly over the classes.
        by: what the calibration was chosen by.
        rows: number of items with gold, else of held-out answers, that it was chosen by.
    """

    temperature: float = 1.0
    smoothing: float = 0.0
    luck: float = LUCK
    by: Source = "nothing"
    rows: int = 0

    def of(self, probs: ItemProbs, n_answers: Float64[np.ndarray, " items"], *, multilabel: bool) -> ItemProbs:
        """Returns calibrated probabilities of items; the order of an item's classes does not change.

        Args:
            probs: probabilities of a model; independent ones of multi-label classes.
            n_answers: number of answers of each item.
            multilabel: whether items may have several classes.
        """
        if multilabel:
            rows = as_binary(probs)
            return self._rows(rows, np.repeat(n_answers, probs.shape[1]))[:, 1].reshape(probs.shape)
        return self._rows(probs, n_answers)

    def _rows(self, probs: ItemProbs, n_answers: np.ndarray) -> ItemProbs:
        rows = tempered(probs, n_answers, self.temperature, self.smoothing)
        return (1.0 - self.luck) * rows + self.luck / probs.shape[1]

    def words(self) -> str:
        """Returns a description of the calibration in one line."""
        found = f"temperature {self.temperature:.2f}, and {self.luck:.1%} of each spread evenly over the classes"
        if self.by == "nothing":
            return f"{found}; there was nothing to choose on"
        plural = "" if self.rows == 1 else "s"
        rows = (
            f"{self.rows:,} item{plural} with gold" if "gold" in self.by else f"{self.rows:,} held-out answer{plural}"
        )
        return f"{found}; chosen on {rows}" + (
            " and held-out answers" if self.by == "gold and held-out answers" else ""
        )


@dataclass(frozen=True, kw_only=True)
class Calibrations:
    """The calibration of items with answers, and that of items without, which a classifier labels."""

    answered: Calibration
    unseen: Calibration


def calibrate(fitted: Fitted) -> Calibrations:
    """Chooses how a model's probabilities are calibrated; fits the model once more where gold alone does not decide."""
    of_answered, of_unseen = (None, None) if fitted.saw_gold else _with_gold(fitted)
    enough, enough_unseen = (one is not None and one.n_items >= ENOUGH_GOLD for one in (of_answered, of_unseen))
    held_out: tuple[Unseen | None, Unseen | None] = (None, None)
    if not enough or (fitted.predictors and not enough_unseen):
        held_out = _held_out(fitted)
    return Calibrations(
        answered=_by_gold(of_answered, None if enough else _chosen(held_out[0], smooth=True)),
        unseen=_by_gold(of_unseen, None if enough_unseen else _chosen(held_out[1], smooth=False)),
    )


def answers_per_item(annotations: Annotations, *, multilabel: bool) -> Float64[np.ndarray, " items"]:
    """Returns the number of answers of each item; in multi-label data, all rows of one annotator are one answer."""
    if not multilabel:
        return annotations.labels_per_item.astype(np.float64)
    item = annotations.item[annotations.pair_starts]
    return np.bincount(item, minlength=annotations.n_items).astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class _WithGold:
    """Items with gold: float64 [rows, answers] `probs` of their questions, the right answer `label` of each question,
    and the number of answers behind each row."""

    n_items: int
    probs: ItemProbs
    label: Int64[np.ndarray, " rows"]
    n_answers: Float64[np.ndarray, " rows"]


def _with_gold(fitted: Fitted) -> tuple[_WithGold | None, _WithGold | None]:
    """Returns the items with gold and answers, and those with gold that only a classifier labels; None for none."""
    dataset, multilabel = fitted.dataset, fitted.training.scale == "multilabel"
    has_gold = np.zeros(dataset.items.n_items, dtype=bool)
    has_gold[dataset.gold.item] = True
    answers = answers_per_item(dataset.annotations, multilabel=multilabel)
    known = np.flatnonzero(has_gold[fitted.code] & (answers[fitted.code] > 0))
    others = np.setdiff1d(np.flatnonzero(has_gold), fitted.code)
    answered = unseen = None
    if len(known):
        answered = _gold_rows(fitted, fitted.code[known], fitted.item_probs[known], answers[fitted.code[known]])
    if len(others) and fitted.predictors:
        probs: ItemProbs = np.mean(fitted.predictions(dataset.items.take(others)), axis=0)
        unseen = _gold_rows(fitted, others, probs, np.ones(len(others)))
    return answered, unseen


def _gold_rows(fitted: Fitted, code: np.ndarray, probs: ItemProbs, n_answers: np.ndarray) -> _WithGold:
    dataset = fitted.dataset
    gold = dataset.gold.of_items(code, dataset.items.n_items)
    if fitted.training.scale != "multilabel":
        label = gold.label.astype(np.int64)
        return _WithGold(n_items=len(code), probs=probs[gold.item], label=label, n_answers=n_answers[gold.item])
    applies = np.zeros(probs.shape, dtype=np.int64)
    applies[gold.positive().item, gold.positive().label] = 1
    known = gold.known_classes(*probs.shape).reshape(-1)
    return _WithGold(
        n_items=len(code),
        probs=as_binary(probs)[known],
        label=applies.reshape(-1)[known],
        n_answers=np.repeat(n_answers, probs.shape[1])[known],
    )


def _by_gold(gold: _WithGold | None, held_out: Calibration | None) -> Calibration:
    """Returns the calibration with the highest posterior given gold.

    Args:
        gold: items with gold; None for none.
        held_out: the calibration by held-out answers, around which little gold is heard; None where gold is enough. The
            prior is then that of held-out answers.
    """
    if gold is None:
        return held_out or Calibration()
    by_answers = held_out is not None and held_out.by != "nothing"
    around = prior(held_out.temperature, _AROUND) if held_out is not None and by_answers else prior(1.0, 1.0)
    smoothings = (_SMOOTHING, 0.0) if held_out is None else (held_out.smoothing,)
    best, found = -np.inf, Calibration()
    for smoothing in smoothings:
        for temperature, known_before in zip(TEMPERATURES.tolist(), around.tolist(), strict=True):
            rows = tempered(gold.probs, gold.n_answers, temperature, smoothing)
            right = rows[np.arange(len(rows)), gold.label]
            for luck in _LUCKS:
                lucky = (1.0 - luck) * right + luck / rows.shape[1]
                # Luck has a normal prior in its logarithm, around `LUCK` and one wide, as the temperature has around 1.
                before = known_before - 0.5 * np.log(luck / LUCK) ** 2 + (_FOR_SMOOTHING if smoothing else 0.0)
                if (score := float(floored_log(lucky).sum()) + before) > best:
                    best = score
                    found = Calibration(
                        temperature=temperature,
                        smoothing=smoothing,
                        luck=luck,
                        by="gold and held-out answers" if by_answers else "gold",
                        rows=gold.n_items,
                    )
    return found


def _chosen(unseen: Unseen | None, *, smooth: bool) -> Calibration:
    if unseen is None or not len(unseen.answer):
        return Calibration(smoothing=_SMOOTHING if smooth else 0.0)
    rows = unseen.thinned(_most_rows(unseen.probs.shape[1]))
    found = {smoothing: curve(rows, smoothing) for smoothing in ((_SMOOTHING, 0.0) if smooth else (0.0,))}
    best = max(found, key=lambda one: (found[one] + prior(1.0, 1.0)).max() + (_FOR_SMOOTHING if one else 0.0))
    return Calibration(
        temperature=mean_temperature(found[best]),
        smoothing=best,
        by="held-out answers",
        rows=unseen.total or len(unseen.answer),
    )


def _held_out(fitted: Fitted) -> tuple[Unseen | None, Unseen | None]:
    """Returns held-out answers with the probabilities of a fit that did not see them, and answers of held-out items.
    The latter are all answers of items that the fit did not see, with its classifier's probabilities. Either is None
    where there are none."""
    dataset = fitted.dataset
    trial = splits.prepare(dataset, fitted.dataset_params, seed=0, heldout_fraction=HELD_OUT)
    gone = np.zeros(len(trial.code), dtype=bool)
    if fitted.predictors:
        draws = SeedStream(0).numpy("calibration").random(len(trial.code))
        gone = trial.training.items.whole_units(draws < HELD_OUT)
    seen = trial.training.annotations.take(~gone[trial.training.annotations.item])
    if not len(seen) or (trial.heldout is None and not gone.any()):
        return None, None
    rows = replace(seen, item=trial.code[seen.item], n_items=dataset.items.n_items)  # the order of the rows stays
    kept = replace(dataset, annotations=rows)
    try:
        part = fit_everything(fitted.model, fitted.params, kept, fitted.dataset_params, n_seeds=1)
    except (BadInput, FitFailed):  # too little data for this model
        return None, None
    return _of_answers(part, trial, gone), _of_items(part, trial, gone)


def _of_answers(part: Fitted, trial: TrialData, gone: np.ndarray) -> Unseen | None:
    if trial.heldout is None:
        return None
    place = np.searchsorted(trial.code, part.code)
    probs = part.item_probs
    if len(part.code) < len(trial.code):
        probs = np.full((len(trial.code), trial.training.n_classes), 1.0 / trial.training.n_classes)
        probs[place] = part.item_probs
    there = np.zeros(len(trial.code), dtype=bool)
    there[place] = True
    rows = trial.heldout.take((there & ~gone)[trial.heldout.item])
    counts = np.zeros(len(trial.code))
    multilabel = trial.training.scale == "multilabel"
    counts[place] = answers_per_item(part.training.annotations, multilabel=multilabel)
    return _unseen(rows, probs, counts, multilabel=multilabel)


def _of_items(part: Fitted, trial: TrialData, gone: np.ndarray) -> Unseen | None:
    if not gone.any() or not part.predictors:
        return None
    items = np.flatnonzero(gone)
    probs: ItemProbs = np.mean(part.predictions(part.dataset.items.take(trial.code[items])), axis=0)
    rows = trial.training.annotations.of_items(items)
    return _unseen(rows, probs, np.ones(len(items)), multilabel=trial.training.scale == "multilabel")


def _unseen(rows: Annotations, probs: ItemProbs, n_answers: np.ndarray, *, multilabel: bool) -> Unseen:
    questions = questions_of(rows, probs, multilabel=multilabel)
    some = evenly_spaced(
        len(questions.question), _most_rows(questions.n_answers)
    )  # before each gets a row of probabilities
    question = questions.question[some]
    return Unseen(
        probs=questions.posterior[question],
        n_answers=n_answers[question // questions.kinds],
        answer=questions.answer[some],
        certainty=questions.certainty[some],
        weight=questions.weight[some],
        total=len(questions.question),
    )


def _most_rows(n_answers: int) -> int:
    return min(_MOST_ROWS, max(_MOST_NUMBERS // n_answers, 1_000))
