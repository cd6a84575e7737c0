"""What a trial is scored by of single answers: whose, to which items, and by what the model says of whom."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from written_models import COUNTING, PREDICTING, dataset, silent, specs_of

from crowdsweep.data.dataset import CrowdDataset, Gold, Items
from crowdsweep.data.splits import prepare
from crowdsweep.errors import SweepFileError
from crowdsweep.models import registered
from crowdsweep.models._em import label_probs_of
from crowdsweep.models.contract import FitResult
from crowdsweep.sweep.pilot import Outputs
from crowdsweep.sweep.requirements import check_metric, dataset_facts, why_not_by_metric
from crowdsweep.sweepfile.records import Metric
from crowdsweep.testing.model_fits import fit
from crowdsweep.testing.small_data import small_data
from crowdsweep.trial.runner import run_batch

# In `written_models.dataset` annotator 0 says of item i its rest i % 2, annotator 1 always 0; dev items are 6, 7 and 8,
# test items 9, 10 and 11. What PREDICTING says of an unseen item is class 0.
BY_MATRIX = PREDICTING.replace(
    "np.tile(np.eye(data.n_classes), (data.n_annotators, 1, 1))", "np.array([np.eye(2)[::-1], np.eye(2), np.eye(2)])"
)
OF_ITS_OWN = """
def own(items, item, annotator):
    probs = np.zeros((len(item), 2))
    rest = items.features[item, 0].astype(int) % 2
    probs[np.arange(len(item)), np.where(annotator == 0, rest, 0)] = 1.0
    return probs
