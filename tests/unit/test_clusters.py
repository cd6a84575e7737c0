"""What a user asks of clusters: who belongs where, what a new annotator would say; and what must never choose one."""

from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.data import splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames, TrainingData
from crowdsweep.errors import BadInput
from crowdsweep.models.clusters import ClusteredCrowd, Clusters, effective_number
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._unseen_annotator import ANSWERS, Descent, infer_annotator
from crowdsweep.models.joint.ldl_nm import LdlNm
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

GRAPHS = ("fmm", "pgm-bp", "pgm-annealing")
LABELS = np.array([[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], [[0.2, 0.6, 0.2], [0.3, 0.3, 0.4]]])


def crowd() -> ClusteredCrowd:
    """Three items and two annotators of a model whose parameters are known."""
    return ClusteredCrowd(
        clusters=Clusters(
            item_shares=np.array([0.4, 0.6]),
            annotator_shares=np.array([0.45, 0.55]),
            annotator_mix=np.array([0.3, 0.7]),
            labels=LABELS,
            distributions=np.einsum("l,glk->gk", np.array([0.3, 0.7]), LABELS),
        ),
        items=np.array([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5]]),
        annotators=np.array([[0.9, 0.1], [0.25, 0.75]]),
    )


def test_a_new_annotators_clusters_equal_loops() -> None:
    known, items, labels = crowd(), np.array([0, 1, 1]), np.array([2, 1, 0])
    expected = known.clusters.annotator_mix.copy()
    for z in range(2):
        for i, y in zip(items, labels, strict=True):
            expected[z] *= sum(known.items[i, g] * LABELS[g, z, y] for g in range(2))
    found = known.new_annotator(items, labels)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)
    nothing = np.array([], dtype=np.int64)
    np.testing.assert_allclose(known.new_annotator(nothing, nothing), known.clusters.annotator_mix)


def test_a_new_items_clusters_equal_loops() -> None:
    known, annotators, labels = crowd(), np.array([1, 0]), np.array([0, 0])
    expected = known.clusters.item_shares.copy()
    for g in range(2):
        for t, y in zip(annotators, labels, strict=True):
            expected[g] *= sum(known.annotators[t, z] * LABELS[g, z, y] for z in range(2))
    np.testing.assert_allclose(known.new_item(annotators, labels), expected / expected.sum(), atol=1e-12)


def test_what_annotators_would_say_equals_loops() -> None:
    known, z = crowd(), np.array([0.35, 0.65])
    items = np.array([2, 0, 1], dtype=np.int32)
    expected = np.zeros((3, 3))
    for row, i in enumerate(items):
        for g in range(2):
            for place in range(2):
                expected[row] += known.items[i, g] * z[place] * LABELS[g, place]
    np.testing.assert_allclose(known.answers(items, z), expected, atol=1e-12)
    one = known.label_probs(items, np.ones(3, dtype=np.int32))
    np.testing.assert_allclose(one, known.answers(items, known.annotators[1]), atol=1e-12)


def fitted(model: str) -> FitResult:
    """Two kinds of items; two of annotators, who contradict each other (fmm: who all agree)."""
    random = SeedStream(0).numpy("crowd")
    item, annotator = (codes.ravel() for codes in np.indices((40, 12)))
    label = (item % 2 + (annotator % 3 == 0) * (model != "fmm") + (random.random(len(item)) < 0.05)) % 2
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=40, n_annotators=12, n_classes=2)
    sizes = {"item_clusters": 2} if model == "fmm" else {"item_clusters": 2, "annotator_clusters": 2}
    data = TrainingData(annotations=rows, items=Items(n_items=40))
    return fit_one(build_model(model, {**sizes, "restarts": 5}), data, FitContext(seeds=SeedStream(0)))


@pytest.mark.parametrize("model", GRAPHS)
def test_a_fit_answers_for_somebody_new(model: str) -> None:
    known = ClusteredCrowd.of(fitted(model).extras)
    kinds = known.items.argmax(axis=1)
    assert (kinds[::2] == kinds[0]).all()
    assert (kinds[1::2] == 1 - kinds[0]).all()
    items, rest = np.arange(10), np.arange(10, 40)
    for contrary in (0,) if model == "fmm" else (0, 1):
        somebody = known.new_annotator(items, (items + contrary) % 2)
        said = known.answers(rest, somebody).argmax(axis=1)
        np.testing.assert_array_equal(said, (rest + contrary) % 2)
        if model != "fmm":
            group = known.annotators[[0, 3]] if contrary else known.annotators[[1, 2]]
            assert (group.argmax(axis=1) == somebody.argmax()).all()
    anybody = known.new_item(np.arange(12), (np.arange(12) % 3 == 0).astype(int) * (model != "fmm"))
    assert anybody.argmax() == kinds[0]


