"""Semi-LFC and PGM by belief propagation from the first draw to the last prediction, against loops."""

from dataclasses import replace

import numpy as np
import torch

from crowdsweep.data.dataset import Items
from crowdsweep.models.aggregate._active import ActiveCrowd
from crowdsweep.models.aggregate.pgm_bp import PgmBp
from crowdsweep.models.joint._conditional_vae import ConditionalVae
from crowdsweep.models.networks.replicas import ReplicaStack
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream
from tests.naive_training import (
    N_ANNOTATORS,
    N_CLASSES,
    N_ITEMS,
    STEPS,
    STILL,
    Adam,
    first_weights,
    fit,
    labels_of,
    must_be,
    shares_of,
    training_data,
    votes_of,
)

Values = dict[str, torch.Tensor]
EVERY = np.arange(N_ITEMS, dtype=np.int32)
LATENT, HIDDEN, SMOOTHING, ALPHA, N_SILENT = 2, 3, 0.5, 3.0, 4


def feature_bounds(values: Values, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Returns a draw of E log p(x | z, t) - KL(q(z | x, t) || N(0, I)) of an item, for each class t."""
    found = []
    for t in range(N_CLASSES):
        units = torch.relu(x @ values["encoder item"] + values["encoder class"][t])
        mean, log_variance = (units @ values["encoder out"] + values["encoder bias"][0]).split(LATENT)
        q = torch.distributions.Normal(mean, torch.exp(log_variance / 2))
        z = mean + torch.exp(log_variance / 2) * noise
        units = torch.relu(z @ values["decoder latent"] + values["decoder class"][t])
        decoded = units @ values["decoder out"] + values["decoder bias"][0]
        p = torch.distributions.Normal(decoded, torch.exp(values["variance"][0] / 2))
        prior = torch.distributions.Normal(torch.zeros(LATENT), torch.ones(LATENT))
        found.append(p.log_prob(x).sum() - torch.distributions.kl_divergence(q, prior).sum())
    return torch.stack(found)


def test_semi_lfc() -> None:
    """Networks go up the bound of all items and towards what answers say; pi and beta are counted before each epoch."""
    data = training_data("mixed")
    assert data.items.features is not None
    silent = np.random.default_rng(1).standard_normal((N_SILENT, 2)).astype(np.float32)
    data = replace(data, unlabelled=Items(n_items=N_SILENT, features=silent))
    labels = labels_of(data.annotations)
    votes = votes_of(labels)
    answered = votes.sum(dim=1) > 0
    params = {"latent": LATENT, "latent_hidden": HIDDEN, "smoothing": SMOOTHING, "classification_weight": ALPHA}
    features = torch.from_numpy(np.vstack([data.items.features, silent]).astype(np.float64))
    scaled = (features - features.mean(dim=0)) / features.std(dim=0, correction=0)
    seeds = SeedStream(0)
    vae = ConditionalVae(n_features=2, n_classes=N_CLASSES, hidden=HIDDEN, latent=LATENT)
    drawn = ReplicaStack.start(vae.parameters(), [seeds], "cpu").values_of(0)
    still = fit("semi-lfc", data, **{**params, "learning_rate": STILL})
    adam = Adam({"w": first_weights(still), **{name: torch.from_numpy(value.copy()) for name, value in drawn.items()}})
    noises, lost = seeds.numpy("noise"), []

    def log_f(values: Values) -> torch.Tensor:
        ones = torch.ones(len(features), 1, dtype=torch.float64)
        return torch.log_softmax(torch.cat([ones, features], dim=1) @ values["w"], dim=1)

    def counted(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """M-step; returns log pi, the matrices, and the log-likelihood of each item's answers for each class."""
        pi = q[answered].sum(dim=0) / answered.sum()
        matrices = torch.full((N_ANNOTATORS, N_CLASSES, N_CLASSES), SMOOTHING, dtype=torch.float64)
        for i, t, y, weight in labels:
            matrices[t, :, y] += weight * q[i]
        matrices /= matrices.sum(dim=2, keepdim=True)
        answers = torch.zeros(len(features), N_CLASSES, dtype=torch.float64)
        for i, t, y, weight in labels:
            answers[i] += weight * torch.log(matrices[t, :, y])
        return torch.log(pi), matrices, answers

    log_pi, matrices, answers = counted(shares_of(votes))
    for epoch in range(STEPS):
        if epoch:
            q = torch.softmax(log_f(adam.values)[:N_ITEMS] + answers[:N_ITEMS], dim=1).detach()
            log_pi, matrices, answers = counted(q)
        noise = torch.from_numpy(noises.standard_normal((len(features), LATENT), dtype=np.float32)).double()

        def loss(
            values: Values,
            answers: torch.Tensor = answers,
            log_pi: torch.Tensor = log_pi,
            noise: torch.Tensor = noise,
        ) -> torch.Tensor:
            total, said = torch.zeros((), dtype=torch.float64), log_f(values)
            for i in range(len(features)):
                q = torch.softmax(said[i] + answers[i], dim=0)
                bounds = feature_bounds(values, scaled[i], noise[i])
                # The evidence lower bound as it is defined: E log p(x, t, Y) under q, plus the entropy of q.
                total = total - (q * (bounds + log_pi + answers[i] - torch.log(q))).sum()
                if i < N_ITEMS and answered[i]:
                    total = total - ALPHA * (torch.softmax(log_pi + answers[i], dim=0) * said[i]).sum()
            return total / len(features)

        lost.append(adam.step(loss))
    said = log_f(adam.values)[:N_ITEMS].detach()
    log_pi, matrices, answers = counted(torch.softmax(said + answers[:N_ITEMS], dim=1))
    q = torch.softmax(said + answers[:N_ITEMS], dim=1)
    found = fit("semi-lfc", data, **params)
    assert found.predictor is not None
    assert found.annotators is not None
    assert found.label_probs is not None
    must_be(-found.objective, lost, "losses", 1e-5)
    must_be(found.predictor.predict(data.items, "classifier"), said.exp(), "classifier", 1e-5)
    must_be(found.item_probs, q, "posterior", 1e-5)
    must_be(found.extras["class_shares"], log_pi.exp(), "pi", 1e-5)
    must_be(found.annotators.confusion(np.arange(N_ANNOTATORS - 1)), matrices[:-1], "beta", 1e-5)
    must_be(found.label_probs(EVERY, np.zeros_like(EVERY)), q @ matrices[0], "labels", 1e-5)


def test_pgm_by_belief_propagation() -> None:
    """Loopy messages one by one, the M-step of the paper's listing, Bethe's evidence, and what clusters stand for."""
    rows = training_data().annotations
    params = {"item_clusters": 3, "annotator_clusters": 2, "alpha": 1.5, "gamma": 2.5, "tau": 3.0}
    params |= {"restarts": 1, "iterations": STEPS, "sweeps": 2, "sweep_tolerance": 0.0, "tolerance": 0.0}
    model = build_model("pgm-bp", {**params, "snap": "soft"})
    assert isinstance(model, PgmBp)
    active = ActiveCrowd.of(rows)
    run = model._start(active.edges, SeedStream(0).child("restart 0"))
    psi, omega, theta = run.parameters.item_shares, run.parameters.annotator_shares, run.parameters.labels
    first = {int(code): run.beliefs.annotators[place] for place, code in enumerate(active.annotators)}
    edges = [(i, t, y) for i, t, y, _ in labels_of(rows)]
    items, annotators = sorted({i for i, _, _ in edges}), sorted(first)
    cavity_z = [first[t] for _, t, _ in edges]  # z of an edge's annotator without the edge
    objective = []
    for _ in range(STEPS):
        for _ in range(2):
            to_item = [theta[:, :, y] @ z for (_, _, y), z in zip(edges, cavity_z, strict=True)]
            w, mass_w = {}, {}
            for i in items:
                w[i] = psi * np.prod([a for (own, _, _), a in zip(edges, to_item, strict=True) if own == i], axis=0)
                mass_w[i] = w[i].sum()
                w[i] = w[i] / mass_w[i]
            cavity_w = [w[i] / a / (w[i] / a).sum() for (i, _, _), a in zip(edges, to_item, strict=True)]
            to_annotator = [theta[:, :, y].T @ c for (_, _, y), c in zip(edges, cavity_w, strict=True)]
            mass_edges = [float(c @ a) for c, a in zip(cavity_w, to_item, strict=True)]
            z, mass_z = {}, {}
            for t in annotators:
                own = [b for (_, who, _), b in zip(edges, to_annotator, strict=True) if who == t]
                z[t] = omega * np.prod(own, axis=0)
                mass_z[t] = z[t].sum()
                z[t] = z[t] / mass_z[t]
            cavity_z = [z[t] / b / (z[t] / b).sum() for (_, t, _), b in zip(edges, to_annotator, strict=True)]
        bethe = sum(map(np.log, [*mass_w.values(), *mass_z.values()])) - sum(map(np.log, mass_edges))
        prior = 0.5 * np.log(theta).sum() + 1.5 * np.log(psi).sum() + 2.0 * np.log(omega).sum()
        objective.append(float(bethe + prior))
        theta = np.full_like(theta, 0.5)
        for i, t, y in edges:
            theta[:, :, y] += np.outer(w[i], z[t])
        theta /= theta.sum(axis=2, keepdims=True)
        psi = (1.5 + sum(w.values())) / (1.5 * 3 + len(items))
        omega = (2.0 + sum(z.values())) / (2.0 * 2 + len(annotators))
    mix = sum(z.values()) / len(annotators)
    of_items = np.array([w.get(i, psi) for i in range(N_ITEMS)])
    of_annotators = np.array([z.get(t, mix) for t in range(N_ANNOTATORS)])
    data = training_data()
    for snap in ("soft", "hard"):
        found = fit("pgm-bp", data, **params, snap=snap)
        assert found.label_probs is not None
        must_be(found.objective, objective, "objective", 1e-9)
        chosen = of_items if snap == "soft" else np.eye(3)[of_items.argmax(axis=1)]
        must_be(found.item_probs, np.einsum("ig,l,glk->ik", chosen, mix, theta), "items", 1e-9)
        for t in range(N_ANNOTATORS):
            said = np.einsum("ig,l,glk->ik", of_items, of_annotators[t], theta)
            must_be(found.label_probs(EVERY, np.full(N_ITEMS, t, np.int32)), said, f"labels of {t}", 1e-9)