""" + PREDICTING.replace("predictor=Uniform(),", "predictor=Uniform(), unseen_label_probs=own,")


def metrics_of(name: str, base: CrowdDataset, **given: Any) -> dict[str, float]:
    (result,) = run_batch(specs_of(name, base, range(1), **given), base, "cpu", silent)
    assert result.failure is None, result.failure
    return {name: value for name, value in result.metrics.items() if "error_rate" in name or "distance" in name}


def numbered() -> CrowdDataset:
    """Items whose feature is their number, and gold of one dev item alone: single answers need none."""
    base = dataset()
    features = np.repeat(np.arange(12, dtype=np.float32)[:, None], 2, axis=1)
    gold = Gold(item=base.gold.item[:7], label=base.gold.label[:7])
    return replace(base, items=Items(n_items=12, features=features), gold=gold)


def test_the_crowds_classifier_seen_through_an_annotators_matrix(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-eye", PREDICTING)
    base = numbered()
    # Right but for annotator 0 on odd items: of dev items 7, of test items 9 and 11.
    expected = {"dev_error_rate": 1 / 6, "test_error_rate": 1 / 3}
    found = metrics_of("probe-eye", base)
    assert found == pytest.approx({**expected, **{f"{name}_annotators": value for name, value in expected.items()}})
    add_model("probe-matrix", BY_MATRIX)
    found = metrics_of("probe-matrix", base)  # annotator 0 is predicted to say 1
    assert (found["dev_error_rate"], found["test_error_rate"]) == pytest.approx((1 / 3, 1 / 6))


def test_what_a_model_says_itself_goes_before_and_held_out_answers_are_scored_too(
    add_model: Callable[..., list[Any]],
) -> None:
    add_model("probe-own", OF_ITS_OWN)
    found = metrics_of("probe-own", numbered(), heldout_fraction=0.2)
    names = [f"{place}_error_rate{by}" for place in ("dev", "test") for by in ("", "_annotators")]
    held = {"heldout_error_rate": 0.5, "heldout_error_rate_annotators": 0.5}  # its label_probs are one half each
    assert found == pytest.approx({**dict.fromkeys(names, 0.0), **held})


def test_a_scale_has_distances(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-scale", PREDICTING)
    found = metrics_of("probe-scale", replace(numbered(), scale="ordinal"))
    assert found["dev_absolute_distance"] == pytest.approx(1 / 6 / 2)
    assert found["test_absolute_distance_annotators"] == pytest.approx(1 / 3 / 2)


def test_nothing_is_scored_where_a_model_or_the_data_do_not_say(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-silent", COUNTING)
    add_model("probe-nameless", PREDICTING)
    assert metrics_of("probe-silent", numbered(), heldout_fraction=0.2) == {}
    assert metrics_of("probe-nameless", dataset(anonymous=True), heldout_fraction=0.2) == {}
    whole = specs_of("probe-nameless", numbered(), range(1), dataset_params={"scenario": "global"})
    (result,) = run_batch(whole, numbered(), "cpu", silent)
    assert not [name for name in result.metrics if "error_rate" in name]


@pytest.mark.parametrize(
    ("metric", "base", "message"),
    [
        ("dev_error_rate", dataset(anonymous=True), "here they are anonymous; take one of distributions"),
        ("dev_absolute_distance", dataset(), "is defined for ordinal labels, these are nominal; take dev_error_rate"),
        (
            "dev_error_rate",
            replace(dataset(), split=np.ones(12, np.int8)),
            "answers to dev items, and there are none; take heldout_error_rate",
        ),
        ("dev_error_rate", dataset(), ""),
        ("heldout_error_rate", replace(dataset(), split=np.ones(12, np.int8)), ""),
    ],
)
def test_what_cannot_be_scored_is_told_before(metric: str, base: CrowdDataset, message: str) -> None:
    offer = dataset_facts(prepare(base, {}, 0))
    if not message:
        check_metric(Metric(name=metric, goal="minimize"), offer, "s.yaml")
        return
    with pytest.raises(SweepFileError, match=f"s.yaml: metric {metric!r}.*{message}"):
        check_metric(Metric(name=metric, goal="minimize"), offer, "s.yaml")


def test_a_model_that_does_not_say_is_not_searched_by_it() -> None:
    def outputs() -> Outputs:
        return Outputs(label_probs=False, uses=("classifier",), annotators=False)

    info = replace(registered.model_info("soft-mv"), predicts_labels=None)
    by = Metric(name="dev_error_rate", goal="minimize")
    assert "does not say what an annotator would answer" in why_not_by_metric(info, by, outputs)
    assert why_not_by_metric(registered.model_info("soft-mv"), by, outputs) == ""


def said(fitted: FitResult, items: Items, item: np.ndarray, annotator: np.ndarray) -> np.ndarray:
    assert fitted.unseen_label_probs is not None
    return fitted.unseen_label_probs(items, item.astype(np.int32), annotator.astype(np.int32))


@pytest.mark.parametrize("model", ["conal", "crowd-layer", "ldl-nm", "lia", "mtl", "pc", "pgm-bp-guided", "soft-mv"])
def test_what_a_model_says_of_unseen_items(model: str) -> None:
    data = small_data().training
    fitted, items = fit(registered.model_info(model), small_data()), data.items
    item, annotator = (part.ravel() for part in np.meshgrid(np.arange(8), np.arange(6), indexing="ij"))
    found = said(fitted, items, item, annotator)
    # It depends on which items are meant and not on where they stand.
    picked = np.array([7, 3, 5])
    rows = (np.array([0, 2, 1, 0]), np.array([4, 0, 5, 1]))
    np.testing.assert_allclose(said(fitted, items.take(picked), *rows), said(fitted, items, picked[rows[0]], rows[1]))
    assert fitted.predictor is not None
    assert fitted.label_probs is not None
    if model in ("ldl-nm", "pc"):  # who say of items that they were trained on what their features say
        np.testing.assert_allclose(found, fitted.label_probs(item.astype(np.int32), annotator.astype(np.int32)))
    elif model == "crowd-layer":
        classes = fitted.predictor.predict(items, "classifier")
        assert fitted.annotators is not None
        through = label_probs_of(classes, fitted.annotators)(item.astype(np.int32), annotator.astype(np.int32))
        np.testing.assert_allclose(found, through, atol=1e-6)
    elif model == "mtl":
        np.testing.assert_allclose(found, fitted.predictor.predict(items, "soft")[item])
    elif model == "soft-mv":  # whose annotators all have the pooled confusion matrix
        through = fitted.label_probs(item.astype(np.int32), annotator.astype(np.int32))
        np.testing.assert_allclose(found, through, atol=1e-6)  # trained or not, the classifier says it
    elif model == "pgm-bp-guided":  # the mean annotator is the crowd
        crowd = fitted.predictor.predict(items, "soft")[:8]
        np.testing.assert_allclose(found.reshape(8, 6, 3).mean(axis=1), crowd, atol=1e-6)
