"""What must hold for every registered model, on top of its contract: weights, the order of items, many classes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.models import registered
from crowdsweep.models.contract import FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.testing.model_fits import SHORT, context_for, must_be_valid
from crowdsweep.testing.small_data import SmallData, from_rows, renumbered_items, small_data

MODELS = registered.model_names()
# All rows at once, and none of a network's units dropped: no draw goes by the place of an item.
WHOLE = {**SHORT, "dropout": 0.0, "batch_size": 256, "iterations": 4, "em_iterations": 2}
# Adam steps equally far however short a gradient is, and so makes much of its last bits.
CLOSE = 1e-4

REPEATS_ARE_NO_WEIGHTS = dict.fromkeys(("pgm-bp", "pgm-bp-guided"), "repeats pass messages to each other")
DRAWS_BY_ITEM = {
    "crowdlab": "folds of items",
    **dict.fromkeys(("fmm", "pgm-annealing"), "clusters begin at drawn items or memberships"),
    **{f"{name}-guided": "of its clusters" for name in ("fmm", "pgm-annealing")},
    **dict.fromkeys(("lia", "lia-ml", "ldl-nm", "conal"), "vectors of annotators, dealt out by their answers"),
    **dict.fromkeys(("lia-e", "maj-star-e", "mmce-star-e"), "vectors of items"),
}


def fit(name: str, data: SmallData) -> FitResult:
    """Fits the model shortly, on all rows at once."""
    info, known = registered.model_info(name), registered.parameters(name)
    params: dict[str, Any] = {key: value for key, value in WHOLE.items() if key in known}
    return fit_one(registered.build_model(name, params), data.training, context_for(info, data))


def answered(data: SmallData, change: Callable[[Annotations], Annotations]) -> SmallData:
    """Returns the data with other annotations, of the training and of the dev items."""
    validation = data.training.validation
    if validation is not None:
        validation = replace(validation, annotations=change(validation.annotations))
    annotations = change(data.training.annotations)
    return replace(data, training=replace(data.training, annotations=annotations, validation=validation))


def repeated(rows: Annotations, times: int, weight: float | None) -> Annotations:
    """Returns every row so many times, each of this weight."""
    item, annotator, label = (np.tile(codes, times) for codes in (rows.item, rows.annotator, rows.label))
    return Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
        weight=None if weight is None else np.full(len(item), weight),
    )


def waiving(reasons: Mapping[str, str]) -> list[Any]:
    """Returns all models, those with a reason as strict expected failures."""
    marks = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in reasons.items()}
    return [pytest.param(name, marks=marks.get(name, [])) for name in MODELS]


def everything_said(fitted: FitResult, data: SmallData) -> dict[str, np.ndarray]:
    """Returns what a fit says of its items, its annotators, every label, and items that are read anew."""
    training = data.training
    said = {"items": fitted.item_probs}
    if fitted.annotators is not None:
        said["annotators"] = fitted.annotators.confusion(np.arange(training.n_annotators))
    if fitted.label_probs is not None:
        item, annotator = np.indices((training.n_items, training.n_annotators), dtype=np.int32).reshape(2, -1)
        said["labels"] = fitted.label_probs(item, annotator)
    if fitted.predictor is not None:
        said["predictions"] = fitted.predictor.predict(training.items, fitted.predictor.uses[0])
    return said


@pytest.mark.parametrize("name", waiving(REPEATS_ARE_NO_WEIGHTS))
def test_a_label_of_weight_two_is_two_labels(name: str) -> None:
    data = small_data()
    twice, heavy = (
        answered(data, lambda rows, times=times, weight=weight: repeated(rows, times, weight))
        for times, weight in ((2, None), (1, 2.0))
    )
    found, expected = (everything_said(fit(name, one), one) for one in (heavy, twice))
    for what, numbers in expected.items():
        np.testing.assert_allclose(found[what], numbers, atol=CLOSE, err_msg=what)


@pytest.mark.parametrize("name", MODELS)
def test_a_weight_of_one_is_none(name: str) -> None:
    data = small_data()
    one = answered(data, lambda rows: repeated(rows, 1, 1.0))
    found, expected = (everything_said(fit(name, given), given) for given in (one, data))
    for what, numbers in expected.items():
        np.testing.assert_allclose(found[what], numbers, atol=CLOSE, err_msg=what)


@pytest.mark.parametrize("name", waiving(DRAWS_BY_ITEM))
def test_where_no_draw_goes_by_item_their_order_changes_nothing(name: str) -> None:
    data = small_data()
    codes = np.random.default_rng(0).permutation(data.training.n_items)
    moved = renumbered_items(data, codes)
    before, after = (everything_said(fit(name, one), one) for one in (data, moved))
    np.testing.assert_allclose(after["items"][codes], before["items"], atol=CLOSE)
    if "annotators" in before:
        np.testing.assert_allclose(after["annotators"], before["annotators"], atol=CLOSE)
    if "labels" in before:
        shape = (data.training.n_items, data.training.n_annotators, -1)
        after_labels = after["labels"].reshape(shape)[codes]
        np.testing.assert_allclose(after_labels, before["labels"].reshape(shape), atol=CLOSE)
    if "predictions" in before:
        np.testing.assert_allclose(after["predictions"][codes], before["predictions"], atol=CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_fifty_classes_and_every_label_has_a_distribution(name: str) -> None:
    rows = [(item, annotator, (7 * item + (annotator == 3)) % 50) for item in range(60) for annotator in range(4)]
    data = from_rows(rows, n_items=60, n_annotators=5, n_classes=50)
    fitted = fit(name, data)
    must_be_valid(fitted, data.training)
    said = everything_said(fitted, data)
    if "labels" in said:
        np.testing.assert_allclose(said["labels"].sum(axis=1), 1.0, atol=1e-6)
        assert (said["labels"] >= 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_twelve_orders_of_magnitude(name: str) -> None:
    data = small_data()
    powers = np.random.default_rng(0).uniform(-6, 6, len(data.training.annotations))

    def weighed(rows: Annotations) -> Annotations:
        return replace(rows, weight=(10.0 ** powers[: len(rows)]).astype(np.float32))

    wild = answered(data, weighed)
    must_be_valid(fit(name, wild), wild.training)
