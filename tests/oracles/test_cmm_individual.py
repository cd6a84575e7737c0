"""cmm-individual against explicit loops, against cmm where gates do not differ, and on a crowd of two kinds."""

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._answers import ActiveAnswers
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._em_with_network import NetworkEM
from crowdsweep.models.joint._label_clusters import Starts
from crowdsweep.models.joint.cmm import CMM, GroupedCrowd
from crowdsweep.models.joint.cmm_individual import CMMIndividual, GatedGroups
from crowdsweep.seeds import SeedStream

ITEMS, ANNOTATORS, CLASSES, GROUPS = 12, 5, 3, 2


def some_annotations(seed: int, *, weighted: bool = True) -> Annotations:
    rng = np.random.default_rng(seed)
    return Annotations.of(
        item=rng.integers(0, ITEMS, 40),
        annotator=rng.integers(0, ANNOTATORS, 40),
        label=rng.integers(0, CLASSES, 40),
        weight=rng.uniform(0.5, 2, 40).astype(np.float32) if weighted else None,
        n_items=ITEMS,
        n_annotators=ANNOTATORS,
        n_classes=CLASSES,
    )


def groups_of(rows: Annotations, model: CMMIndividual) -> tuple[GatedGroups, np.ndarray]:
    """A restart after its first M-step, and what some classifier says."""
    groups = GatedGroups(model, ActiveAnswers.of(rows), Starts(rows, model.groups, SeedStream(0)).clusters(0))
    groups.maximise()
    return groups, np.random.default_rng(9).dirichlet(np.ones(CLASSES), ITEMS)


def test_a_step_is_that_of_explicit_loops() -> None:
    rows, model = some_annotations(0), CMMIndividual(groups=GROUPS, smoothing=0.3, gate_smoothing=0.7)
    groups, probs = groups_of(rows, model)
    gates, matrices, shares = groups.gates.copy(), groups.matrices.copy(), np.zeros(GROUPS)
    targets, counts = np.zeros((ITEMS, CLASSES)), np.zeros((GROUPS, CLASSES, CLASSES))
    given, log_likelihood = np.zeros((ANNOTATORS, GROUPS)), 0.0
    assert rows.weight is not None
    for i, t, y, weight in zip(rows.item, rows.annotator, rows.label, rows.weight.astype(float), strict=True):
        joint = np.array(
            [[gates[t, m] * probs[i, k] * matrices[m, k, y] for k in range(CLASSES)] for m in range(GROUPS)]
        )
        log_likelihood += weight * np.log(joint.sum())
        q = weight * joint / joint.sum()
        targets[i] += q.sum(axis=0)
        given[t] += q.sum(axis=1)
        counts[:, :, y] += q
        shares += q.sum(axis=1)
    found, found_log_likelihood = groups.expect(probs)
    np.testing.assert_allclose(found, targets, atol=1e-9)
    assert found_log_likelihood == pytest.approx(log_likelihood, abs=1e-9)
    groups.maximise()
    shares = (shares + 0.3) / (shares + 0.3).sum()
    np.testing.assert_allclose(groups.shares, shares, atol=1e-9)
    for t in range(ANNOTATORS):
        np.testing.assert_allclose(groups.gates[t], (given[t] + 0.7 * shares) / (given[t].sum() + 0.7), atol=1e-9)
    for m in range(GROUPS):
        for k in range(CLASSES):
            row = counts[m, k] + 0.3
            np.testing.assert_allclose(groups.matrices[m, k], row / row.sum(), atol=1e-9)


def test_where_all_gates_are_the_crowds_shares_it_is_cmm() -> None:
    rows = some_annotations(1, weighted=False)
    groups, probs = groups_of(rows, CMMIndividual(groups=GROUPS, gate_smoothing=1e12))
    data = TrainingData(annotations=rows, items=Items(n_items=ITEMS))
    crowd = GroupedCrowd([CMM(groups=GROUPS)], [data], [np.ones((GROUPS, CLASSES, CLASSES))], [0])
    crowd.shares[0], crowd.matrices[0] = torch.from_numpy(groups.shares), torch.from_numpy(groups.matrices)
    targets, log_likelihood = crowd.expect([0], torch.from_numpy(probs)[None])
    found, found_log_likelihood = groups.expect(probs)
    np.testing.assert_allclose(found, targets[0].numpy(), atol=1e-8)
    assert found_log_likelihood == pytest.approx(log_likelihood[0], abs=1e-8)


def test_with_a_classifier_that_stands_still_likelihood_never_falls() -> None:
    model = CMMIndividual(groups=GROUPS, smoothing=0.0, gate_smoothing=0.0)
    groups, probs = groups_of(some_annotations(2), model)
    values = []
    for _ in range(30):
        values.append(groups.expect(probs)[1])
        groups.maximise()
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0] + 1


def test_annotators_of_two_kinds_are_told_apart() -> None:
    """Ten annotators answer rightly, six take every class for the next one; each answers thirty items."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 200)
    annotator = np.repeat(np.arange(16), 30)
    item = np.concatenate([rng.choice(200, 30, replace=False) for _ in range(16)])
    label = np.where(annotator < 10, gold[item], (gold[item] + 1) % 3)
    label = np.where(rng.random(len(item)) < 0.1, rng.integers(0, 3, len(item)), label)
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=200, n_annotators=16, n_classes=3)
    features = (2.0 * np.eye(3)[gold] + rng.normal(0, 0.3, (200, 3))).astype(np.float32)
    data = TrainingData(annotations=rows, items=Items(n_items=200, features=features))
    model = CMMIndividual(groups=2, smoothing=0.1, gate_smoothing=1.0, em=NetworkEM(restarts=5, iterations=30))
    fitted = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    largest = fitted.extras["gates"].argmax(axis=1)
    assert set(largest[:10]) != set(largest[10:])
    assert len(set(largest[:10])) == len(set(largest[10:])) == 1
    assert (fitted.item_probs.argmax(axis=1) == gold).mean() > 0.95
    assert fitted.annotators is not None
    right, turned = fitted.annotators.confusion(np.array([0, 12]))
    assert np.diag(right).min() > 0.8
    assert np.diag(turned, 1).min() > 0.8
