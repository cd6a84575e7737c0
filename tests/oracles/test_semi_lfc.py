"""semi-lfc's bound against explicit loops, and what items without answers are worth."""

from dataclasses import replace
from math import exp, log, pi, sqrt

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._conditional_vae import ConditionalVae
from crowdsweep.models.joint.semi_lfc import ReplicaCrowd, SemiLfc, bound_of_items
from crowdsweep.models.networks.values import Values
from crowdsweep.seeds import SeedStream


def test_bound_of_an_item_is_the_sum_over_its_classes() -> None:
    rng = np.random.default_rng(0)
    bounds, raw, answers = (rng.normal(0, 2, (2, 3, 5)) for _ in range(3))
    answers[:, :, 0] = 0.0  # an item that nobody answered
    shares = np.log(rng.dirichlet(np.ones(3), 2))
    log_q = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
    found = bound_of_items(*map(torch.from_numpy, (bounds, log_q, answers, shares[:, :, None])))
    for s in range(2):
        for i in range(5):
            joint = [exp(log_q[s, t, i] + answers[s, t, i]) for t in range(3)]
            posterior = [value / sum(joint) for value in joint]
            # E log p(x, t, Y) under q(t | x, Y), plus its entropy.
            expected = sum(
                q * (bounds[s, t, i] + shares[s, t] + answers[s, t, i] - log(q)) for t, q in enumerate(posterior)
            )
            assert abs(float(found[s, i]) - expected) < 1e-9
            if i == 0:
                np.testing.assert_allclose(posterior, np.exp(log_q[s, :, 0]), atol=1e-12)


def test_bounds_of_the_features_are_those_of_explicit_loops() -> None:
    vae, rng = ConditionalVae(n_features=4, n_classes=2, hidden=3, latent=2), np.random.default_rng(1)
    own = {p.name: rng.normal(0, 0.7, p.shape) for p in vae.parameters()}
    features, noise = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    values = Values({name: torch.from_numpy(array)[None] for name, array in own.items()})
    found = vae.bounds(values, torch.from_numpy(features)[None], torch.from_numpy(noise)[None])[0]
    for t in range(2):
        for i in range(5):
            units = np.maximum(features[i] @ own["encoder item"] + own["encoder class"][t], 0)
            out = units @ own["encoder out"] + own["encoder bias"][0]
            mean, variance = out[:2], np.exp(out[2:])
            z = [mean[j] + sqrt(variance[j]) * noise[i, j] for j in range(2)]
            kl = sum(0.5 * (mean[j] ** 2 + variance[j] - log(variance[j]) - 1) for j in range(2))
            units = np.maximum(np.array(z) @ own["decoder latent"] + own["decoder class"][t], 0)
            decoded = units @ own["decoder out"] + own["decoder bias"][0]
            density = 0.0
            for d in range(4):
                width = exp(own["variance"][0, d])
                density += -0.5 * ((features[i, d] - decoded[d]) ** 2 / width + log(2 * pi * width))
            assert abs(float(found[t, i]) - (density - kl)) < 1e-9


def clouds(n_answered: int, n_silent: int) -> tuple[TrainingData, np.ndarray, Items, np.ndarray]:
    """Two long clouds side by side, of which few items are answered, near one end; what the others are."""
    rng = np.random.default_rng(0)
    gold = np.arange(n_answered + n_silent) % 2
    along = np.concatenate([rng.uniform(0.0, 0.1, n_answered), rng.uniform(0, 1, n_silent)])
    across = np.where(gold == 1, 1.0, -1.0) + rng.normal(0, 0.15, len(gold))
    features = np.stack([across, 8.0 * along], axis=1).astype(np.float32)
    item, annotator = np.repeat(np.arange(n_answered), 5), np.tile(np.arange(5), n_answered)
    right = rng.random(len(item)) < 0.8
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=np.where(right, gold[item], 1 - gold[item]),
        n_items=n_answered,
        n_annotators=5,
        n_classes=2,
    )
    silent = Items(n_items=n_silent, features=features[n_answered:])
    data = TrainingData(
        annotations=annotations, items=Items(n_items=n_answered, features=features[:n_answered]), unlabelled=silent
    )
    return data, gold[:n_answered], silent, gold[n_answered:]


@pytest.mark.long
def test_items_without_answers_are_learnt_from() -> None:
    data, gold, silent, silent_gold = clouds(20, 200)
    context = FitContext(seeds=SeedStream(0))
    model = SemiLfc(classifier=Classifier(learning_rate=3e-3, steps=0), latent=2, latent_hidden=16, epochs=60)
    alone, helped = (fit_one(model, one, context) for one in (replace(data, unlabelled=None), data))
    assert (helped.item_probs.argmax(axis=1) == gold).mean() >= 0.9
    scores = []
    for fitted in (alone, helped):
        assert fitted.predictor is not None
        said = fitted.predictor.predict(silent, "classifier")
        scores.append(-np.log(said[np.arange(len(said)), silent_gold]).mean())
    assert scores[1] < scores[0]
    assert len(ReplicaCrowd(model, data, context).features) == 220


def test_standardised_features_have_no_scale_and_constants_stay_finite() -> None:
    data, *_ = clouds(20, 30)
    assert data.items.features is not None
    constant = np.concatenate([1e3 * data.items.features, np.ones((20, 1), np.float32)], axis=1)
    known = ReplicaCrowd(
        SemiLfc(),
        replace(data, items=replace(data.items, features=constant), unlabelled=None),
        FitContext(seeds=SeedStream(0)),
    )
    np.testing.assert_allclose(known.standardised.std(axis=0), [1, 1, 0], atol=1e-5)
    assert not known.standardised[:, 2].any()
