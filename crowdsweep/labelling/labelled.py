"""The labels of all items: gold where there is some, elsewhere the model's calibrated probabilities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import CrowdDataset, Gold
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.labelling.calibration import Calibrations, answers_per_item, calibrate
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.leave_one_out import CHUNK_ENTRIES
from crowdsweep.models._em import chunks

Rows = slice | Int64[np.ndarray, " rows"]
_BY = ("annotations", "classifier", "gold")


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """The labels of every item that has gold or that a fitted model can label.

    Only the model's raw table of items × classes is held; tables that derive from it are computed some rows at a time.

    Attributes:
        code: numbers of the items in the dataset, ascending.
        raw: the model's probabilities (multi-label: independent ones), not calibrated; NaN where it gives none.
        n_answers: number of answers of each item.
        unseen: whether an item has no answers, so that only a classifier labels it.
        by: what labelled each item. `gold`; `classifier` for items without annotations and, of models that first infer
            labels and then train on them, for all items; else `annotations`.
        fits_agree: share of the fits that give the same label; NaN where no fit gives one.
        gold: gold of these items, by their places here.
    """

    fitted: Fitted
    code: Int64[np.ndarray, " items"]
    raw: ItemProbs
    n_answers: Float64[np.ndarray, " items"]
    unseen: Bool[np.ndarray, " items"]
    by: Sequence[str]
    fits_agree: Float64[np.ndarray, " items"]
    gold: Gold
    calibrations: Calibrations

    @property
    def dataset(self) -> CrowdDataset:
        """The dataset of the items."""
        return self.fitted.dataset

    @property
    def multilabel(self) -> bool:
        """Whether an item may have several classes."""
        return self.dataset.scale == "multilabel"

    @property
    def probs(self) -> ItemProbs:
        """Probabilities of all items, in one table."""
        return self.at(slice(None))

    def pieces(self) -> Iterator[slice]:
        """Yields slices of rows that cover all items; the table of each slice fits into a core's cache."""
        return chunks(len(self.raw), self.raw.shape[1], CHUNK_ENTRIES)

    def at(self, rows: Rows) -> ItemProbs:
        """Returns the probabilities of the items at these places: the model's, calibrated, and 1 or 0 where gold is
        known."""
        probs = self.model_at(rows)
        gold = self._gold_at(rows)
        if len(gold):
            probs[gold.known_classes(*probs.shape)] = 0.0
            probs[gold.positive().item, gold.positive().label] = 1.0
        return probs

    def model_at(self, rows: Rows) -> ItemProbs:
        """Returns the model's calibrated probabilities of the items at these places; NaN where it gives none."""
        raw, unseen = self.raw[rows], self.unseen[rows]
        probs = self.calibrations.answered.of(raw, self.n_answers[rows], multilabel=self.multilabel)
        if unseen.any():
            ones = np.ones(int(unseen.sum()))
            probs[unseen] = self.calibrations.unseen.of(raw[unseen], ones, multilabel=self.multilabel)
        return probs

    def of_items(self, code: np.ndarray) -> ItemProbs:
        """Returns the probabilities of these items, all of which must be labelled."""
        return self.at(np.searchsorted(self.code, code))

    def gold_note(self) -> str:
        """Returns a message on how often the model contradicts gold, where both give labels; empty where it never
        does."""
        rows = np.flatnonzero(_all_known(self.gold, *self.raw.shape))
        model, gold = self.model_at(rows), self.at(rows)
        said = ~np.isnan(model).any(axis=1)
        alike = (
            ((model > 0.5) == (gold > 0.5)).all(axis=1)
            if self.multilabel
            else model.argmax(axis=1) == gold.argmax(axis=1)
        )
        if alike[said].all():
            return ""
        return (
            f"the model alone says otherwise of {(~alike[said]).sum():,} of {said.sum():,} items with gold, which wins"
        )

    def _gold_at(self, rows: Rows) -> Gold:
        """Returns the gold of the items at these places, which are renumbered from 0."""
        if not isinstance(rows, slice):
            return self.gold.of_items(rows, len(self.code))
        start, stop, _ = rows.indices(len(self.code))
        own = slice(*np.searchsorted(self.gold.item, (start, stop)))
        applies = None if self.gold.applies is None else self.gold.applies[own]
        return Gold(item=self.gold.item[own] - np.int32(start), label=self.gold.label[own], applies=applies)


def labelled_items(fitted: Fitted) -> Labelled:
    """Labels the items with annotations or gold and, where the model has a classifier, all others too."""
    dataset, calibrations = fitted.dataset, calibrate(fitted)
    raw = fitted.item_probs
    code, agree = fitted.code.astype(np.int64), fitted.share_alike([fit.item_probs for fit in fitted.fits], raw)
    by = np.full(len(raw), _BY.index("classifier" if _classifier_decides(fitted, raw) else "annotations"))
    rest = np.setdiff1d(np.arange(dataset.items.n_items), fitted.code)
    unseen = np.zeros(len(raw), dtype=bool)
    if not fitted.predictors:
        rest = rest[_all_known(dataset.gold.of_items(rest, dataset.items.n_items), len(rest), dataset.n_classes)]
    if len(rest):
        each = fitted.predictions(dataset.items.take(rest)) if fitted.predictors else []
        more: ItemProbs = np.mean(each, axis=0) if each else np.full((len(rest), dataset.n_classes), np.nan)
        agree_too = fitted.share_alike(each, more) if each else more[:, 0]
        code, raw, agree = (np.concatenate(pair) for pair in ((code, rest), (raw, more), (agree, agree_too)))
        by = np.append(by, np.full(len(rest), _BY.index("classifier")))
        unseen = np.append(unseen, np.full(len(rest), bool(fitted.predictors)))
        order = np.argsort(code, kind="stable")
        code, raw, agree, by, unseen = (column[order] for column in (code, raw, agree, by, unseen))
    gold = dataset.gold.of_items(code, dataset.items.n_items)
    by[_all_known(gold, len(code), dataset.n_classes)] = _BY.index("gold")
    return Labelled(
        fitted=fitted,
        code=code,
        raw=raw,
        n_answers=answers_per_item(dataset.annotations, multilabel=dataset.scale == "multilabel")[code],
        unseen=unseen,
        by=Names.of(_BY).take(by),
        fits_agree=agree,
        gold=gold,
        calibrations=calibrations,
    )


def _all_known(gold: Gold, n_items: int, n_classes: int) -> Bool[np.ndarray, " items"]:
    """Returns for each item whether gold knows every class."""
    return np.bincount(gold.item, minlength=n_items) >= (1 if gold.applies is None else n_classes)


def _classifier_decides(fitted: Fitted, probs: ItemProbs) -> bool:
    """Returns whether the model gives all items with annotations the probabilities that it would give without
    annotations."""
    if not fitted.predictors:
        return False
    return np.allclose(np.mean(fitted.predictions(fitted.training.items), axis=0), probs, atol=1e-4)