@pytest.mark.parametrize("model", ["pgm-bp", "pgm-annealing"])
def test_clusters_that_nobody_is_in_do_not_speak_for_the_crowd(model: str) -> None:
    """Three annotators who agree, ten clusters for them: what the items are labelled with, and what somebody new is
    expected to say, is what the three say."""
    item, annotator = (codes.ravel() for codes in np.indices((60, 3)))
    rows = Annotations.of(item=item, annotator=annotator, label=item % 3, n_items=60, n_annotators=3, n_classes=3)
    data = TrainingData(annotations=rows, items=Items(n_items=60))
    found = fit_one(build_model(model, {}), data, FitContext(seeds=SeedStream(0)))
    assert found.item_probs[np.arange(60), np.arange(60) % 3].mean() > 0.85
    known = ClusteredCrowd.of(found.extras)
    somebody = known.new_annotator(np.array([0]), np.array([0]))
    assert known.answers(np.arange(1, 60), somebody)[np.arange(59), np.arange(1, 60) % 3].mean() > 0.85


def test_arrays_of_another_model_are_refused() -> None:
    with pytest.raises(BadInput, match="item_memberships is missing among class_shares"):
        ClusteredCrowd.of({"class_shares": np.ones(2)})


def test_the_effective_number_of_clusters() -> None:
    assert effective_number(np.array([5.0, 5.0, 0.0])) == pytest.approx(2.0)
    assert effective_number(np.array([7.0])) == pytest.approx(1.0)


@pytest.mark.parametrize("model", [f"{graph}-guided" for graph in GRAPHS])
def test_a_test_items_own_labels_never_choose_its_cluster(model: str) -> None:
    """Whatever was said of test items, what is predicted for them stays to the last bit."""
    random = SeedStream(1).numpy("items")
    gold = np.arange(60) % 2
    features = (gold[:, None] + 0.3 * random.standard_normal((60, 3))).astype(np.float32)
    split = np.where(np.arange(60) < 40, 1, 3).astype(np.int8)
    item, annotator = (codes.ravel() for codes in np.indices((60, 5)))
    label = np.where(random.random(len(item)) < 0.8, gold[item], 1 - gold[item])

    def predicted(labels: np.ndarray) -> np.ndarray:
        dataset = CrowdDataset(
            name="items",
            annotations=Annotations.of(
                item=item, annotator=annotator, label=labels, n_items=60, n_annotators=5, n_classes=2
            ),
            items=Items(n_items=60, features=features),
            split=split,
            gold=Gold(item=np.empty(0, np.int32), label=np.empty(0, np.int32)),
            item_names=NumberedNames("item", 60),
            annotator_names=NumberedNames("annotator", 5),
            class_names=("no", "yes"),
            params={},
        )
        trial = splits.prepare(dataset, {}, 0)
        test = trial.evaluation["test"]
        np.testing.assert_allclose(test.reference[:, 1], np.bincount(item, labels)[40:] / 5)  # what it is scored by
        built = build_model(model, {"restarts": 2, "iterations": 20, "epochs": 5, "item_clusters": 3, "hidden": [8]})
        predictor = fit_one(built, trial.training, FitContext(seeds=SeedStream(0))).predictor
        assert predictor is not None
        return np.stack([predictor.predict(test.items, use) for use in predictor.uses])

    np.testing.assert_array_equal(predicted(label), predicted(np.where(item < 40, label, 1 - label)))


@pytest.mark.long
def test_an_unseen_annotator_is_told_by_a_few_answers() -> None:
    """Two kinds of annotators contradict each other; from ten answers algorithm 4 finds of which kind a new one is."""
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 5)).astype(np.float32)
    truth = (features[:, 0] > 0).astype(np.int64)
    item, annotator = np.repeat(np.arange(400), 8), np.tile(np.arange(8), 400)
    label = np.where(annotator < 4, truth[item], 1 - truth[item])
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=400, n_annotators=8, n_classes=2)
    data = TrainingData(annotations=rows, items=Items(n_items=400, features=features))
    model = LdlNm(
        item_weight=0.0,
        annotator_weight=0.0,
        dropout=0.0,
        epochs=40,
        patience=40,
        learning_rate=5e-3,
        standardise=False,
    )
    ensemble = fit_one(model, data, FitContext(seeds=SeedStream(0))).predictor
    seen, others = np.arange(10), np.arange(10, 400)
    for kind in (truth, 1 - truth):
        found = infer_annotator(
            ensemble, data.items.take(seen), np.eye(2)[kind[seen]], Descent(head="label", step_size=0.5)
        )
        assert (np.diff(found.divergences) < 0).all()
        assert found.divergences[-1] < 0.5 * found.divergences[0]
        assert (found.answers(data.items.take(others)).argmax(axis=1) == kind[others]).mean() > 0.9


