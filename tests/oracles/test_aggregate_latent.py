"""Aggregators with parameters of annotators and items: what they push up, written out with explicit loops, is what they
report, and where they end it cannot be raised by changing any parameter a little."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naive_answers import fit, table_of
from scipy.special import digamma

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.metrics.items import accuracy_of_each
from crowdsweep.models import registered
from crowdsweep.models.aggregate.mmce import SoftmaxAnnotators
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

KINDS = [{}, {"weights": True}, {"soft": True}]
IDLE = 6  # the annotator of `random_crowd` without answers; its item without any is 11


def random_crowd(seed: int, *, weights: bool = False, soft: bool = False, n_classes: int = 3) -> Annotations:
    """A small odd crowd: repeats, an item and an annotator without answers."""
    random = SeedStream(seed).numpy("crowd")
    n_rows = 60
    item = random.integers(0, 11, n_rows)
    right = random.random(n_rows) < 0.7
    return Annotations.of(
        item=item,
        annotator=random.integers(0, 6, n_rows),
        label=np.where(right, item % n_classes, random.integers(0, n_classes, n_rows)),
        n_items=12,
        n_annotators=7,
        n_classes=n_classes,
        weight=random.uniform(0.2, 3, n_rows) if weights else None,
        probability=random.uniform(0.3, 1, n_rows) if soft else None,
    )


def evidence(
    table: np.ndarray, prior: list[float], prob: Callable[[int, int, int, int], float]
) -> tuple[float, np.ndarray]:
    """Returns log p(answers), and p(class | answers) of each item.

    Args:
        table: of the answers.
        prior: of the classes.
        prob: of a label, given annotator, item, true class and label.
    """
    n_items, n_annotators, n_classes = table.shape
    total, posterior = 0.0, np.zeros((n_items, n_classes))
    for i in range(n_items):
        joint = [math.log(prior[k]) for k in range(n_classes)]
        for t in range(n_annotators):
            for label in range(n_classes):
                if table[i, t, label] > 0:
                    for k in range(n_classes):
                        joint[k] += table[i, t, label] * math.log(prob(t, i, k, label))
        mass = sum(map(math.exp, joint))
        posterior[i] = [math.exp(j) / mass for j in joint]
        total += math.log(mass)
    return total, posterior


def must_be_stationary(value: Callable[[np.ndarray], float], at: np.ndarray, atol: float) -> None:
    """Checks that no parameter changed alone raises the value, to first order."""
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = 1e-4
        slope = (value(at + step) - value(at - step)) / 2e-4
        assert abs(slope) < atol, f"parameter {place}: slope {slope}"


def coin(right: float, n_classes: int) -> Callable[[int, int], float]:
    return lambda k, label: right if k == label else (1 - right) / (n_classes - 1)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_glad_ends_where_its_posterior_is_largest(kind: dict[str, bool]) -> None:
    rows = random_crowd(1, **kind)
    table = table_of(rows)
    spreads = {"ability_spread": 0.8, "easiness_spread": 1.5}

    def value(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        ability, log_easiness = parameters[:6], parameters[6:]

        def prob(t: int, i: int, k: int, label: int) -> float:
            return coin(1 / (1 + math.exp(-ability[t] * math.exp(log_easiness[i]))), 3)(k, label)

        total, posterior = evidence(table, [1 / 3] * 3, prob)
        total -= sum((a - 1) ** 2 for a in ability) / (2 * 0.8**2)
        total -= sum((b - 1) ** 2 for b in log_easiness) / (2 * 1.5**2)
        return total, posterior

    found = fit("glad", rows, iterations=1000, tolerance=0.0, **spreads)
    end = np.concatenate([found.extras["ability"][:6], np.log(found.extras["easiness"])])
    total, posterior = value(end)
    assert found.objective[-1] == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    must_be_stationary(lambda parameters: value(parameters)[0], end, atol=1e-3)
    assert found.label_probs is not None
    right = 1 / (1 + math.exp(-end[2] * math.exp(end[6 + 4])))
    expected = [sum(posterior[4, k] * coin(right, 3)(k, label) for k in range(3)) for label in range(3)]
    np.testing.assert_allclose(found.label_probs(np.array([4], np.int32), np.array([2], np.int32)), [expected])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("dataset", ["bluebirds", pytest.param("temporal-ordering", marks=pytest.mark.long)])
def test_glad_labels_as_crowd_kit_does(dataset: str, shared_data: Path) -> None:
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    pandas = pytest.importorskip("pandas")
    training = splits.prepare(catalogue.load(str(shared_data / dataset), {"features": None}), {"training": "all"}, 0)
    rows = training.training.annotations
    table = pandas.DataFrame({"task": rows.item, "worker": rows.annotator, "label": rows.label})
    theirs = peer.GLAD(n_iter=100).fit_predict(table).reindex(range(rows.n_items)).to_numpy()
    found = fit_one(registered.build_model("glad", {}), training.training, FitContext(seeds=SeedStream(0)))
    assert np.mean(found.item_probs.argmax(axis=1) == theirs) >= 0.99


def log_beta(counts: list[float]) -> float:
    return sum(map(math.lgamma, counts)) - math.lgamma(sum(counts))


def divergence(counts: list[float], prior: list[float]) -> float:
    """Returns the Kullback-Leibler divergence of two Dirichlet distributions."""
    logs = expected_logs(counts)
    gain = sum((c - p) * log for c, p, log in zip(counts, prior, logs, strict=True))
    return log_beta(prior) - log_beta(counts) + gain


def expected_logs(counts: list[float]) -> list[float]:
    total = float(digamma(sum(counts)))
    return [float(digamma(c)) - total for c in counts]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_mace_equals_its_dense_twin(kind: dict[str, bool]) -> None:
    rows = random_crowd(2, **kind)
    table = table_of(rows)
    cells = [(i, t, label) for i in range(12) for t in range(6) for label in range(3) if table[i, t, label] > 0]
    posterior = [table[i].sum(axis=0) / table[i].sum() if table[i].sum() > 0 else np.full(3, 1 / 3) for i in range(12)]
    knowing = np.full((6, 3), 3 / 4)
    objective: list[float] = []
    for _ in range(5):
        kinds, labels = np.full((6, 2), 0.5), np.full((6, 3), 2.0)  # spams, knows
        for i, t, label in cells:
            knows = table[i, t, label] * posterior[i][label] * knowing[t, label]
            kinds[t] += table[i, t, label] - knows, knows
            labels[t, label] += table[i, t, label] - knows
        spams = [[math.exp(log) for log in expected_logs(own.tolist())] for own in kinds]
        spam = [[math.exp(log) for log in expected_logs(own.tolist())] for own in labels]
        knowing = np.array([[s[1] / (s[1] + s[0] * x) for x in xi] for s, xi in zip(spams, spam, strict=True)])

        def prob(t: int, i: int, k: int, label: int, spams: list = spams, spam: list = spam) -> float:
            return spams[t][0] * spam[t][label] + spams[t][1] * (k == label)

        total, found_posterior = evidence(table, [1 / 3] * 3, prob)
        posterior = list(found_posterior)
        total -= sum(divergence(own, [0.5, 0.5]) for own in kinds.tolist())
        objective.append(total - sum(divergence(own, [2.0] * 3) for own in labels.tolist()))
    found = fit("mace", rows, label_prior=2.0, iterations=5, tolerance=0.0)
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    # The matrices are those of the counts at the last posterior.
    kinds, labels = np.full((6, 2), 0.5), np.full((6, 3), 2.0)
    for i, t, label in cells:
        knows = table[i, t, label] * posterior[i][label] * knowing[t, label]
        kinds[t] += table[i, t, label] - knows, knows
        labels[t, label] += table[i, t, label] - knows
    spamming = kinds[:, 0] / kinds.sum(axis=1)
    expected = [
        (1 - s) * np.eye(3) + s * np.tile(own / own.sum(), (3, 1)) for s, own in zip(spamming, labels, strict=True)
    ]
    given = table.sum(axis=(0, 2))[:6]
    expected.append(np.average(expected, axis=0, weights=given))
    assert found.annotators is not None
    np.testing.assert_allclose(found.annotators.confusion(np.arange(7)), expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_hierarchical_dawid_skene_equals_its_dense_twin(kind: dict[str, bool]) -> None:
    rows, smoothing = random_crowd(3, **kind), 0.1
    table = table_of(rows)
    posterior = np.array([own.sum(axis=0) / own.sum() if own.sum() > 0 else np.full(3, 1 / 3) for own in table])
    together = np.einsum("itl,ik->kl", table, posterior) + 1
    pseudo = 10 * together / together.sum(axis=1, keepdims=True)
    objective: list[float] = []
    for _ in range(4):
        shares = posterior[:11].mean(axis=0)
        counts = np.einsum("itl,ik->tkl", table, posterior)[:6]
        for _ in range(5):
            updated = np.zeros((3, 3))
            for k in range(3):
                whole = pseudo[k].sum()
                loss = sum(digamma(own[k].sum() + whole) - digamma(whole) for own in counts) + smoothing * 3 / whole
                for label in range(3):
                    a = pseudo[k, label]
                    gain = sum(digamma(own[k, label] + a) - digamma(a) for own in counts)
                    updated[k, label] = (a * gain + smoothing) / loss
            pseudo = updated
        logs = [[expected_logs((own[k] + pseudo[k]).tolist()) for k in range(3)] for own in counts]
        total, posterior = evidence(
            table, shares.tolist(), lambda t, i, k, label, logs=logs: math.exp(logs[t][k][label])
        )
        for own in counts:
            total -= sum(divergence((own[k] + pseudo[k]).tolist(), pseudo[k].tolist()) for k in range(3))
        objective.append(total + smoothing * np.log(pseudo / pseudo.sum(axis=1, keepdims=True)).sum())
    found = fit("hierarchical-dawid-skene", rows, smoothing=smoothing, iterations=4, tolerance=0.0)
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    np.testing.assert_allclose(found.extras["concentration"], pseudo.sum(axis=1), rtol=1e-9)
    matrices = np.einsum("itl,ik->tkl", table, posterior) + pseudo  # nothing but the crowd's for the idle one
    matrices /= matrices.sum(axis=2, keepdims=True)
    assert found.annotators is not None
    np.testing.assert_allclose(found.annotators.confusion(np.arange(7)), matrices, atol=1e-9)


def crowd_of(accuracies: list[float]) -> Annotations:
    """Forty answers each to binary items, of annotators of these accuracies."""
    random = SeedStream(0).numpy("crowd")
    item, annotator = (codes.ravel() for codes in np.indices((40, len(accuracies))))
    right = random.random(len(item)) < np.array(accuracies)[annotator]
    return Annotations.of(
        item=item,
        annotator=annotator,
        label=np.where(right, item % 2, 1 - item % 2),
        n_items=40,
        n_annotators=len(accuracies),
        n_classes=2,
    )


def test_hierarchical_dawid_skene_learns_how_alike_annotators_are() -> None:
    alike = fit("hierarchical-dawid-skene", crowd_of([0.8] * 8), iterations=500)
    apart = fit("hierarchical-dawid-skene", crowd_of([0.55] * 4 + [0.99] * 4), iterations=500)
    assert alike.extras["concentration"].min() > 20 * apart.extras["concentration"].max()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_mmce_ends_where_its_penalised_likelihood_is_largest(kind: dict[str, bool]) -> None:
    rows = random_crowd(4, n_classes=2, **kind)
    table = table_of(rows)
    alpha, beta = 0.5 * 4, 0.5 * 4 * 11 / 6
    found = fit("mmce", rows, regularisation=0.5, iterations=3000, tolerance=0.0)
    assert isinstance(found.annotators, SoftmaxAnnotators)
    sigma, tau = found.annotators.logits(np.arange(6)), found.extras["item_matrices"]

    def softmax(logits: np.ndarray) -> np.ndarray:
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    def value(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        own, of_items = parameters[:24].reshape(6, 2, 2), parameters[24:].reshape(12, 2, 2)
        probs = [[softmax(a + b) for b in of_items] for a in own]
        total, posterior = evidence(table, [0.5, 0.5], lambda t, i, k, label: probs[t][i][k, label])
        return total - alpha / 2 * (own**2).sum() - beta / 2 * (of_items**2).sum(), posterior

    end = np.concatenate([sigma.ravel(), tau.ravel()])
    total, posterior = value(end)
    assert found.objective[-1] == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    must_be_stationary(lambda parameters: value(parameters)[0], end, atol=2e-3)
    assert found.label_probs is not None
    expected = posterior[4] @ softmax(sigma[2] + tau[4])
    np.testing.assert_allclose(found.label_probs(np.array([4], np.int32), np.array([2], np.int32)), [expected])


@pytest.mark.parametrize(("dataset", "expected"), [("bluebirds", 91.7), ("rte", 92.5)])
def test_mmce_labels_as_well_as_another_implementation(dataset: str, expected: float, shared_data: Path) -> None:
    """Computed apart from this code, by L-BFGS."""
    trial = splits.prepare(catalogue.load(str(shared_data / dataset), {"features": None}), {"training": "all"}, 0)
    train = trial.evaluation["train"]
    found = fit_one(registered.build_model("mmce", {}), trial.training, FitContext(seeds=SeedStream(0)))
    reference, scored = train.reference[train.has_gold], train.scored[train.has_gold]
    assert 100 * accuracy_of_each(reference, found.item_probs[scored]).mean() == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_snorkel_ends_where_its_penalised_likelihood_is_largest(kind: dict[str, bool]) -> None:
    rows = random_crowd(5, **kind)
    table, penalty = table_of(rows), 0.3
    found = fit("snorkel", rows, penalty=penalty, iterations=2000, tolerance=0.0)

    def value(agrees: np.ndarray) -> tuple[float, np.ndarray]:
        def prob(t: int, i: int, k: int, label: int) -> float:
            return math.exp(agrees[t] * (k == label)) / sum(math.exp(agrees[t] * (k == other)) for other in range(3))

        total, posterior = evidence(table, [1 / 3] * 3, prob)
        return total - 11 * penalty / 2 * float(agrees @ agrees), posterior

    accuracy = found.extras["annotator_accuracy"][:6]
    end = np.log(2 * accuracy / (1 - accuracy))
    total, posterior = value(end)
    assert found.objective[-1] == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    must_be_stationary(lambda agrees: value(agrees)[0], end, atol=2e-3)


def test_the_best_propensity_leaves_snorkels_accuracies_alone() -> None:
    """The paper's factors of one annotator, with abstentions: at the best beta only a label given tells of alpha."""

    def profile(alpha: float) -> float:
        betas = np.linspace(-6, 3, 9001)
        return float(np.max(12 * betas + 9 * alpha - 40 * np.log1p(np.exp(betas) * (np.exp(alpha) + 2))))

    constant = [profile(alpha) - 9 * alpha + 12 * math.log(math.exp(alpha) + 2) for alpha in (-1.0, 0.0, 0.7, 2.0)]
    np.testing.assert_allclose(constant, constant[0], atol=1e-4)
