"""Belief propagation of pgm-bp, its clusters and what they snap to, against loops and brute-force enumeration."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import BadInput
from crowdsweep.models.aggregate._active import ActiveCrowd
from crowdsweep.models.aggregate._bipartite import ClusterParameters, Edges, PropagationState, edge_counts, propagate
from crowdsweep.models.aggregate._clustered import GraphPrior, RestartReporter
from crowdsweep.models.aggregate.pgm_bp import PgmBp, race
from crowdsweep.models.clusters import Clusters, projected
from crowdsweep.models.contract import FitContext, no_op
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

# Trees: no way from an item back to itself along different edges.
TREES = {
    "a star": [(0, 0, 1), (0, 1, 0), (0, 2, 2)],
    "a path": [(0, 0, 1), (1, 0, 0), (1, 1, 2), (2, 1, 2), (2, 2, 0)],
    "a bush and a loner": [(0, 0, 1), (1, 0, 1), (2, 0, 2), (2, 1, 0), (2, 2, 1), (3, 3, 0)],
}
# Few items, and no time: fast steps and no dropout.
CLASSIFIER: dict[str, Any] = {
    "restarts": 3,
    "hidden": [16],
    "dropout": 0.0,
    "learning_rate": 0.02,
    "batch_size": 16,
    "steps": 300,
}
N_CLUSTERS, N_ANNOTATOR_CLUSTERS, N_CLASSES = 3, 2, 3


def annotations(rows: list[tuple[int, int, int]]) -> Annotations:
    item, annotator, label = np.array(rows).T
    return Annotations.of(item=item, annotator=annotator, label=label, n_items=4, n_annotators=4, n_classes=N_CLASSES)


def parameters(seed: int) -> ClusterParameters:
    random = SeedStream(seed).numpy("parameters")
    return ClusterParameters(
        item_shares=random.dirichlet(np.ones(N_CLUSTERS)),
        annotator_shares=random.dirichlet(np.ones(N_ANNOTATOR_CLUSTERS)),
        labels=random.dirichlet(np.ones(N_CLASSES), size=(N_CLUSTERS, N_ANNOTATOR_CLUSTERS)),
    )


def start(edges: Edges, seed: int) -> PropagationState:
    random = SeedStream(seed).numpy("start")
    return PropagationState.start(
        edges,
        random.dirichlet(np.ones(N_CLUSTERS), size=edges.n_items),
        random.dirichlet(np.ones(N_ANNOTATOR_CLUSTERS), size=edges.n_annotators),
    )


@pytest.mark.parametrize("tree", TREES)
def test_beliefs_on_trees_are_the_exact_marginals(tree: str) -> None:
    rows, given = TREES[tree], parameters(1)
    items, annotators = np.zeros((4, N_CLUSTERS)), np.zeros((4, N_ANNOTATOR_CLUSTERS))
    counts = np.zeros((N_CLUSTERS, N_ANNOTATOR_CLUSTERS, N_CLASSES))
    total = 0.0
    for w in product(range(N_CLUSTERS), repeat=4):
        for z in product(range(N_ANNOTATOR_CLUSTERS), repeat=4):
            p = np.prod(given.item_shares[list(w)]) * np.prod(given.annotator_shares[list(z)])
            for i, t, y in rows:
                p *= given.labels[w[i], z[t], y]
            total += p
            items[np.arange(4), list(w)] += p
            annotators[np.arange(4), list(z)] += p
            for i, t, y in rows:
                counts[w[i], z[t], y] += p
    edges = Edges.of(annotations(rows))
    found = propagate(edges, given, start(edges, 2), sweeps=20, tolerance=0.0)
    np.testing.assert_allclose(found.items, items / total, atol=1e-9)
    np.testing.assert_allclose(found.annotators, annotators / total, atol=1e-9)
    assert found.log_evidence == pytest.approx(np.log(total), rel=1e-9)
    np.testing.assert_allclose(edge_counts(edges, given, found), counts / total, atol=1e-9)


@pytest.mark.parametrize("n_annotators", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 5])
def test_the_e_step_on_random_trees_equals_enumeration(n_items: int, n_annotators: int) -> None:
    """Trees that tie all items and annotators together; of two clusters each, all assignments are summed."""
    n_nodes, n_classes = n_items + n_annotators, 3
    bits = (np.arange(2**n_nodes)[:, None] >> np.arange(n_nodes)) & 1
    w, z = bits[:, :n_items], bits[:, n_items:]
    for seed in range(4):
        random = SeedStream(seed).numpy(f"{n_items} x {n_annotators}")
        tied = random_tree(random, n_items, n_annotators)
        rows = Annotations.of(
            item=tied[:, 0],
            annotator=tied[:, 1],
            label=random.integers(n_classes, size=len(tied)),
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=n_classes,
        )
        given = ClusterParameters(
            item_shares=random.dirichlet(np.ones(2)),
            annotator_shares=random.dirichlet(np.ones(2)),
            labels=random.dirichlet(np.ones(n_classes), size=(2, 2)),
        )
        p = given.item_shares[w].prod(axis=1) * given.annotator_shares[z].prod(axis=1)
        for i, t, y in zip(rows.item, rows.annotator, rows.label, strict=True):
            p = p * given.labels[w[:, i], z[:, t], y]
        counts = np.zeros((2, 2, n_classes))
        for i, t, y in zip(rows.item, rows.annotator, rows.label, strict=True):
            np.add.at(counts[:, :, y], (w[:, i], z[:, t]), p)
        edges = Edges.of(rows)
        begun = PropagationState.start(
            edges, random.dirichlet(np.ones(2), size=n_items), random.dirichlet(np.ones(2), size=n_annotators)
        )
        found = propagate(edges, given, begun, sweeps=n_nodes, tolerance=0.0)
        np.testing.assert_allclose(found.items[:, 1], p @ w / p.sum(), atol=1e-9)
        np.testing.assert_allclose(found.annotators[:, 1], p @ z / p.sum(), atol=1e-9)
        assert found.log_evidence == pytest.approx(np.log(p.sum()), rel=1e-9)
        np.testing.assert_allclose(edge_counts(edges, given, found), counts / p.sum(), atol=1e-9)


def random_tree(random: np.random.Generator, n_items: int, n_annotators: int) -> np.ndarray:
    """Returns edges (item, annotator) that tie all nodes together without a way round: of all in a random order, those
    that join what was apart."""
    part = np.arange(n_items + n_annotators)
    edges: list[tuple[int, int]] = []
    for place in random.permutation(n_items * n_annotators):
        i, t = divmod(int(place), n_annotators)
        if part[i] != part[n_items + t]:
            part[part == part[i]] = part[n_items + t]
            edges.append((i, t))
    assert len(edges) == n_items + n_annotators - 1
    return np.array(edges)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_tree_em_never_loses(seed: int) -> None:
    """Where the E-step is exact and the M-step counts by edges, each step of EM raises evidence and prior together."""
    random = SeedStream(seed).numpy("tree")
    tied = random_tree(random, 30, 12)
    rows = Annotations.of(
        item=tied[:, 0],
        annotator=tied[:, 1],
        label=random.integers(N_CLASSES, size=len(tied)),
        n_items=30,
        n_annotators=12,
        n_classes=N_CLASSES,
    )
    model = PgmBp(
        graph=GraphPrior(item_clusters=3, annotator_clusters=2),
        restarts=1,
        edge_marginals=True,
        sweeps=100,
        sweep_tolerance=0.0,
    )
    data = TrainingData(annotations=rows, items=Items(n_items=30))
    objective = fit_one(model, data, FitContext(seeds=SeedStream(seed))).objective
    assert len(objective) > 2
    assert (np.diff(objective) >= -1e-9 * np.abs(objective[1:])).all()


def test_edges_marginals_are_refused_where_answers_carry_weights() -> None:
    rows = Annotations.of(
        item=np.array([0, 1]),
        annotator=np.array([0, 0]),
        label=np.array([0, 1]),
        weight=np.array([1.0, 2.0]),
        n_items=2,
        n_annotators=1,
        n_classes=2,
    )
    with pytest.raises(BadInput, match="got answers with weights"):
        fit_one(
            PgmBp(edge_marginals=True),
            TrainingData(annotations=rows, items=Items(n_items=2)),
            FitContext(seeds=SeedStream(0), report=no_op),
        )


def test_restarts_race_and_those_behind_are_given_up() -> None:
    """Each restart's own course is known from a fit of one restart that has its seeds."""
    assert race(10, 60) == [(9, 4), (20, 2), (60, 1)]
    assert race(1, 60) == [(9, 1), (20, 1), (60, 1)]
    random = SeedStream(20).numpy("rows")
    item, annotator = np.repeat(np.arange(40), 5), random.integers(0, 12, 200)
    rows = Annotations.of(
        item=item,
        annotator=annotator,
        label=(item + annotator) % N_CLASSES,  # more kinds of both than clusters: many ways to be half right
        n_items=40,
        n_annotators=12,
        n_classes=N_CLASSES,
    )
    model = PgmBp(graph=GraphPrior(item_clusters=3, annotator_clusters=2), restarts=10, tolerance=0.0)
    edges, seeds, reporter = ActiveCrowd.of(rows).edges, SeedStream(1), RestartReporter(no_op)
    runs = [model._start(edges, seeds.child(f"restart {restart}")) for restart in range(10)]
    for run in runs:
        model._advance(run, edges, 60, reporter)
    alive = list(runs)
    for step, kept in ((9, 4), (20, 2)):
        alive = sorted(alive, key=lambda run: -run.objective[min(step, len(run.objective)) - 1])[:kept]
    steps: list[int] = []

    def note(step: int, objective: float, predictor: object = None) -> bool:
        steps.append(step)
        return True

    found = fit_one(
        model, TrainingData(annotations=rows, items=Items(n_items=40)), FitContext(seeds=seeds, report=note)
    )
    assert found.objective.tolist() == max(alive, key=lambda run: run.value).objective
    assert 60 < steps[-1] <= 10 * 9 + 4 * 11 + 2 * 40
    assert len({round(run.value, 3) for run in runs}) > 3  # there is something to choose


