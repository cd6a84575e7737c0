"""What the runner scores of a fit, by hand: metrics that apply, and those that do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from written_models import COUNTING, PREDICTING, dataset, silent, specs_of

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of, choices_of
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.metrics.annotators import js_matrices
from crowdsweep.trial.runner import run_batch


def test_metrics_by_hand(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-predicting", PREDICTING)
    base = dataset()
    (result,) = run_batch(specs_of("probe-predicting", base, range(1), heldout_fraction=0.2), base, "cpu", silent)
    assert result.failure is None
    metrics = result.metrics
    # Dev items are 6, 7, 8 with gold 0, 1, 0; test items 9, 10, 11 with gold 1, 0, 1.
    assert metrics["dev_accuracy"] == pytest.approx(2 / 3)
    assert metrics["test_accuracy"] == pytest.approx(1 / 3)
    assert metrics["dev_accuracy.snap"] == pytest.approx(1 / 3)
    assert metrics["test_accuracy.snap"] == pytest.approx(2 / 3)
    assert metrics["heldout_loglik"] == pytest.approx(np.log(0.5))
    assert metrics["n_active_annotators"] == 2
    assert calls == [None]
    (whole,) = run_batch(specs_of("probe-predicting", base, range(1)), base, "cpu", silent)
    # Annotator 0 is always right; annotator 1 always says 0. Items of class 1 are tied, one half of three of six.
    assert whole.metrics["train_accuracy"] == pytest.approx(0.75)
    always_zero = 0.5 * (0.0 + 1.0)  # the row of class 0 agrees with the identity, that of class 1 is its opposite
    assert whole.metrics["js_annotators"] == pytest.approx(0.5 * always_zero, abs=1e-4)
    assert "heldout_loglik" not in whole.metrics
    assert whole.confusion == [[1.0, 0.0], [0.0, 1.0]]


def test_metrics_that_do_not_apply_are_absent(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-plain", COUNTING)
    base = dataset(gold=False)
    (result,) = run_batch(specs_of("probe-plain", base, range(1)), base, "cpu", silent)
    assert set(result.metrics) == {
        "n_annotations",
        "n_active_annotators",
        *(f"train_{name}" for name in runner_metrics()),
    }
    assert result.metrics["train_kl"] == pytest.approx(0.0, abs=1e-9)  # the reference is the votes themselves
    assert result.confusion is None


def test_anonymous_annotators_have_no_matrices_of_their_own(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-anonymous", PREDICTING)
    base = dataset(anonymous=True)
    (result,) = run_batch(specs_of("probe-anonymous", base, range(1)), base, "cpu", silent)
    assert "js_annotators" not in result.metrics
    assert "js_global" in result.metrics


def runner_metrics() -> list[str]:
    """What is computed without gold: the others would repeat the vote."""
    return ["kl", "kl_reverse", "js", "manhattan", "entropy"]


def test_where_some_items_have_gold_only_those_are_scored(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-partly", COUNTING)
    base = dataset()
    two = Gold(item=base.gold.item[:2], label=base.gold.label[:2])  # item 0 is right, item 1 is tied
    base = replace(base, gold=two)
    (result,) = run_batch(specs_of("probe-partly", base, range(1)), base, "cpu", silent)
    assert result.metrics["train_accuracy"] == pytest.approx(0.75)
    assert result.metrics["train_log_loss"] == pytest.approx(0.5 * np.log(2))


def test_multilabel_data_score_every_choice(add_model: Callable[..., list[Any]]) -> None:
    """Two items, three classes; each annotator chose one class or two."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        return FitResult(item_probs=np.array([[0.9, 0.5, 0.2], [0.4, 0.8, 0.1]]))
"""
    add_model("probe-multilabel", body, "supports=frozenset({'multilabel'})")
    rows = np.array([(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 2), (1, 1, 1)])
    base = CrowdDataset(
        name="choices",
        scale="multilabel",
        annotations=Annotations.of(
            item=rows[:, 0], annotator=rows[:, 1], label=rows[:, 2], n_items=2, n_annotators=2, n_classes=3
        ),
        items=Items(n_items=2),
        split=np.zeros(2, np.int8),
        gold=Gold(item=np.array([0, 0, 1], np.int32), label=np.array([0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 2),
        annotator_names=NumberedNames("a", 2),
        class_names=("a", "b", "c"),
    )
    (result,) = run_batch(specs_of("probe-multilabel", base, range(1)), base, "cpu", silent)
    assert result.failure is None
    # Gold chooses (1, 1, 0) and (0, 1, 0): five of six choices are right, and one is a coin's toss.
    assert result.metrics["train_accuracy"] == pytest.approx(5.5 / 6)
    # Class a: perfect. Class b: 1.5 of 2 found, none wrong. Class c: never chosen, left out.
    assert result.metrics["train_macro_f1"] == pytest.approx((1.0 + 2 * 1.5 / 3.5) / 2)
    chosen = [0.9, 0.5, 0.8, 0.6, 0.8, 0.9]  # the probability given to what gold says of each choice
    assert result.metrics["train_log_loss"] == pytest.approx(-np.mean(np.log(chosen)))
    unsure = -sum(p * np.log(p) + (1 - p) * np.log(1 - p) for p in (0.9, 0.5, 0.2, 0.4, 0.8, 0.1)) / 6
    assert result.metrics["train_entropy"] == pytest.approx(unsure)
    assert "train_span_f1" not in result.metrics
    add_model("probe-nominal", COUNTING)
    (refused,) = run_batch(specs_of("probe-nominal", base, range(1)), base, "cpu", silent)
    assert refused.failure is not None
    assert refused.failure.message == "model 'probe-nominal' cannot take multi-label data, which dataset 'choices' has"


def test_multilabel_annotators_and_held_out_answers_are_scored_class_by_class(
    add_model: Callable[..., list[Any]],
) -> None:
    """Gold chooses class 0 of items 0 and 1, class 1 of items 2 and 3. Annotator 0 chooses as gold does, annotator 1
    always chooses both classes, annotator 2 none; the model thinks that everybody tosses a coin."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        coin = np.full((data.n_annotators, data.n_classes, 2, 2), 0.5)
        CALLS.append(data.annotations)
        return FitResult(
            item_probs=np.full((data.n_items, 2), 0.5),
            annotators=ConfusionMatrices(matrices=coin),
            label_probs=lambda item, annotator: np.tile([0.8, 0.3], (len(item), 1)),
        )
