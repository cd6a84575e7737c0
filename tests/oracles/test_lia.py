"""LIA against explicit loops in float64, and crowds whose difficulties, abilities and features are known."""

from functools import partial

import numpy as np
import pytest
import torch

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import Batch, Block, StackedRows
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.models.joint._lia import LiaTraining
from crowdsweep.models.joint._lia_answers import Answers, StackedSaid, answers_of
from crowdsweep.models.joint._lia_loss import LiaLoss
from crowdsweep.models.joint._lia_network import Annotators, LiaNetwork
from crowdsweep.models.joint._lia_replicas import fit
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.streams import Minibatch
from crowdsweep.models.networks.written_gradients import WithSlopes
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream


def cells_and_network(questions, classes, latent):
    """The numbers of a matrix, and functions of three features that have so many cells."""
    cells = questions * classes**2 * latent
    return cells, LiaNetwork(
        classes=NamedNetwork(name="items", network=DenseNetwork(widths=(3, questions * classes + cells))),
        difficulty=None,
        describing=None,
        n_questions=questions,
        n_classes=classes,
        latent=latent,
        width=2,
    )


@pytest.mark.parametrize(("questions", "classes", "latent"), [(1, 3, 1), (1, 2, 4), (5, 2, 2)])
def test_confusions_are_the_inner_product_of_exponentials_normalised(questions, classes, latent):
    cells, network = cells_and_network(questions, classes, latent)
    rng = np.random.default_rng(cells)
    hard, able = rng.normal(0, 2, (2, 6, questions, classes, classes, latent))
    together = torch.from_numpy((hard + able).reshape(1, 6, -1)).transpose(1, 2)
    found = network.log_confusions(network.laid_out(together)).exp().permute(3, 1, 2, 0).numpy()
    for row, question, true in np.ndindex(6, questions, classes):
        cell = (row, question, true)
        inner = [float(np.exp(hard[cell][seen]) @ np.exp(able[cell][seen])) for seen in range(classes)]
        np.testing.assert_allclose(found[cell], np.array(inner) / sum(inner), atol=1e-12)


def simulated(seed: int, *, describes: bool = False, items: int = 400, annotators: int = 24) -> tuple:
    """A crowd that errs with the features: a third of the annotators know all items, the others those of one side.

    Who is who is what an annotator's own feature says; on the other side the others guess. The last two never answer.
    """
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 2, items)
    features = rng.normal(0, 1, (items, 4)).astype(np.float32)
    features[:, 0] += 1.0 * (2 * gold - 1)
    features[:, 1] *= 2.0
    side = (features[:, 1] > 0).astype(np.int64)
    expert = (np.arange(annotators) % 3 == 0).astype(np.int64)
    item = np.repeat(np.arange(items), 4)
    annotator = np.concatenate([rng.choice(annotators - 2, 4, replace=False) for _ in range(items)])
    able = np.where((side[item] == 1) & (expert[annotator] == 0), 0.5, 0.9)
    label = np.where(rng.random(len(item)) < able, gold[item], 1 - gold[item])
    data = TrainingData(
        annotations=Annotations.of(
            item=item, annotator=annotator, label=label, n_items=items, n_annotators=annotators, n_classes=2
        ),
        items=Items(n_items=items, features=features),
        annotator_features=np.stack([expert, rng.normal(size=annotators)], axis=1).astype(np.float32)
        if describes
        else None,
    )
    return data, gold, side, expert


def accuracy(result: FitResult, gold: np.ndarray) -> float:
    return float((result.item_probs.argmax(axis=1) == gold).mean())


PAPERS_NETWORK = {"hidden": [16, 16, 16, 16], "dropout": 0.0, "learning_rate": 3e-3}


def fitted(name: str, data: list[TrainingData], **params: object) -> list[FitResult]:
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(len(data))]
    brief = {} if name == "majority-vote" else {"steps": 0}
    network = PAPERS_NETWORK if name in ("lia", "maj-star", "mmce-star") else {}
    return fit_all(build_model(name, {**brief, **network, **params}), data, contexts)


