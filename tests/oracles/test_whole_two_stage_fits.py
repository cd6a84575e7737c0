"""Two-stage models from the first weights to the last prediction, against training in loops: see `naive_training`."""

import numpy as np
import pytest
import torch

from crowdsweep.data.dataset import Gold
from tests.naive_answers import fit as fit_labels
from tests.naive_training import (
    KINDS,
    N_CLASSES,
    N_ITEMS,
    STILL,
    Adam,
    classified,
    first_weights,
    fit,
    labels_of,
    must_be,
    shares_of,
    training_data,
    votes_of,
)

FIRST = {"ties": "first"}
# What a classifier is trained on, and by which aggregation; the aggregations have oracles of their own.
TARGETS = {
    "soft-mv": ("shares", None, {}),
    "pd": ("shares", None, {}),
    "two-stage": ("posterior", "one-coin", {"aggregate": "one-coin"}),
    "dl-ds": ("posterior", "dawid-skene", {"smoothing": 0.5, "iterations": 7}),
    "hard-mv": ("hardest", None, FIRST),
    "mv-mlp": ("hardest", None, {}),
    "maj-star": ("hardest", None, FIRST),
    "mmce-star": ("hardest", "mmce", FIRST),
    "glad-mlp": ("hardest", "glad", {}),
    "stl": ("decided", None, {}),
    "ideal": ("gold", None, {}),
}
DRAWN = {"mv-mlp", "glad-mlp"}  # draw among ties, of which only votes with weights have none
GOLD = Gold(item=np.array([0, 2, 3, 8], np.int32), label=np.array([1, 2, 0, 1], np.int32))


def targets_of(name: str, kind: str) -> dict[int, torch.Tensor]:
    """Returns the targets of the items that have some."""
    sort, aggregator, params = TARGETS[name]
    rows = training_data(kind).annotations
    votes = votes_of(labels_of(rows))
    if sort == "gold":
        return {int(i): torch.eye(N_CLASSES, dtype=torch.float64)[y] for i, y in zip(GOLD.item, GOLD.label, strict=True)}
    found = shares_of(votes)
    if aggregator is not None:
        settings = {key: value for key, value in params.items() if key in {"smoothing", "iterations"}}
        # dl-ds is Mena and Nanculef's: no annotator is drawn towards the crowd.
        settings |= {"shrinkage": 0.0, "tolerance": 0.0} if aggregator == "dawid-skene" else {}
        found = torch.from_numpy(fit_labels(aggregator, rows, **settings).item_probs.astype(np.float64))
    labelled = [i for i in range(N_ITEMS) if votes[i].sum() > 0]
    if sort in {"shares", "posterior"}:
        return {i: found[i] for i in labelled}
    tied = {i: int((found[i] == found[i].max()).sum()) > 1 for i in labelled}
    assert not (name in DRAWN and any(tied.values()))
    return {
        i: torch.eye(N_CLASSES, dtype=torch.float64)[int(found[i].argmax())]
        for i in labelled
        if not (sort == "decided" and tied[i])
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TARGETS)
def test_a_classifier_is_trained_on_its_targets(name: str, kind: str) -> None:
    kind = "weighted" if name in DRAWN else kind
    data, targets, params = training_data(kind), targets_of(name, kind), TARGETS[name][2]
    gold = GOLD if name == "ideal" else None

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        f, total = classified(values["w"], data), torch.zeros((), dtype=torch.float64)
        for i, wanted in targets.items():
            for k in range(N_CLASSES):
                total = total - wanted[k] * torch.log(f[i, k])
        return total / len(targets)

    twin = Adam({"w": first_weights(fit(name, data, gold, **{**params, "learning_rate": STILL}))})
    lost = twin.train(loss)
    found = fit(name, data, gold, **params)
    f = classified(twin.values["w"], data)
    assert found.predictor is not None
    must_be(-found.objective, lost, "losses")
    must_be(found.predictor.predict(data.items, found.predictor.uses[0]), f, "predictions")


@pytest.mark.parametrize(
    ("kind", "soft_loss", "soft"),
    [
        ("plain", "kl_regular", "softmax_counts"),
        ("mixed", "kl_inverse", "softmax_proportions"),
        ("plain", "kl_inverse", "proportions"),  # with classes that have no share
        ("mixed", "cross_entropy", "smoothed"),
    ],
)
def test_two_heads_are_trained_on_votes_and_soft_labels(kind: str, soft_loss: str, soft: str) -> None:
    """Fornaciari et al. (2021): cross-entropy in nats plus 1 / ln 2 times the soft loss, which they have in bits."""
    data = training_data(kind)
    params = {"soft_loss": soft_loss, "soft": soft, "smoothing": 0.5, "temperature": 1.0}
    votes = votes_of(labels_of(data.annotations))
    hard = {i: int(row.argmax()) for i, row in enumerate(votes) if int((row == row.max()).sum()) == 1}  # no ties
    wanted = {
        "softmax_counts": lambda row: torch.softmax(row, dim=0),
        "softmax_proportions": lambda row: torch.softmax(row / row.sum(), dim=0),
        "proportions": lambda row: row / row.sum(),
        "smoothed": lambda row: (row + 0.5 / N_CLASSES) / (row.sum() + 0.5),
    }[soft]

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        first, second = classified(values["hard"], data), classified(values["soft"], data)
        total = torch.zeros((), dtype=torch.float64)
        for i, y in hard.items():
            total = total - torch.log(first[i, y])
            for s, q in zip(wanted(votes[i]), second[i], strict=True):
                if soft_loss == "kl_regular" and s > 0:
                    total = total + s * torch.log2(s / q)
                elif soft_loss == "kl_inverse":
                    total = total + q * torch.log2(q / s.clamp(min=1e-6))
                elif soft_loss == "cross_entropy":
                    total = total - s * torch.log2(q)
        return total / len(hard)

    still = fit("mtl", data, **{**params, "learning_rate": STILL})
    twin = Adam({"hard": first_weights(still, 0), "soft": first_weights(still, 1)})
    lost = twin.train(loss)
    found = fit("mtl", data, **params)
    assert found.predictor is not None
    assert found.label_probs is not None
    must_be(-found.objective, lost, "losses")
    must_be(found.predictor.predict(data.items, "classifier"), classified(twin.values["hard"], data), "first head")
    second = classified(twin.values["soft"], data)
    must_be(found.predictor.predict(data.items, "soft"), second, "second head")
    every = np.arange(N_ITEMS, dtype=np.int32)
    must_be(found.label_probs(every, np.zeros_like(every)), second, "what anybody would answer")