def test_product_counts_equal_loops() -> None:
    rows = [(0, 0, 1), (0, 0, 1), (0, 1, 2), (1, 1, 0), (2, 3, 0), (2, 2, 1)]
    edges = Edges.of(annotations(rows))
    beliefs = start(edges, 3)
    expected = np.zeros((N_CLUSTERS, N_ANNOTATOR_CLUSTERS, N_CLASSES))
    for i, t, y in rows:
        for g in range(N_CLUSTERS):
            for j in range(N_ANNOTATOR_CLUSTERS):
                expected[g, j, y] += beliefs.items[i, g] * beliefs.annotators[t, j]
    np.testing.assert_allclose(edges.product_counts(beliefs.items, beliefs.annotators), expected, atol=1e-12)


def test_whole_weights_count_as_repeats() -> None:
    """On a tree: a weight of two on a leaf's only edge is the same as two annotators' cavities being the prior."""
    once = Annotations.of(
        item=np.array([0, 1]),
        annotator=np.array([0, 0]),
        label=np.array([1, 2]),
        weight=np.array([2.0, 1.0]),
        n_items=2,
        n_annotators=1,
        n_classes=N_CLASSES,
    )
    twice = Annotations.of(
        item=np.array([0, 0, 1]),
        annotator=np.array([0, 0, 0]),
        label=np.array([1, 1, 2]),
        n_items=2,
        n_annotators=1,
        n_classes=N_CLASSES,
    )
    model = PgmBp(graph=GraphPrior(item_clusters=2, annotator_clusters=1), restarts=1, iterations=5, snap="soft")
    fits = [
        fit_one(model, TrainingData(annotations=rows, items=Items(n_items=2)), FitContext(seeds=SeedStream(0)))
        for rows in (once, twice)
    ]
    np.testing.assert_allclose(fits[0].item_probs, fits[1].item_probs, atol=1e-9)