def contradicting(annotators: int, seed: int = 0) -> TrainingData:
    """400 items of five features; the first half of the annotators answer by the first feature, the others contradict
    them; five answers an item."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(400, 5)).astype(np.float32)
    truth = (features[:, 0] > 0).astype(np.int64)
    annotator = np.concatenate([random.choice(annotators, 5, replace=False) for _ in range(400)])
    item = np.repeat(np.arange(400), 5)
    label = np.where(annotator < annotators // 2, truth[item], 1 - truth[item])
    rows = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=400, n_annotators=annotators, n_classes=2
    )
    return TrainingData(annotations=rows, items=Items(n_items=400, features=features))


@pytest.mark.long
def test_annotators_left_out_are_predicted_from_half_of_their_answers() -> None:
    """The crowd as a whole answers one way as often as the other; who an annotator is decides."""
    data = contradicting(40)
    model = LdlNm(
        epochs=40, steps=0, patience=40, learning_rate=5e-3, dropout=0.0, unseen_annotators=0.25, standardise=False
    )
    fitted = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    unseen, loglik = fitted.extras["unseen"], fitted.extras["unseen_loglik"]
    assert len(unseen) == len(set(unseen)) == 10  # a quarter; all of them answered ten items or more
    assert loglik.shape == (10, 2)
    assert abs(loglik[:, 0].mean() - np.log(0.5)) < 0.2
    assert loglik[:, 1].mean() > np.log(0.8)
    for place, annotator in enumerate(unseen):  # the naive twin: one annotator at a time
        mine = data.annotations.take(data.annotations.annotator == annotator)
        told, asked = mine.item[::2], mine.item[1::2]
        wanted, given = (np.eye(2)[mine.label[part]] for part in (np.s_[::2], np.s_[1::2]))
        alone = infer_annotator(fitted.predictor, data.items.take(told), wanted, ANSWERS)
        said = np.log((alone.answers(data.items.take(asked)) * given).sum(axis=1)).mean()
        assert loglik[place, 1] == pytest.approx(said, abs=1e-4)


def test_an_annotator_who_is_left_out_teaches_nothing() -> None:
    """Rows of theirs that count for seven change nothing in what is said of the items; they are unknown annotators."""
    data = contradicting(40)
    rows = data.annotations

    def fitted(weight: np.ndarray) -> FitResult:
        weighted = Annotations.of(
            item=rows.item,
            annotator=rows.annotator,
            label=rows.label,
            weight=weight,
            n_items=400,
            n_annotators=40,
            n_classes=2,
        )
        model = LdlNm(epochs=3, steps=0, unseen_annotators=0.25)
        return fit_one(model, TrainingData(annotations=weighted, items=data.items), FitContext(seeds=SeedStream(0)))

    first = fitted(np.ones(len(rows)))
    left_out = np.isin(rows.annotator, first.extras["unseen"])
    other = fitted(np.where(left_out, 7.0, 1.0))
    np.testing.assert_array_equal(other.extras["unseen"], first.extras["unseen"])
    np.testing.assert_array_equal(other.item_probs, first.item_probs)
    assert not np.array_equal(fitted(np.where(left_out, 1.0, 7.0)).item_probs, first.item_probs)
    assert first.label_probs is not None
    items = np.arange(5, dtype=np.int32)
    said = first.label_probs(items, np.full(5, first.extras["unseen"][0]))
    np.testing.assert_allclose(said, first.predictor.predict(data.items.take(items), "ensemble"))


@pytest.mark.long
def test_the_divergence_of_algorithm_4_is_that_of_the_head() -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(30, 4)).astype(np.float32)
    item, annotator = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    rows = Annotations.of(
        item=item, annotator=annotator, label=random.integers(0, 3, 90), n_items=30, n_annotators=3, n_classes=3
    )
    data = TrainingData(annotations=rows, items=Items(n_items=30, features=features))
    ensemble = fit_one(LdlNm(epochs=2, standardise=False), data, FitContext(seeds=SeedStream(0))).predictor
    wanted = rows.label_distribution()
    start = infer_annotator(ensemble, data.items, wanted)
    nobody = replace(ensemble, annotators=np.zeros((1, 16), np.float32))
    said = nobody.predict(data.items, "item_head")
    divergence = np.where(wanted > 0, wanted * np.log(np.where(wanted > 0, wanted, 1) / said), 0).sum(axis=1).mean()
    assert start.divergences[0] == pytest.approx(divergence, abs=1e-5)
    assert start.divergences[-1] < start.divergences[0]
    np.testing.assert_allclose(start.histogram(data.items).sum(axis=1), 1.0, atol=1e-6)
    with pytest.raises(BadInput, match="at least one item"):
        infer_annotator(ensemble, data.items.take(np.arange(0)), wanted[:0])
