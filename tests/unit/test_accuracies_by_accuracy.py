"""Intervals of annotators' accuracies reach over what accuracies alone tell, which are found with fewer numbers."""

import numpy as np
import pytest

import crowdsweep as cs
from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling.crowd import Crowd
from crowdsweep.labelling.one_coin_intervals import one_coin_intervals
from crowdsweep.labelling.questions import questions_of


def answers(n_items: int = 1000, n_annotators: int = 20, n_classes: int = 3) -> tuple[dict[str, list[str]], np.ndarray]:
    """Annotator 0 answers everything and is always right; two others, right three times in five, stand beside."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, n_classes, n_items)
    accuracy = np.r_[1.0, rng.uniform(0.55, 0.75, n_annotators - 1)]
    rows: dict[str, list[str]] = {"item": [], "annotator": [], "label": []}
    for item in range(n_items):
        for who in np.r_[0, rng.choice(np.arange(1, n_annotators), 2, replace=False)]:
            others = [k for k in range(n_classes) if k != true[item]]
            label = true[item] if rng.random() < accuracy[who] else rng.choice(others)
            for name, value in (("item", f"i{item}"), ("annotator", f"a{who:02d}"), ("label", f"c{label}")):
                rows[name].append(value)
    return rows, accuracy


@pytest.mark.parametrize("model", ["hierarchical-dawid-skene", "dawid-skene"])
def test_whoever_is_always_right_among_weak_others_may_be(model: str) -> None:
    rows, true = answers()
    table = cs.fit(model, cs.load(rows), seeds=1).annotators
    assert table is not None
    columns = {name: table[name].to_numpy() for name in ("accuracy", "accuracy_low", "accuracy_high")}
    order = np.argsort(np.asarray(table["annotator"].to_pylist()))
    low, high = columns["accuracy_low"][order], columns["accuracy_high"][order]
    assert high[0] == pytest.approx(1.0, abs=1e-6)
    assert low[0] > 0.9
    assert ((low <= true) & (true <= high)).mean() >= 0.9
    assert (columns["accuracy_low"] <= columns["accuracy"]).all()
    assert (columns["accuracy"] <= columns["accuracy_high"]).all()


def test_several_kinds_of_questions_weights_and_idle_annotators() -> None:
    rng = np.random.default_rng(1)
    item, annotator = np.repeat(np.arange(60), 4), np.tile([0, 1, 3, 4], 60)  # nobody is annotator 2
    rows = Annotations.of(
        item=item,
        annotator=annotator,
        label=(item + (rng.random(240) < 0.2)) % 2,
        weight=np.where(annotator == 4, 0.1, 1.0).astype(np.float32),
        n_items=60,
        n_annotators=5,
        n_classes=2,
    )
    code = np.array([0, 1, 3, 4])
    crowd = Crowd(matrix=np.array([[0.8, 0.2], [0.2, 0.8]]))
    for probs, multilabel in ((np.eye(2)[np.arange(60) % 2], False), (np.full((60, 2), 0.5), True)):
        questions = questions_of(rows, probs, multilabel=multilabel)
        low, high = one_coin_intervals(questions, crowd, code, np.full(4, 0.8))
        assert low.shape == high.shape == (4,)
        assert (low < high).all()
        assert high[3] - low[3] > high[0] - low[0]  # a tenth of the weight tells less