@pytest.mark.long
def test_lia_is_above_every_two_stage_model_where_annotators_err_with_the_features():
    crowds = [simulated(seed) for seed in range(2)]
    data, golds = [crowd[0] for crowd in crowds], [crowd[1] for crowd in crowds]

    def mean(name: str, **params: object) -> float:
        results = fitted(name, data, **params)
        return float(np.mean([accuracy(one, gold) for one, gold in zip(results, golds, strict=True)]))

    lia = mean("lia")
    others = {name: mean(name) for name in ("maj-star", "maj-star-e", "mmce-star", "mmce-star-e", "soft-mv", "dl-ds")}
    assert lia > max(others.values()) + 0.02, (lia, others)


SHORT = {"iterations": 3, "epochs": 20}


@pytest.mark.long
def test_what_lia_promises_besides_labels():
    data, gold, side, expert = simulated(0)
    (result,) = fitted("lia", [data], **SHORT)
    extras = result.extras
    assert extras["item_difficulty"][side == 1].mean() > extras["item_difficulty"][side == 0].mean() + 0.1
    active = data.annotations.labels_per_annotator > 0
    competence, errors = extras["annotator_competence"], extras["annotator_errors"]
    assert competence[active & (expert == 1)].min() > competence[active & (expert == 0)].max()
    assert np.isnan(errors[~active]).all()
    rows = data.annotations
    for code in np.flatnonzero(active):
        mine = rows.annotator == code
        assert errors[code] == pytest.approx(1 - result.item_probs[rows.item[mine], rows.label[mine]].mean(), abs=1e-6)
    assert extras["annotator_embeddings"].shape == (24, 16)
    # Pairs stand in the order of the annotations: a novice's matrix depends on the side of the item.
    pairs = extras["pair_confusions"]
    assert pairs.shape == (len(rows), 2, 2)
    novice = expert[rows.annotator] == 0
    right = pairs[np.arange(len(rows)), gold[rows.item], gold[rows.item]]
    assert right[novice & (side[rows.item] == 0)].mean() > right[novice & (side[rows.item] == 1)].mean() + 0.15


@pytest.mark.long
def test_an_annotator_never_seen_is_known_by_its_features():
    data, _, _, expert = simulated(1, describes=True)
    (result,) = fitted("lia", [data], **SHORT)
    unseen = np.flatnonzero(data.annotations.labels_per_annotator == 0)
    assert expert[unseen].tolist() == [0, 0]
    features = data.annotator_features.copy()
    features[unseen[1], 0] = 1  # and now an expert
    (other,) = fitted(
        "lia", [TrainingData(annotations=data.annotations, items=data.items, annotator_features=features)], **SHORT
    )
    novice, skilled = other.extras["annotator_competence"][unseen]
    assert skilled > novice + 0.05
    assert result.annotators is not None
    seen = np.flatnonzero(expert == 0)[:5]
    matrices = result.annotators.confusion(np.concatenate([unseen[:1], seen]))
    np.testing.assert_allclose(matrices[0], matrices[1:].mean(axis=0), atol=0.12)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lia", "lia-e"])
def test_who_is_always_right_comes_out_best_and_who_is_always_wrong_worst(shared_data, name):
    trial = splits.prepare(catalogue.load(str(shared_data / "rte"), {}), {"training": "all"}, 0)
    rows, gold = trial.training.annotations, trial.gold
    n, t = rows.n_items, rows.n_annotators
    shown = np.arange(n)
    everything = Annotations.of(
        item=np.concatenate([rows.item, shown, shown]),
        annotator=np.concatenate([rows.annotator, np.full(len(shown), t), np.full(len(shown), t + 1)]),
        label=np.concatenate([rows.label, gold.label[shown], 1 - gold.label[shown]]),
        n_items=n,
        n_annotators=t + 2,
        n_classes=2,
    )
    data = TrainingData(annotations=everything, items=trial.training.items)
    (result,) = fitted(name, [data], iterations=5, epochs=10, finetune="none")
    many = np.flatnonzero(everything.labels_per_annotator >= 40)
    ranked = many[np.argsort(result.extras["annotator_competence"][many])]
    assert ranked[-1] == t
    assert ranked[0] == t + 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("redundancy", "least", "seeds"),
    [
        (None, 0.90, 3),
        *((redundancy, None, 3) for redundancy in (2, 5, 10, 20)),
    ],
)
def test_lia_e_on_bluebirds(shared_data, redundancy, least, seeds):
    base = catalogue.load(str(shared_data / "bluebirds"), {})
    params = {"training": "all"} | ({} if redundancy is None else {"redundancy": redundancy})
    trials = [splits.prepare(base, params, seed) for seed in range(seeds)]
    data = [trial.training for trial in trials]
    golds = [trial.gold.label for trial in trials]

    def mean(results: list[FitResult]) -> float:
        winners = [one.item_probs >= one.item_probs.max(axis=1, keepdims=True) - 1e-9 for one in results]
        shares = [
            (won[np.arange(len(gold)), gold] / won.sum(axis=1)).mean() for won, gold in zip(winners, golds, strict=True)
        ]
        return float(np.mean(shares))

    found, vote = mean(fitted("lia-e", data)), mean(fitted("majority-vote", data))
    assert found >= (vote - 0.01 if least is None else least)


