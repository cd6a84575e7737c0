"""The labels of all items: gold where there is some, else the model's, calibrated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.labelling.calibration import Calibrations, answers_per_item, calibrate
from crowdsweep.labelling.fitted import Fitted


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """What is said of every item that has gold, or that a fitted model can label.

    Attributes:
        code: int64 [items], numbers of the items in the dataset, ascending.
        probs: float64 [items, classes] (multi-label: independent probabilities): 1 and 0 where gold knows.
        model: what the model says, calibrated; NaN where it says nothing.
        raw: the same, not calibrated.
        by: of each item: `gold`; `classifier` where that has the last word, as it has of items without annotations and,
            of models that take labels first and train on them then, of all; else `annotations`.
        fits_agree: float64 [items], the share of the fits that say the same; NaN where none says anything.
        known: bool [items, classes], the classes that gold speaks of.
        calibrations: by which the probabilities were calibrated.
    """

    code: Int64[np.ndarray, " items"]
    probs: ItemProbs
    model: ItemProbs
    raw: ItemProbs
    by: Sequence[str]
    fits_agree: Float64[np.ndarray, " items"]
    known: Bool[np.ndarray, "items classes"]
    calibrations: Calibrations

    def of_items(self, code: np.ndarray) -> ItemProbs:
        """Returns what is said of these items, all of which are among those labelled."""
        return self.probs[np.searchsorted(self.code, code)]


def labelled_items(fitted: Fitted) -> Labelled:
    """Labels the items with annotations or gold, and where the model has a classifier all others too."""
    dataset, calibrations = fitted.dataset, calibrate(fitted)
    multilabel = dataset.scale == "multilabel"
    raw = fitted.item_probs
    code, agree = fitted.code.astype(np.int64), fitted.agreement_of_fits(raw)
    by = ["classifier" if _classifier_decides(fitted, raw) else "annotations"] * len(raw)
    answers = answers_per_item(dataset.annotations, multilabel=multilabel)
    said = calibrations.answered.of(raw, answers[code], multilabel=multilabel)
    rest = np.setdiff1d(np.arange(dataset.items.n_items), fitted.code)
    if len(rest) and fitted.predictors:
        each = fitted.predictions(dataset.items.take(rest))
        more: ItemProbs = np.mean(each, axis=0)
        raw = np.concatenate([raw, more])
        said = np.concatenate([said, calibrations.unseen.of(more, np.ones(len(more)), multilabel=multilabel)])
        agree, by = np.concatenate([agree, fitted.share_alike(each, more)]), by + ["classifier"] * len(rest)
    elif len(rest):
        rest = rest[_all_known(dataset, rest)]
        nothing = np.full((len(rest), dataset.n_classes), np.nan)
        raw, said = np.concatenate([raw, nothing]), np.concatenate([said, nothing])
        agree, by = np.concatenate([agree, nothing[:, 0]]), by + ["gold"] * len(rest)
    code = np.concatenate([code, rest])
    if (np.diff(code) < 0).any():  # else tables, which are large, stay as they are
        order = np.argsort(code, kind="stable")
        code, said, raw, agree = code[order], said[order], raw[order], agree[order]
        by = [by[i] for i in order.tolist()]
    gold = dataset.gold.of_items(code, dataset.items.n_items)
    known = gold.known_classes(len(code), dataset.n_classes)
    probs = np.where(known, 0.0, said) if len(gold) else said
    if len(gold):
        probs[gold.positive().item, gold.positive().label] = 1.0
    everything = cast("np.ndarray", known.all(axis=1))
    return Labelled(
        code=code,
        probs=probs,
        model=said,
        raw=raw,
        by=["gold" if gold_alone else own for gold_alone, own in zip(everything.tolist(), by, strict=True)],
        fits_agree=agree,
        known=known,
        calibrations=calibrations,
    )


def gold_note(labelled: Labelled, *, multilabel: bool) -> str:
    """Returns in words how often the model contradicts gold, where both say something; empty where it never does."""
    both = labelled.known.all(axis=1) & ~np.isnan(labelled.model).any(axis=1)
    model, gold = labelled.model[both], labelled.probs[both]
    alike = ((model > 0.5) == (gold > 0.5)).all(axis=1) if multilabel else model.argmax(axis=1) == gold.argmax(axis=1)
    if alike.all():
        return ""
    return f"the model alone says otherwise of {(~alike).sum():,} of {both.sum():,} items with gold, which wins"


def _all_known(dataset: CrowdDataset, items: np.ndarray) -> Bool[np.ndarray, " items"]:
    gold = dataset.gold.of_items(items, dataset.items.n_items)
    known = gold.known_classes(len(items), dataset.n_classes)
    return cast("np.ndarray", known.all(axis=1))


def _classifier_decides(fitted: Fitted, probs: ItemProbs) -> bool:
    """Returns whether the model says of all items with annotations what it would say of them without."""
    if not fitted.predictors:
        return False
    return np.allclose(np.mean(fitted.predictions(fitted.training.items), axis=0), probs, atol=1e-4)