@pytest.mark.parametrize("weight", [1.0, 50.0, 5_000.0])
def test_heavy_answers_do_not_underflow(weight: float) -> None:
    random = SeedStream(10).numpy("rows")
    rows = Annotations.of(
        item=random.integers(0, 4, 40),
        annotator=random.integers(0, 4, 40),
        label=random.integers(0, N_CLASSES, 40),
        weight=np.full(40, weight),
        n_items=4,
        n_annotators=4,
        n_classes=N_CLASSES,
    )
    edges = Edges.of(rows)
    found = propagate(edges, parameters(1), start(edges, 2), sweeps=5, tolerance=0.0)
    assert np.isfinite(found.log_evidence)
    for beliefs in (found.items, found.annotators, found.cavities, found.item_cavities):
        np.testing.assert_allclose(np.sum(beliefs, axis=1), 1.0)


def test_scores_of_clusters_equal_the_formula() -> None:
    given = parameters(6)
    clusters = Clusters(
        item_shares=given.item_shares,
        annotator_shares=given.annotator_shares,
        annotator_mix=np.array([0.9, 0.1]),
        labels=given.labels,
        distributions=np.einsum("l,glk->gk", np.array([0.9, 0.1]), given.labels),
    )
    probs = SeedStream(7).numpy("probs").dirichlet(np.ones(N_CLASSES), size=5)
    found = clusters.scores(probs, 10.0)
    for i in range(5):
        for g in range(N_CLUSTERS):
            said = 0.9 * given.labels[g, 0] + 0.1 * given.labels[g, 1]
            assert found[i, g] == pytest.approx(np.log(given.item_shares[g] * np.prod(said ** (10.0 * probs[i]))))