"""
    calls = add_model("probe-choosers", body, "supports=frozenset({'multilabel'})")
    gold = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    chosen = np.concatenate([gold, np.ones_like(gold), np.zeros_like(gold)])
    base = CrowdDataset(
        name="choosers",
        scale="multilabel",
        annotations=annotations_of(
            chosen, item=np.tile(np.arange(4), 3), annotator=np.repeat(np.arange(3), 4), n_items=4, n_annotators=3
        ),
        items=Items(n_items=4),
        split=np.zeros(4, np.int8),
        gold=Gold(item=np.arange(4, dtype=np.int32), label=np.array([0, 0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 4),
        annotator_names=NumberedNames("a", 3),
        class_names=("a", "b"),
    )
    specs = specs_of("probe-choosers", base, range(1), heldout_fraction=0.25)
    (result,) = run_batch(specs, base, "cpu", silent)
    assert result.failure is None
    kept = choices_of(calls[0])
    gone = {(i, t) for i in range(4) for t in range(3)} - set(
        map(tuple, np.stack([kept.item, kept.annotator], axis=1).tolist())
    )
    assert len(gone) == 3
    says = [[np.log(0.8 if c[0] else 0.2), np.log(0.3 if c[1] else 0.7)] for c in (chosen[4 * t + i] for i, t in gone)]
    assert result.metrics["heldout_loglik"] == pytest.approx(np.sum(says) / 3)
    (whole,) = run_batch(specs_of("probe-choosers", base, range(1)), base, "cpu", silent)
    # Every row of every annotator is certain, and as far from a coin as such rows are.
    from_coin = js_matrices(np.eye(2)[None], np.full((1, 2, 2), 0.5))[0]
    assert whole.metrics["js_annotators"] == pytest.approx(from_coin)
    # The crowd: of items with a class 2 of 3 choose it, of items without it 1 of 3.
    crowd = np.array([[[2 / 3, 1 / 3], [1 / 3, 2 / 3]]])
    assert whole.metrics["js_global"] == pytest.approx(js_matrices(crowd, np.full((1, 2, 2), 0.5))[0])
    assert whole.confusion is None


def test_spans_are_scored_where_items_are_tokens_and_classes_tags(add_model: Callable[..., list[Any]]) -> None:
    """Two sentences of gold B I O and O B; the last token of a third has no gold, so that it is left out."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        tag = [1, 2, 0, 1, 1, 1, 1]
        return FitResult(item_probs=np.eye(3)[tag])
"""
    add_model("probe-tags", body)
    unit = np.array([0, 0, 0, 1, 1, 2, 2], dtype=np.int32)
    base = CrowdDataset(
        name="tags",
        annotations=Annotations.of(
            item=np.arange(7),
            annotator=np.zeros(7, int),
            label=np.zeros(7, int),
            n_items=7,
            n_annotators=1,
            n_classes=3,
        ),
        items=Items(n_items=7, unit=unit),
        split=np.zeros(7, np.int8),
        gold=Gold(item=np.arange(6, dtype=np.int32), label=np.array([1, 2, 0, 0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 7),
        annotator_names=NumberedNames("a", 1),
        class_names=("O", "B-x", "I-x"),
    )
    (result,) = run_batch(specs_of("probe-tags", base, range(1)), base, "cpu", silent)
    assert result.failure is None
    # Found: (0, 1) and (4, 4); wrong: (3, 3). Precision 2/3, recall 1.
    assert result.metrics["train_span_f1"] == pytest.approx(0.8)
    assert result.metrics["train_accuracy"] == pytest.approx(5 / 6)
    flat = replace(base, items=Items(n_items=7))
    (without,) = run_batch(specs_of("probe-tags", flat, range(1)), flat, "cpu", silent)
    assert "train_span_f1" not in without.metrics
    words = replace(base, class_names=("O", "B", "I"))
    (others,) = run_batch(specs_of("probe-tags", words, range(1)), words, "cpu", silent)
    assert "train_span_f1" not in others.metrics
