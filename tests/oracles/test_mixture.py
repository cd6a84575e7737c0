"""The finite mixture of multinomials against loops, draws and planted clusters."""

import numpy as np
import pytest
from scipy.stats import dirichlet
from sklearn.metrics import adjusted_rand_score

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import BadInput
from crowdsweep.models.aggregate.fmm import FiniteMultinomialMixture, divergence_from, expectation, expected_logs
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

N_CLUSTERS, N_CLASSES = 3, 3


def test_em_step_of_the_mixture_equals_loops() -> None:
    random = SeedStream(4).numpy("counts")
    counts = random.integers(0, 5, size=(2, 6, N_CLASSES)).astype(np.float64)
    counts[1, 5] = 0
    shares = random.dirichlet(np.ones(N_CLUSTERS), size=2)
    labels = random.dirichlet(np.ones(N_CLASSES), size=(2, N_CLUSTERS))
    answered = counts.sum(axis=2) > 0
    memberships, evidence = expectation(counts, answered.astype(np.float64), np.log(shares), np.log(labels))
    model = FiniteMultinomialMixture(item_clusters=N_CLUSTERS, label_pseudocount=0.3, cluster_pseudocount=0.7)
    new_shares, new_labels = model.maximisation(counts, memberships)
    for f in range(2):
        value = 0.0
        cluster_counts, label_counts = [0.7] * N_CLUSTERS, [[0.3] * N_CLASSES for _ in range(N_CLUSTERS)]
        for i in range(6):
            if not answered[f, i]:
                continue
            joint = [
                shares[f, g] * np.prod([labels[f, g, k] ** counts[f, i, k] for k in range(N_CLASSES)])
                for g in range(N_CLUSTERS)
            ]
            value += np.log(sum(joint))
            for g in range(N_CLUSTERS):
                member = joint[g] / sum(joint)
                assert memberships[f, i, g] == pytest.approx(member, abs=1e-9)
                cluster_counts[g] += member
                for k in range(N_CLASSES):
                    label_counts[g][k] += member * counts[f, i, k]
        assert evidence[f] == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(new_shares[f], np.array(cluster_counts) / sum(cluster_counts), atol=1e-9)
        for g in range(N_CLUSTERS):
            np.testing.assert_allclose(new_labels[f, g], np.array(label_counts[g]) / sum(label_counts[g]), atol=1e-9)


def test_dirichlets_of_the_variational_mixture_equal_many_draws() -> None:
    parameters, prior = np.array([3.0, 0.8, 5.5]), 0.6
    draws = SeedStream(11).numpy("draws").dirichlet(parameters, size=200_000)
    np.testing.assert_allclose(expected_logs(parameters), np.log(draws).mean(axis=0), atol=0.02)
    density = dirichlet(parameters).logpdf(draws.T) - dirichlet(np.full(3, prior)).logpdf(draws.T)
    assert divergence_from(parameters[None], prior)[0] == pytest.approx(density.mean(), abs=0.02)


@pytest.mark.parametrize("method", ["map", "variational"])
def test_the_mixture_finds_planted_clusters_and_its_objective_rises(method: str) -> None:
    random = SeedStream(12).numpy("planted")
    truth = np.array([[0.8, 0.1, 0.1, 0.0], [0.0, 0.8, 0.1, 0.1], [0.1, 0.0, 0.1, 0.8]])
    kinds = random.permutation(np.arange(200) % 3)
    counts = np.stack([random.multinomial(10, truth[kind]) for kind in kinds])
    item, label = (np.repeat(codes.ravel(), counts.ravel()) for codes in np.indices(counts.shape))
    rows = Annotations.of(
        item=item, annotator=np.arange(len(item)) % 50, label=label, n_items=200, n_annotators=50, n_classes=4
    )
    data = TrainingData(annotations=rows, items=Items(n_items=200))
    found = fit_one(build_model("fmm", {"item_clusters": 3, "method": method}), data, FitContext(seeds=SeedStream(0)))
    assert adjusted_rand_score(kinds, found.extras["item_memberships"].argmax(axis=1)) >= 0.9
    assert (np.diff(found.objective) >= -1e-8 * np.abs(found.objective[1:])).all()
    if method == "variational":  # clusters that nobody needs fade
        many = build_model("fmm", {"item_clusters": 12, "method": method, "iterations": 1000, "tolerance": 1e-9})
        assert fit_one(many, data, FitContext(seeds=SeedStream(0))).extras["effective_clusters"] < 5


def test_a_variational_mixture_needs_a_prior() -> None:
    with pytest.raises(BadInput, match="label_pseudocount"):
        build_model("fmm", {"method": "variational", "label_pseudocount": 0})


def test_mixtures_of_several_sizes_end_as_each_alone() -> None:
    random = SeedStream(5).numpy("data")
    parts = []
    for n_items in (30, 7, 18):
        rows = Annotations.of(
            item=random.integers(0, n_items, 4 * n_items),
            annotator=random.integers(0, 5, 4 * n_items),
            label=random.integers(0, 3, 4 * n_items),
            n_items=n_items,
            n_annotators=5,
            n_classes=3,
        )
        parts.append(TrainingData(annotations=rows, items=Items(n_items=n_items)))
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    model = FiniteMultinomialMixture(item_clusters=3, restarts=4)
    for part, context, together in zip(parts, contexts, fit_all(model, parts, contexts), strict=True):
        alone = fit_one(model, part, context)
        np.testing.assert_allclose(together.item_probs, alone.item_probs, atol=1e-9)
        assert together.iterations == alone.iterations
        assert (np.diff(together.objective) >= -1e-8 * np.abs(together.objective[1:])).all()
