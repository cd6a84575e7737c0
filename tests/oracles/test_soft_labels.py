"""Soft labels and the losses on them: explicit loops, the authors' numbers, and what theory says of two losses."""

from math import exp, log

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.two_stage._hard_and_soft import HardLabels, SoftLabels
from crowdsweep.models.two_stage.mtl import MTL, SoftLoss, soft_terms
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import small_data

CONTEXT = FitContext(seeds=SeedStream(0))


def votes(*rows: tuple[int, ...]) -> Annotations:
    counts = np.array(rows)
    item, label = np.nonzero(counts)
    return Annotations.from_votes(
        item=item, label=label, count=counts[item, label], n_items=len(rows), n_classes=counts.shape[1]
    )


def test_soft_labels_are_softmax_of_counts_as_in_the_authors_file() -> None:
    """(4, 0) votes stand in it as .982 and .018, (3, 1) as .881 and .119; no votes are no soft label."""
    found = SoftLabels().of(votes((4, 0), (3, 1), (0, 0)))
    np.testing.assert_allclose(found, [[0.982, 0.018], [0.881, 0.119], [0, 0]], atol=5e-4)


def test_each_kind_of_soft_label() -> None:
    counts = (3, 1, 0)
    by_hand = {
        "softmax_counts": [exp(c / 2) for c in counts],
        "softmax_proportions": [exp(c / 4 / 2) for c in counts],
        "proportions": list(counts),
        "smoothed": [c + 1.5 / 3 for c in counts],
    }
    for soft, weights in by_hand.items():
        given = {"soft": soft, "temperature": 2.0, "smoothing": 1.5}
        model = registered.build_model("mtl", given)
        assert isinstance(model, MTL)
        found = model.soft_labels.of(votes(counts, (0, 0, 0)))
        np.testing.assert_allclose(found, [[w / sum(weights) for w in weights], [0, 0, 0]], rtol=1e-12)


def test_silver_is_the_majority_and_ties_are_dropped_drawn_or_the_first() -> None:
    given = votes((4, 0), (1, 3), (2, 2), (0, 0))
    assert HardLabels().silver(given, CONTEXT).tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert HardLabels(ties="first").silver(given, CONTEXT).tolist() == [[1, 0], [0, 1], [1, 0], [0, 0]]
    drawn = HardLabels(ties="random").silver(votes(*[(2, 2)] * 200, (0, 0)), CONTEXT)
    assert drawn[200].tolist() == [0, 0]
    assert 70 < drawn[:200, 0].sum() < 130
    assert (drawn[:200].sum(axis=1) == 1).all()


def loop(soft: np.ndarray, q: np.ndarray, kind: SoftLoss) -> float:
    total = 0.0
    for row, given in zip(soft, q, strict=True):
        if row.sum() == 0:
            continue
        for s, p in zip(row, given, strict=True):
            if kind == "cross_entropy":
                total -= s * log(p)
            elif kind == "kl_regular":
                total += s * log(s / p) if s > 0 else 0.0
            else:
                total += max(p, 1e-6) * log(max(p, 1e-6) / max(s, 1e-6))
    return total


@pytest.mark.parametrize("kind", ["kl_regular", "kl_inverse", "cross_entropy"])
def test_soft_losses(kind: SoftLoss) -> None:
    rng = np.random.default_rng(0)
    soft = rng.dirichlet(np.ones(4), 6)
    soft[2], soft[3] = 0.0, [1, 0, 0, 0]  # no votes; certain
    logits = rng.normal(size=(6, 4)) * [[1], [1], [1], [1], [1], [9]]  # the last has a q below the floor
    log_q = torch.log_softmax(torch.from_numpy(logits), dim=1)
    found = soft_terms(torch.from_numpy(soft.T)[None], log_q.T[None], kind)
    assert found.sum().item() == pytest.approx(loop(soft, log_q.exp().numpy(), kind), rel=1e-10)
    assert not found[0, :, 2].any()


def test_the_objective_is_both_losses_and_weight_zero_is_the_first_alone() -> None:
    """Full batch, a step too small to matter: what is reported is the loss of the initial network."""
    data = small_data(n_items=20).training
    settings = {"learning_rate": 1e-30, "epochs": 1, "patience": None, "dropout": 0.0, "batch_size": 64, "hidden": [5]}
    gold = Gold(item=np.arange(0, 20, 2, dtype=np.int32), label=(np.arange(0, 20, 2) % 3).astype(np.int32))
    context = FitContext(seeds=SeedStream(4), gold=gold)
    for weight in (0.0, 1 / log(2)):
        model = registered.build_model("mtl", {**settings, "labels": "gold", "aux_weight": weight})
        fit = fit_one(model, data, context)
        assert fit.predictor is not None
        p, q = (fit.predictor.predict(data.items, use)[::2] for use in ("classifier", "soft"))
        hard = -sum(log(row[label]) for row, label in zip(p, gold.label, strict=True))
        soft = loop(SoftLabels().of(data.annotations)[::2], q, "kl_regular")
        assert -fit.objective[0] == pytest.approx((hard + weight * soft) / 10, rel=1e-5)


def test_regular_kl_and_cross_entropy_are_one_fit_and_the_inverse_is_another() -> None:
    data = small_data(n_items=40).training
    fits = {}
    for kind in ("kl_regular", "cross_entropy", "kl_inverse"):
        model = registered.build_model(
            "mtl", {"soft_loss": kind, "epochs": 8, "steps": 0, "patience": None, "learning_rate": 0.02}
        )
        fits[kind] = fit_one(model, data, CONTEXT)
    same = fits["kl_regular"].item_probs
    np.testing.assert_allclose(fits["cross_entropy"].item_probs, same, atol=1e-4)
    assert np.abs(fits["kl_inverse"].item_probs - same).max() > 0.01
    taught = HardLabels().silver(data.annotations, CONTEXT).any(axis=1)  # votes that tie are left out
    soft = SoftLabels().of(data.annotations)[taught]
    entropy = -(soft * np.log(soft)).sum(axis=1).mean()
    gap = fits["kl_regular"].objective - fits["cross_entropy"].objective
    np.testing.assert_allclose(gap, entropy / log(2), rtol=1e-3)


def test_an_item_without_votes_teaches_its_gold_alone() -> None:
    """Its soft label does not exist: the fit is that of stl on it, whatever the weight of the soft loss."""
    data = small_data(n_items=20)
    nothing = data.training.annotations.take(np.zeros(len(data.training.annotations), dtype=bool))
    training = type(data.training)(annotations=nothing, items=data.training.items)
    context = FitContext(seeds=SeedStream(0), gold=data.gold)
    given = {"labels": "gold", "epochs": 3, "patience": None, "hidden": [6]}
    light, heavy = (
        fit_one(registered.build_model("mtl", {**given, "aux_weight": weight}), training, context)
        for weight in (0.0, 50.0)
    )
    np.testing.assert_array_equal(light.item_probs, heavy.item_probs)