# Of thirteen settings, tried on three seeds, the one that predicted a held-out tenth of rte's answers best, for both
# models (-.470 an answer; the others from -.471 to -.517). By five seeds: lia 92.6, lia-e 92.7 %.
HELDOUT_CHOICE = {"iterations": 5, "epochs": 5, "regularisation": 0.1, "finetune": "none", "predict": "posterior"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["lia", "lia-e"])
def test_rte_by_the_settings_that_held_out_answers_choose(shared_data, name):
    base = catalogue.load(str(shared_data / "rte"), {})
    trials = [splits.prepare(base, {"training": "all", "redundancy": 10}, seed) for seed in range(5)]
    results = fitted(name, [trial.training for trial in trials], **HELDOUT_CHOICE)
    found = [accuracy(one, trial.gold.label) for one, trial in zip(results, trials, strict=True)]
    assert np.mean(found) >= 0.92


def test_expected_and_marginal_losses_are_those_of_explicit_loops():
    """One epoch in one batch: the loss is taken before the step, at parameters that a snapshot at rate 0 gives back."""
    rng = np.random.default_rng(5)
    item, annotator = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6)
    rows = Annotations.of(
        item=item,
        annotator=annotator,
        label=rng.integers(0, 3, 18),
        weight=rng.uniform(0.5, 2, 18),
        probability=rng.uniform(0.4, 1, 18),
        n_items=6,
        n_annotators=3,
        n_classes=3,
    )
    data = TrainingData(annotations=rows, items=Items(n_items=6, features=rng.normal(size=(6, 4)).astype(np.float32)))
    frozen = {"iterations": 1, "epochs": 1, "learning_rate": 1e-12, "dropout": 0.0, "latent": 2, "regularisation": 0.3}
    context = FitContext(seeds=SeedStream(0))
    for params in ({"finetune": "none"}, {"em_iterations": 0}, {"em_iterations": 0, "finetune": "joint"}):
        result = fit_one(build_model("lia", {"steps": 0, **frozen, **params}), data, context)
        h = result.item_probs
        q = result.extras["pair_confusions"].astype(np.float64)
        said, weight = rows.soft_labels, rows.weight.astype(np.float64)
        beliefs = rows.label_distribution()
        total = 0.0
        for i in range(6):
            mine = np.flatnonzero(rows.item == i)
            joint = np.log(h[i]).copy()
            for a in mine:
                log_likelihood = np.array([sum(said[a, y] * np.log(q[a, k, y]) for y in range(3)) for k in range(3)])
                joint += weight[a] * log_likelihood
                if params.get("finetune") == "none":
                    total -= weight[a] * float(beliefs[i] @ log_likelihood)
                elif "finetune" not in params:
                    total -= weight[a] * sum(said[a, y] * np.log(h[i] @ q[a, :, y]) for y in range(3))
                total += 0.3 / (weight.sum() / 6) * weight[a] * float((np.log(q[a]) ** 2).sum())
            if params.get("finetune") == "none":
                total -= float(beliefs[i] @ np.log(h[i]))
            elif params.get("finetune") == "joint":
                total -= np.log(np.exp(joint).sum())
        assert -result.objective[-1] == pytest.approx(total / 6, rel=1e-4), params