def test_what_a_cluster_is_labelled_with_snaps_to_it() -> None:
    """Annotators who contradict each other about items of two kinds: a third kind, of which both say anything, must not
    take items that look like a mix."""
    sure, unsure = np.array([0.9, 0.05, 0.05]), np.full(3, 1 / 3)
    labels = np.array([[sure, sure[[1, 0, 2]]], [sure[[1, 2, 0]], sure[[1, 0, 2]]], [unsure, unsure]])
    mix = np.array([0.5, 0.5])
    clusters = Clusters(
        item_shares=np.full(3, 1 / 3),
        annotator_shares=mix,
        annotator_mix=mix,
        labels=labels,
        distributions=np.einsum("l,glk->gk", mix, labels),
    )
    assert clusters.scores(clusters.distributions, 10.0).argmax(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("model", [pytest.param("fmm-guided", marks=pytest.mark.long), "pgm-bp-guided"])
def test_a_prediction_stands_for_as_many_answers_as_their_weights_make(model: str) -> None:
    item, annotator = (index.ravel() for index in np.indices((12, 2)))
    rows = Annotations.of(
        item=item, annotator=annotator, label=item % 2, weight=np.full(24, 3.0), n_items=14, n_annotators=2, n_classes=2
    )
    features = np.eye(2, dtype=np.float32)[np.arange(14) % 2]
    data = TrainingData(annotations=rows, items=Items(n_items=14, features=features))
    built = build_model(model, {"item_clusters": 2, "restarts": 1, "iterations": 5, "epochs": 1})
    fitted = fit_one(built, data, FitContext(seeds=SeedStream(0)))
    assert fitted.predictor.predictor.count == pytest.approx(6.0)  # behind the scale of the features


def test_hard_snap_shares_ties() -> None:
    distributions = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    memberships = np.array([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(projected(memberships, distributions, "hard"), [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(projected(memberships, distributions, "soft"), [[0.5, 0.5], [0.45, 0.55]])


def test_clusters_that_are_there_are_found() -> None:
    """Two kinds of items and two of annotators, one of which always says the opposite: far apart, many answers."""
    random = SeedStream(8).numpy("crowd")
    kinds, contrary = np.arange(40) % 2, np.arange(30) % 3 == 0
    item, annotator = (index.ravel() for index in np.indices((40, 30)))
    right = random.random(item.size) < 0.9
    label = (kinds[item] + contrary[annotator] + ~right) % 2
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=40, n_annotators=30, n_classes=2)
    found = fit_one(
        PgmBp(graph=GraphPrior(item_clusters=2, annotator_clusters=2)),
        TrainingData(annotations=rows, items=Items(n_items=40)),
        FitContext(seeds=SeedStream(0)),
    )
    # A whole crowd of which a third is contrary says the item's kind with 2/3 * 0.9 + 1/3 * 0.1.
    said = found.item_probs[np.arange(40), kinds]
    np.testing.assert_allclose(said, 0.9 * 2 / 3 + 0.1 / 3, atol=0.05)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(build_model("fmm-guided", {"item_clusters": 2, **CLASSIFIER}), id="fmm-guided"),
        pytest.param(
            build_model(
                "pgm-bp-guided", {"item_clusters": 2, "annotator_clusters": 2, "test_snap": "soft", **CLASSIFIER}
            ),
            id="pgm-bp-guided",
            marks=pytest.mark.long,
        ),
        pytest.param(
            build_model(
                "pgm-annealing-guided", {"item_clusters": 2, "annotator_clusters": 2, "kappa": 50.0, **CLASSIFIER}
            ),
            id="pgm-annealing-guided",
            marks=pytest.mark.long,
        ),
    ],
)
def test_unseen_items_get_the_distribution_of_their_cluster(
    model: Any,
) -> None:
    """Two clouds of items far apart, whose answers are distributed like (.7, .3, 0) and (0, .2, .8)."""
    random = SeedStream(9).numpy("items")
    kinds = np.arange(80) % 2
    features = (4.0 * kinds[:, None] - 2.0 + 0.3 * random.standard_normal((80, 3))).astype(np.float32)
    truth = np.array([[0.7, 0.3, 0.0], [0.0, 0.2, 0.8]])
    item, annotator = (index.ravel() for index in np.indices((80, 20)))
    label = np.array([random.choice(3, p=truth[kinds[i]]) for i in item])
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=80, n_annotators=20, n_classes=3)
    data = TrainingData(annotations=rows, items=Items(n_items=80, features=features))
    predictor = fit_one(model, data, FitContext(seeds=SeedStream(0))).predictor
    assert predictor is not None
    assert predictor.uses[0] == model.guided.test_snap
    assert sorted(predictor.uses) == ["hard", "none", "soft"]
    unseen = Items(n_items=2, features=np.array([[-2.0] * 3, [2.0] * 3], dtype=np.float32))
    for use in predictor.uses:
        np.testing.assert_allclose(predictor.predict(unseen, use), truth, atol=0.1, err_msg=use)
