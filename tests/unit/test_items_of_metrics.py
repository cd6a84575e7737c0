"""What single items are to metrics that are no mean over items: F1 of classes and spans, kappa, calibration error."""

import numpy as np
import pytest

from crowdsweep.metrics.intervals import estimate
from crowdsweep.metrics.metric_table import ITEM_METRICS, ScoredItems

TAGS = ("O", "B-per", "I-per", "B-loc")


def scored(name: str, n_items: int, seed: int = 0) -> ScoredItems:
    rng = np.random.default_rng(seed)
    if name == "multilabel":
        known = rng.random((n_items, 3)) < 0.9
        known[:, 0] = True
        return ScoredItems(
            reference=(rng.random((n_items, 3)) < 0.4) * 1.0,
            predicted=np.round(rng.random((n_items, 3)), 1),
            scale="multilabel",
            known=known,
        )
    classes = rng.choice(4, n_items, p=[0.5, 0.3, 0.15, 0.05])
    predicted = np.round(rng.dirichlet(np.ones(4), n_items) + 0.8 * np.eye(4)[classes], 1) + 1e-3
    unit = np.repeat(np.arange(n_items), 5)[:n_items].astype(np.int32)
    unit[: n_items // 10] = -1
    return ScoredItems(
        reference=np.eye(4)[classes],
        predicted=predicted / predicted.sum(axis=1, keepdims=True),
        scale="ordinal" if name == "ordinal" else "nominal",
        unit=unit if name == "tokens" else None,
        class_names=TAGS if name == "tokens" else (),
    )


@pytest.mark.parametrize("kind", ["items", "ordinal", "multilabel", "tokens"])
@pytest.mark.parametrize("n_items", [1, 7, 200])
def test_their_mean_is_the_metric(kind: str, n_items: int) -> None:
    found = scored(kind, n_items)
    for metric in ITEM_METRICS:
        if metric.by_item is not None and metric.applies(found.scale, found.unit, found.class_names):
            of_items = metric.by_item(found)
            assert of_items.shape == (n_items,)
            assert of_items.mean() == pytest.approx(metric.score(found), abs=1e-9), metric.name


def test_every_metric_of_items_that_ranks_has_them() -> None:
    assert [metric.name for metric in ITEM_METRICS if metric.goal is not None and metric.by_item is None] == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("items", "macro_f1"), ("multilabel", "macro_f1"), ("tokens", "span_f1"), ("ordinal", "weighted_kappa")],
)
def test_their_spread_is_what_drawing_items_anew_finds(kind: str, name: str) -> None:
    found = scored(kind, 600)
    (metric,) = (metric for metric in ITEM_METRICS if metric.name == name)
    assert metric.by_item is not None
    units = np.arange(600) if found.unit is None else np.where(found.unit < 0, -1, found.unit)
    groups = [np.flatnonzero(units == unit) for unit in np.unique(units[units >= 0])]
    rng = np.random.default_rng(1)
    scores: list[float] = []
    for _ in range(200):
        drawn = rng.integers(len(groups), size=len(groups))
        rows = np.concatenate([groups[place] for place in drawn])
        again = np.repeat(np.arange(len(groups)), [len(groups[place]) for place in drawn]).astype(np.int32)
        scores.append(
            metric.score(
                ScoredItems(
                    reference=found.reference[rows],
                    predicted=found.predicted[rows],
                    scale=found.scale,
                    unit=None if found.unit is None else again,
                    class_names=found.class_names,
                    known=None if found.known is None else found.known[rows],
                )
            )
        )
    error = metric.by_item(found).std() / 600**0.5
    assert error == pytest.approx(np.std(scores), rel=0.2)


def test_intervals_of_macro_f1_cover() -> None:
    (metric,) = (metric for metric in ITEM_METRICS if metric.name == "macro_f1")
    assert metric.by_item is not None
    true = metric.score(scored("items", 200_000, seed=9))
    covered = 0
    for seed in range(120):
        found = scored("items", 150, seed=seed + 100)
        interval = estimate(
            [metric.score(found)], metric="test_macro_f1", item_scores=metric.by_item(found)[None].astype(np.float32)
        )
        assert interval.low is not None
        assert interval.high is not None
        covered += interval.low <= true <= interval.high
    assert covered / 120 >= 0.9
