"""The model contract's checks of multi-label answers and of sequences; see `model_checks`.

That a unit is never torn by splits, hold-out and thinning is no promise of a model's: tests/properties hold the data
to it.
"""

from dataclasses import replace

import numpy as np

from crowdsweep.data import thinning
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.metrics.heldout import heldout_choices_loglik
from crowdsweep.models.contract import ModelInfo
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.model_fits import fit, must, must_be_valid
from crowdsweep.testing.promises import check
from crowdsweep.testing.small_data import SmallData, multilabel_data, renumbered_items, small_data

UNIT_SIZES = (1, 5, 2, 4, 3, 6, 1, 2)


def sequence_data() -> SmallData:
    """Returns the small data as sentences of tokens, of which two were tagged by nobody."""
    data = small_data()
    training = data.training
    silent = np.isin(training.annotations.item, (2, 14))
    unit = np.repeat(np.arange(len(UNIT_SIZES), dtype=np.int32), UNIT_SIZES)
    training = replace(
        training,
        annotations=training.annotations.take(~silent),
        items=replace(training.items, unit=unit),
        validation=None
        if training.validation is None
        else replace(training.validation, items=_in_units(training.validation.items)),
        unlabelled=None if training.unlabelled is None else _in_units(training.unlabelled),
    )
    return SmallData(training=training, gold=data.gold)


def _in_units(items: Items) -> Items:
    return replace(items, unit=(np.arange(items.n_items) // 3).astype(np.int32))


def units_reordered(data: SmallData, order: np.ndarray) -> tuple[SmallData, np.ndarray]:
    """Returns the same sentences in another order, and the new code of each item.

    Args:
        data: whose items stand in units 0, 1, …
        order: the units, as they are to follow each other.
    """
    unit = data.training.items.unit
    assert unit is not None, "expected items that stand in units"
    items = np.concatenate([np.flatnonzero(unit == code) for code in order])
    codes = np.argsort(items)
    plain = replace(data, training=replace(data.training, items=replace(data.training.items, unit=None)))
    moved = renumbered_items(plain, codes)
    sizes = np.bincount(unit)[order]
    renumbered = np.repeat(np.arange(len(order), dtype=np.int32), sizes)
    training = replace(moved.training, items=replace(moved.training.items, unit=renumbered))
    return replace(moved, training=training), codes


@check()
def sequences_are_taken(info: ModelInfo) -> None:
    """Tokens in sentences are data like any others, those that nobody tagged among them."""
    data = sequence_data()
    must_be_valid(fit(info, data), data.training)


@check(lambda info: info.deterministic)
def the_order_of_units_changes_nothing(info: ModelInfo) -> None:
    """Sentences may come in any order: the results come in that order too (where no draw goes by item)."""
    data = sequence_data()
    moved, codes = units_reordered(data, np.roll(np.arange(len(UNIT_SIZES)), 3))
    np.testing.assert_allclose(fit(info, moved).item_probs[codes], fit(info, data).item_probs, atol=1e-9)


@check(lambda info: "multilabel" in info.supports)
def choosing_everything_does_not_win(info: ModelInfo) -> None:
    """Held-out answers are predicted by legal probabilities, and better than by choosing every class of every item."""
    data = multilabel_data()
    known = data.training.annotations
    unknown = known.anonymised(whole_answers=True)
    for rows in (known, unknown) if "votes" in info.supports and "annotators" not in info.needs else (known,):
        kept = thinning.keep_for_fit(rows, 0.25, SeedStream(0).numpy("kept"), thinning.pairs_of(rows))
        training = replace(data.training, annotations=rows.take(kept))
        fitted = fit(info, replace(data, training=training))
        must_be_valid(fitted, training)
        if fitted.label_probs is not None:
            heldout = rows.take(~kept)
            found = heldout_choices_loglik(fitted.label_probs, heldout)
            everything = heldout_choices_loglik(lambda item, _: np.ones((len(item), known.n_classes)), heldout)
            must(found > everything, f"held-out log-likelihood {found}, and {everything} for choosing everything")


@check(lambda info: "multilabel" in info.supports)
def one_class_is_a_binary_question(info: ModelInfo) -> None:
    """Answers that choose a single class or not are binary: the same items, annotators and predicted answers."""
    data = small_data(4, n_classes=2)
    nominal = replace(data.training, validation=None)
    binary = fit(info, replace(data, training=nominal))
    chosen = fit(info, replace(data, training=_with_one_class(nominal)))
    np.testing.assert_allclose(chosen.item_probs[:, 0], binary.item_probs[:, 1], atol=1e-9)
    must((chosen.annotators is None) == (binary.annotators is None), "annotators are there for one scale only")
    if chosen.annotators is not None and binary.annotators is not None:
        everybody = np.arange(nominal.n_annotators)
        np.testing.assert_allclose(
            chosen.annotators.confusion(everybody)[:, 0], binary.annotators.confusion(everybody), atol=1e-9
        )
    must((chosen.label_probs is None) == (binary.label_probs is None), "answers are predicted for one scale only")
    if chosen.label_probs is not None and binary.label_probs is not None:
        pairs = nominal.annotations.item, nominal.annotations.annotator
        np.testing.assert_allclose(chosen.label_probs(*pairs)[:, 0], binary.label_probs(*pairs)[:, 1], atol=1e-9)


def _with_one_class(binary: TrainingData) -> TrainingData:
    """Returns binary data as multi-label ones, label 1 being the only class chosen and label 0 no class."""
    rows = binary.annotations
    sizes = {"n_items": rows.n_items, "n_annotators": rows.n_annotators}
    chosen = annotations_of(rows.label[:, None] == 1, item=rows.item, annotator=rows.annotator, **sizes)
    return replace(binary, annotations=chosen, scale="multilabel")
