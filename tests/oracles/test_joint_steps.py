"""E- and M-steps of cmm and dl-em against dense twins with explicit loops that follow the papers' formulas."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
import torch

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one, fit_unchecked
from crowdsweep.models.joint._label_clusters import LabelPoints, Starts
from crowdsweep.models.joint.cmm import CMM, GroupedAnnotators, GroupedCrowd
from crowdsweep.models.joint.dl_em import KnownCrowd
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

N_CLASSES, N_GROUPS = 3, 2
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def _crowd(seed, n_items=13, n_annotators=6, weighted=False):
    """Labels with a repeated pair, an idle annotator and an item without labels."""
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.integers(0, n_items - 1, 40), [0, 0]])
    annotator = np.concatenate([rng.integers(0, n_annotators - 1, 40), [1, 1]])
    label = np.concatenate([rng.integers(0, N_CLASSES, 40), [2, 2]])
    weight = rng.integers(1, 4, 42).astype(np.float32) if weighted else None
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        weight=weight,
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=N_CLASSES,
    )
    features = rng.normal(size=(n_items, 4)).astype(np.float32)
    return TrainingData(annotations=annotations, items=Items(n_items=n_items, features=features))


def _rows(data):
    a = data.annotations
    weight = np.ones(len(a)) if a.weight is None else a.weight
    return list(zip(a.item.tolist(), a.annotator.tolist(), a.label.tolist(), weight.tolist(), strict=True))


def _random_probs(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


# cmm


def _naive_cmm_e_step(data, probs, shares, matrices):
    """Returns Q[m, k, j] = sum_i r_ij q_ij(m, k), rbar[i, k] and the log-likelihood."""
    n_groups = len(shares)
    gathered = np.zeros((n_groups, N_CLASSES, N_CLASSES))
    targets = np.zeros((data.n_items, N_CLASSES))
    log_likelihood = 0.0
    for item, _, label, weight in _rows(data):
        joint = np.zeros((n_groups, N_CLASSES))
        for group in range(n_groups):
            for true in range(N_CLASSES):
                joint[group, true] = shares[group] * probs[item, true] * matrices[group, true, label]
        log_likelihood += weight * log(joint.sum())
        posterior = joint / joint.sum()
        for group in range(n_groups):
            for true in range(N_CLASSES):
                gathered[group, true, label] += weight * posterior[group, true]
                targets[item, true] += weight * posterior[group, true]
    return gathered, targets, log_likelihood


def _naive_cmm_m_step(gathered, smoothing):
    n_groups = len(gathered)
    shares = np.zeros(n_groups)
    matrices = np.zeros((n_groups, N_CLASSES, N_CLASSES))
    for group in range(n_groups):
        shares[group] = (gathered[group].sum() + smoothing) / (gathered.sum() + n_groups * smoothing)
        for true in range(N_CLASSES):
            mass = gathered[group, true].sum() + N_CLASSES * smoothing
            for label in range(N_CLASSES):
                matrices[group, true, label] = (
                    (gathered[group, true, label] + smoothing) / mass if mass else 1 / N_CLASSES
                )
    return shares, matrices


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_cmm_steps_equal_loops(smoothing, weighted):
    """Also beside replicas with other numbers of groups, and another smoothing."""
    rng = np.random.default_rng(0)
    sets = [_crowd(0, weighted=weighted), _crowd(1, n_items=9, weighted=weighted), _crowd(2, weighted=weighted)]
    n_groups, smoothings = (N_GROUPS, 1, 5), (smoothing, 0.5, smoothing)
    models = [CMM(groups=own, smoothing=added) for own, added in zip(n_groups, smoothings, strict=True)]
    pairs = zip(sets, n_groups, strict=True)
    wanted = [Starts(part.annotations, own, SeedStream(0)).of_restart(0) for part, own in pairs]
    crowd = GroupedCrowd(models, sets, wanted, [0, 1, 2])
    before = [np.full_like(own, 1 / N_CLASSES) for own in wanted]
    for active in ([0, 1, 2], [0, 1, 2], [1, 2], [1]):
        changes = crowd.maximise(active)
        probs = _random_probs(rng, len(active), 13, N_CLASSES)
        targets, log_likelihoods = crowd.expect(active, torch.from_numpy(probs))
        for place, replica in enumerate(active):
            shares, matrices = _naive_cmm_m_step(wanted[replica], smoothings[replica])
            for found, own in zip(crowd.solution(replica), (shares, matrices), strict=True):
                np.testing.assert_allclose(found, own, **CLOSE)
            assert not crowd.shares[replica, n_groups[replica] :].any()
            change = np.abs(matrices - before[replica]) / np.maximum(before[replica], LOG_FLOOR)
            assert changes[place] == pytest.approx(change.mean(), rel=1e-9)
            before[replica] = matrices
            wanted[replica], rbar, log_likelihood = _naive_cmm_e_step(sets[replica], probs[place], shares, matrices)
            np.testing.assert_allclose(targets[place, : len(rbar)], rbar, **CLOSE)
            assert log_likelihoods[place] == pytest.approx(log_likelihood, rel=1e-9)


def test_cmm_starts_from_the_votes_and_the_clusters():
    data = _crowd(3)
    votes = data.annotations.label_distribution()
    clusters = LabelPoints.of(votes).clusters(N_GROUPS, SeedStream(5).child(2))
    wanted = np.zeros((N_GROUPS, N_CLASSES, N_CLASSES))
    for item, _, label, weight in _rows(data):
        for true in range(N_CLASSES):
            wanted[clusters[item, label], true, label] += weight * votes[item, true]
    np.testing.assert_allclose(Starts(data.annotations, N_GROUPS, SeedStream(5)).of_restart(2), wanted, **CLOSE)
    first = GroupedCrowd([CMM(groups=N_GROUPS)], [data], [wanted], [0]).first_targets()
    np.testing.assert_allclose(first[0], votes * data.annotations.labels_per_item[:, None], **CLOSE)
    uniform = CMM(groups=N_GROUPS, item_weighting="uniform")
    even = GroupedCrowd([uniform], [data], [wanted], [0]).first_targets()
    answered = data.annotations.labels_per_item > 0
    np.testing.assert_allclose(even[0][answered], votes[answered], **CLOSE)
    assert not even[0][~answered].any()


def test_clusters_part_labels_by_how_they_contradict_the_votes():
    votes = np.repeat(np.eye(3), 20, axis=0)
    clusters = LabelPoints.of(votes).clusters(2, SeedStream(0))
    agreeing = clusters[votes > 0]
    assert len(set(agreeing.tolist())) == 1  # a label that agrees with a unanimous item surprises nobody
    assert (
        LabelPoints.of(np.full((4, 3), 1 / 3)).clusters(5, SeedStream(0)).max() <= 2
    )  # more groups than different pairs


def test_restarts_begin_at_different_clusters():
    starts = Starts(_crowd(3).annotations, N_GROUPS, SeedStream(5))
    assert len({starts.of_restart(number).tobytes() for number in range(10)}) > 1
    np.testing.assert_array_equal(starts.of_restart(4), starts.of_restart(4))


def _anchored_by_votes(model, monkeypatch):
    """Fits a crowd whose first targets, which name the classes of the fit, are exchanged; returns gold and the fit."""
    rng = np.random.default_rng(0)
    gold = np.arange(60) % 3
    features = (3.0 * np.eye(3)[gold] + 0.1 * rng.normal(size=(60, 3))).astype(np.float32)
    item, annotator = (codes.ravel() for codes in np.indices((60, 5)))
    label = np.where(rng.random(len(item)) < 0.8, gold[item], rng.integers(0, 3, len(item)))
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=60, n_annotators=5, n_classes=3)
    data = TrainingData(annotations=rows, items=Items(n_items=60, features=features))
    first = {crowd: crowd.first_targets for crowd in (GroupedCrowd, KnownCrowd)}
    for crowd, targets in first.items():
        monkeypatch.setattr(crowd, "first_targets", lambda self, targets=targets: targets(self)[:, :, [2, 0, 1]])
    start = Starts.of_restart
    monkeypatch.setattr(Starts, "of_restart", lambda self, number: start(self, number)[:, [2, 0, 1]])
    maximise = KnownCrowd.maximise

    exchanged = set()

    def exchanged_once(self, active):
        if self not in exchanged:
            exchanged.add(self)
            self.posterior = self.posterior[:, [2, 0, 1]]
        return maximise(self, active)

    monkeypatch.setattr(KnownCrowd, "maximise", exchanged_once)
    heard = []

    def report(step, objective, predictor):
        heard.append(predictor())
        return True

    return gold, data, fit_one(model, data, FitContext(seeds=SeedStream(0), report=report)), heard[-1]


@pytest.mark.parametrize("name", ["cmm", "dl-em"])
def test_classes_that_came_out_exchanged_are_named_by_the_votes(name, monkeypatch):
    """The likelihood of a fit that calls 0 what is 2 is as high as any: the votes tell which class is which."""
    params = {"network": "linear", "learning_rate": 0.05, "iterations": 30, "restarts": 2, "steps": 0}
    params |= {"groups": 1} if name == "cmm" else {}
    gold, data, found, reported = _anchored_by_votes(build_model(name, params), monkeypatch)
    np.testing.assert_array_equal(found.item_probs.argmax(axis=1), gold)
    for predictor in (found.predictor, reported):
        np.testing.assert_array_equal(predictor.predict(data.items, "classifier").argmax(axis=1), gold)
    np.testing.assert_array_equal(
        found.annotators.confusion(np.arange(5)).argmax(axis=2), np.tile(np.arange(3), (5, 1))
    )
    item = np.arange(60, dtype=np.int32)
    np.testing.assert_array_equal(found.label_probs(item, np.zeros(60, np.int32)).argmax(axis=1), gold)


def test_annotators_of_a_mixture_equal_loops():
    rng = np.random.default_rng(1)
    data = _crowd(4, weighted=True)
    probs = _random_probs(rng, data.n_items, N_CLASSES)
    shares, matrices = rng.dirichlet(np.ones(N_GROUPS)), _random_probs(rng, N_GROUPS, N_CLASSES, N_CLASSES)
    annotators = GroupedAnnotators(annotations=data.annotations, probs=probs, shares=shares, matrices=matrices)
    for code in range(data.n_annotators):
        joint = [log(share) for share in shares]
        for item, annotator, label, weight in _rows(data):
            if annotator == code:
                for group in range(N_GROUPS):
                    joint[group] += weight * log(
                        sum(probs[item, k] * matrices[group, k, label] for k in range(N_CLASSES))
                    )
        members = np.array([exp(value - max(joint)) for value in joint])
        members /= members.sum()
        wanted = sum(member * matrix for member, matrix in zip(members, matrices, strict=True))
        np.testing.assert_allclose(annotators.confusion(np.array([code]))[0], wanted, **CLOSE)
    np.testing.assert_allclose(
        annotators.global_confusion(), shares[0] * matrices[0] + shares[1] * matrices[1], **CLOSE
    )


# dl-em


def _naive_dl_em_m_step(data, posterior, smoothing):
    counts = np.zeros((data.n_annotators, N_CLASSES, N_CLASSES))
    for item, annotator, label, weight in _rows(data):
        for true in range(N_CLASSES):
            counts[annotator, true, label] += weight * posterior[item, true]
    matrices = np.full_like(counts, 1 / N_CLASSES)
    for annotator in range(data.n_annotators):
        for true in range(N_CLASSES):
            mass = counts[annotator, true].sum() + N_CLASSES * smoothing
            if mass > 0:
                matrices[annotator, true] = (counts[annotator, true] + smoothing) / mass
    return matrices


def _naive_dl_em_e_step(data, probs, matrices):
    log_joint = np.log(np.maximum(probs, 1e-12))
    answered = np.zeros(data.n_items, dtype=bool)
    for item, annotator, label, weight in _rows(data):
        answered[item] = True
        for true in range(N_CLASSES):
            log_joint[item, true] += weight * log(max(matrices[annotator, true, label], 1e-12))
    posterior = np.zeros_like(log_joint)
    log_likelihood = 0.0
    for item in range(data.n_items):
        largest = log_joint[item].max()
        mass = sum(exp(value - largest) for value in log_joint[item])
        posterior[item] = np.exp(log_joint[item] - largest) / mass
        if answered[item]:
            log_likelihood += largest + log(mass)
    return posterior, log_likelihood


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_dl_em_steps_equal_loops(smoothing, weighted):
    rng = np.random.default_rng(2)
    sets = [
        _crowd(5, weighted=weighted),
        _crowd(6, n_items=9, n_annotators=4, weighted=weighted),
        _crowd(7, weighted=weighted),
    ]
    smoothings = np.array([smoothing, 0.5, smoothing])
    crowd = KnownCrowd(sets, smoothings)
    posteriors = [part.annotations.label_distribution() for part in sets]
    before = [_naive_dl_em_m_step(*of) for of in zip(sets, posteriors, smoothings, strict=True)]
    for active in ([0, 1, 2], [0, 1, 2], [0, 1], [1]):
        changes = crowd.maximise(active)
        probs = _random_probs(rng, len(active), 13, N_CLASSES)
        targets, log_likelihoods = crowd.expect(active, torch.from_numpy(probs))
        for place, replica in enumerate(active):
            data = sets[replica]
            matrices = _naive_dl_em_m_step(data, posteriors[replica], smoothings[replica])
            own = probs[place, : data.n_items]
            posteriors[replica], log_likelihood = _naive_dl_em_e_step(data, own, matrices)
            answered = data.annotations.labels_per_item > 0
            np.testing.assert_allclose(targets[place, : data.n_items][answered], posteriors[replica][answered], **CLOSE)
            assert not targets[place, : data.n_items][~answered].any()
            assert not targets[place, data.n_items :].any()
            assert log_likelihoods[place] == pytest.approx(log_likelihood, rel=1e-9)
            annotators, posterior = crowd.solution(replica)
            active_ones = np.flatnonzero(data.annotations.labels_per_annotator)
            np.testing.assert_allclose(annotators.confusion(active_ones), matrices[active_ones], **CLOSE)
            np.testing.assert_allclose(posterior, posteriors[replica], **CLOSE)
            if smoothings[replica] > 0:
                seen = data.annotations.labels_per_annotator > 0
                change = np.abs(matrices - before[replica])[seen] / (before[replica][seen] + 1e-7)
                assert changes[place] == pytest.approx(change.mean(), rel=1e-9)
            before[replica] = matrices


# whole fits

SHORT = {"hidden": (8,), "dropout": 0.2, "batch_size": 4, "steps": 0, "standardise": False}
MODELS = [
    build_model("cmm", {"iterations": 6, "restarts": 3, "groups": 2, **SHORT}),
    build_model("dl-em", {"iterations": 6, "restarts": 3, **SHORT}),
    build_model("cmm", {"protocol": "paper", "restarts": 3, **SHORT}),
    build_model("dl-em", {"protocol": "paper", "restarts": 3, "smoothing": 1.0, **SHORT}),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.em.protocol}")
def test_a_batched_fit_equals_the_same_fit_alone(model):
    sets = [_crowd(8), _crowd(9, n_items=30), _crowd(10, n_items=17)]
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    for data, context, batched in zip(sets, contexts, fit_all(model, sets, contexts), strict=True):
        alone = fit_one(model, data, context)
        assert alone.iterations == batched.iterations
        np.testing.assert_allclose(batched.item_probs, alone.item_probs, rtol=1e-6)
        np.testing.assert_allclose(batched.objective, alone.objective, rtol=1e-6)
        everybody = np.arange(data.n_annotators)
        np.testing.assert_allclose(
            batched.annotators.confusion(everybody), alone.annotators.confusion(everybody), rtol=1e-6, atol=1e-12
        )


def restarted(model, restarts):
    return replace(model, em=replace(model.em, restarts=restarts))


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
def test_the_best_of_the_restarts_is_kept(model):
    data, context = _crowd(11), FitContext(seeds=SeedStream(4))
    best = fit_one(model, data, context).objective[-1]
    assert best >= fit_one(restarted(model, 1), data, context).objective[-1]
    assert best == pytest.approx(max(fit_one(restarted(model, n), data, context).objective[-1] for n in (1, 2, 3)))


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda model: type(model).__name__)
def test_a_data_set_that_breaks_breaks_alone(model):
    sets = [_crowd(12), _crowd(13), _crowd(14)]
    features = sets[1].items.features.copy()
    features[0] = np.nan
    sets[1] = replace(sets[1], items=replace(sets[1].items, features=features))
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    fitted = fit_unchecked(model, sets, contexts)
    assert np.isnan(fitted[1].item_probs).any()
    for place in (0, 2):
        np.testing.assert_allclose(
            fitted[place].item_probs, fit_one(model, sets[place], contexts[place]).item_probs, rtol=1e-6
        )


def test_label_probs_are_those_of_the_model():
    data = _crowd(15)
    fitted = fit_one(MODELS[0], data, FitContext(seeds=SeedStream(0)))
    item, annotator = np.array([0, 3, 12], np.int32), np.array([1, 5, 0], np.int32)
    probs = fitted.predictor.predict(data.items, "classifier")
    matrices = fitted.annotators.confusion(annotator)
    wanted = [sum(probs[i, k] * matrix[k] for k in range(N_CLASSES)) for i, matrix in zip(item, matrices, strict=True)]
    np.testing.assert_allclose(fitted.label_probs(item, annotator), wanted, **CLOSE)