@pytest.mark.parametrize("objective", ["expectation", "composite", "joint"])
@pytest.mark.parametrize(("questions", "classes", "latent"), [(1, 3, 1), (2, 2, 2)])
def test_written_slopes_are_those_of_the_losses(objective, questions, classes, latent):
    cells, network = cells_and_network(questions, classes, latent)
    rng = np.random.default_rng(cells)
    rows = Annotations.of(
        item=np.repeat(np.arange(4), 3),
        annotator=np.tile(np.arange(3), 4),
        label=np.arange(12),
        weight=rng.uniform(0.5, 2, 12),
        n_items=4,
        n_annotators=3,
        n_classes=12,
    )
    answers = [
        Answers(rows=rows, said=rng.dirichlet(np.ones(classes), (12, questions)).astype(np.float32)) for _ in range(2)
    ]
    taken, mask = np.array([[0, 2, 3], [1, 3, 0]]), np.array([[1, 1, 1], [1, 1, 0]])
    drawn = Minibatch(
        n_replicas=2,
        rows=torch.from_numpy(taken),
        mask=torch.from_numpy(mask.astype(np.float32)),
        sizes=torch.tensor([3.0, 2.0]),
        drawn=np.where(mask, taken, -1),
    )
    replicas = torch.arange(2)
    block = Block(batches=[drawn], replicas=replicas, order=[0, 1], rows=torch.from_numpy(taken)[None], masks={})
    posterior = torch.from_numpy(rng.dirichlet(np.ones(classes), (8, questions)))
    for per_answer in (False, True):
        loss = LiaLoss(
            network,
            StackedRows(table=torch.zeros(8, 3), starts=replicas * 4),
            StackedRows(table=posterior, starts=replicas * 4),
            answers,
            Annotators(features=None),
            pull=np.array([0.3, 0.1], np.float32),
            per_answer=per_answer,
            device="cpu",
        )
        batch = Batch(block=block, step=0)
        seen, said = StackedSaid(answers, "cpu").of(batch)
        who = seen.annotator + 3 * seen.place
        made = partial(loss.with_slopes, objective, batch, seen, said, who)
        parts = [torch.from_numpy(rng.normal(size=(2, n, 3))) for n in (questions * classes, cells, cells)]
        assert torch.autograd.gradcheck(partial(WithSlopes.apply, made), [part.requires_grad_(True) for part in parts])


def test_the_posterior_is_that_of_all_answers():
    data, _, _, _ = simulated(2, items=40)
    params = {"iterations": 2, "epochs": 2, "predict": "posterior", "finetune": "none"}
    (result,) = fitted("lia", [data], **params)
    (by_h,) = fitted("lia", [data], **{**params, "predict": "h"})
    q, rows = result.extras["pair_confusions"].astype(np.float64), data.annotations
    for i in range(40):
        weight = by_h.item_probs[i].copy()
        for a in np.flatnonzero(rows.item == i):
            weight *= q[a, :, rows.label[a]]
        np.testing.assert_allclose(result.item_probs[i], weight / weight.sum(), atol=1e-5)


def test_every_class_of_a_multilabel_answer_is_a_question():
    chosen = np.array([[True, False, True], [False, False, False], [True, True, False]])
    rows = annotations_of(chosen, item=np.array([0, 0, 1]), annotator=np.array([0, 1, 0]), n_items=2, n_annotators=2)
    data = TrainingData(annotations=rows, items=Items(n_items=2), scale="multilabel")
    answers, code = answers_of(data, np.random.default_rng(0))
    who = np.argsort(code)[answers.annotator]
    said = {(int(i), int(t)): row for i, t, row in zip(answers.item, who, answers.said[:, :, 1] == 1, strict=True)}
    assert set(said) == {(0, 0), (0, 1), (1, 0)}
    for pair, expected in zip([(0, 0), (0, 1), (1, 0)], chosen, strict=True):
        assert said[pair].tolist() == expected.tolist()


def test_too_many_classes_are_refused_at_once():
    rows = Annotations.of(
        item=np.arange(3), annotator=np.zeros(3, int), label=np.arange(3), n_items=3, n_annotators=1, n_classes=300
    )
    data = TrainingData(annotations=rows, items=Items(n_items=3, features=np.eye(3, dtype=np.float32)))
    with pytest.raises(FitFailed, match=r"classes² × latent of at most 65536, got 90000"):
        fit(LiaTraining(), [data], [FitContext(seeds=SeedStream(0))], lambda classifier, n: None)
