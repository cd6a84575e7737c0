"""Two-stage models from the first weights to the last prediction, against training in loops: see `naive_training`."""

import numpy as np
import pytest
import torch

from crowdsweep.data.dataset import Gold
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.embedded import embedded_network
from crowdsweep.models.networks.replicas import ReplicaStack
from crowdsweep.seeds import SeedStream
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
    "maj-star-e": ("hardest", None, FIRST),
    "mmce-star-e": ("hardest", "mmce", FIRST),
}
VECTORS = ["maj-star-e", "mmce-star-e"]
DRAWN = {"mv-mlp", "glad-mlp"}  # draw among ties, of which only votes with weights have none
GOLD = Gold(item=np.array([0, 2, 3, 8], np.int32), label=np.array([1, 2, 0, 1], np.int32))


def targets_of(name: str, kind: str) -> dict[int, torch.Tensor]:
    """Returns the targets of the items that have some."""
    sort, aggregator, params = TARGETS[name]
    rows = training_data(kind).annotations
    votes = votes_of(labels_of(rows))
    if sort == "gold":
        return {
            int(i): torch.eye(N_CLASSES, dtype=torch.float64)[y] for i, y in zip(GOLD.item, GOLD.label, strict=True)
        }
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


def cross_entropy(targets: dict[int, torch.Tensor], f: torch.Tensor) -> torch.Tensor:
    """Returns the mean over the items that have a target."""
    total = torch.zeros((), dtype=torch.float64)
    for i, wanted in targets.items():
        for k in range(N_CLASSES):
            total = total - wanted[k] * torch.log(f[i, k])
    return total / len(targets)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in TARGETS if name not in VECTORS])
def test_a_classifier_is_trained_on_its_targets(name: str, kind: str) -> None:
    kind = "weighted" if name in DRAWN else kind
    data, targets, params = training_data(kind), targets_of(name, kind), TARGETS[name][2]
    gold = GOLD if name == "ideal" else None

    twin = Adam({"w": first_weights(fit(name, data, gold, **{**params, "learning_rate": STILL}))})
    lost = twin.train(lambda values: cross_entropy(targets, classified(values["w"], data)))
    found = fit(name, data, gold, **params)
    f = classified(twin.values["w"], data)
    assert found.predictor is not None
    must_be(-found.objective, lost, "losses")
    must_be(found.predictor.predict(data.items, found.predictor.uses[0]), f, "predictions")


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_of_each_item_is_trained_with_what_reads_it(name: str) -> None:
    data, params, width = training_data("mixed"), {**TARGETS[name][2], "item_embedding": 2}, 2
    network = embedded_network(Dense(hidden=()), n_outputs=N_CLASSES, n_items=N_ITEMS, width=width)
    drawn = ReplicaStack.start(network.parameters(), [SeedStream(0).child("classifier")], "cpu").values_of(0)
    twin = Adam({key: torch.from_numpy(value) for key, value in drawn.items()})

    def read(values: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(values["item vectors"] @ values["w0"] + values["b0"], dim=1)

    targets = targets_of(name, "mixed")
    lost, found = twin.train(lambda values: cross_entropy(targets, read(values))), fit(name, data, **params)
    must_be(-found.objective, lost, "losses")
    must_be(found.item_probs, read(twin.values), "items")


@pytest.mark.parametrize(("name", "count"), [("fmm", None), ("fmm", 3.0), ("pgm-bp", None), ("pgm-annealing", 3.0)])
def test_a_guided_classifier_learns_clusters_and_snaps_to_them(name: str, count: float | None) -> None:
    """Equations 1 and 2 of the paper, as `_guided` reads them; the models of clusters have oracles of their own."""
    data = training_data("plain" if name == "pgm-annealing" else "weighted")
    params = {"item_clusters": 3, "restarts": 1, "iterations": 6}
    params |= {} if name == "fmm" else {"annotator_clusters": 2}
    clusters = fit_labels(name, data.annotations, **params)
    votes = votes_of(labels_of(data.annotations))
    labelled = [i for i in range(N_ITEMS) if votes[i].sum() > 0]
    targets = {i: torch.from_numpy(clusters.item_probs[i].copy()) for i in labelled}
    settings = {**params, "projection_count": count}
    twin = Adam(
        {"w": first_weights(fit(f"{name}-guided", data, **{**settings, "test_snap": "none"}, learning_rate=STILL))}
    )
    twin.train(lambda values: cross_entropy(targets, classified(values["w"], data)))
    h = classified(twin.values["w"], data).detach().numpy()
    shares, of_clusters = clusters.extras["item_shares"], clusters.extras["cluster_distributions"]
    theta = np.einsum("l,glk->gk", clusters.extras.get("annotator_mix", np.ones(1)), clusters.extras["labels"])
    answers = float(votes[labelled].sum()) / len(labelled) if count is None else count
    scores = np.array([[np.log(shares[g]) + answers * (row @ np.log(theta[g])) for g in range(3)] for row in h])
    found = fit(f"{name}-guided", data, **settings)
    assert found.predictor is not None
    must_be(found.item_probs, clusters.item_probs, "training items", 1e-9)
    must_be(found.predictor.predict(data.items, "none"), h, "classifier")
    must_be(found.predictor.predict(data.items, "hard"), of_clusters[scores.argmax(axis=1)], "hard", 1e-9)
    soft = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    must_be(found.predictor.predict(data.items, "soft"), soft @ of_clusters, "soft", 1e-5)


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
