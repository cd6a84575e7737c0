"""Networks on texts as settings of a classifier: what they learn; replicas stay apart, and sentences whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData, Validation
from crowdsweep.errors import FitFailed
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream

TEXT: dict[str, Any] = {"network": "text_cnn", "embedding": 8, "widths": [2], "filters": 16, "dropout": 0.1}
TAGS: dict[str, Any] = {"network": "tagger", "embedding": 8, "characters": 6, "state": 8, "dropout": 0.1}
QUICK = {"learning_rate": 0.01, "batch_size": 8, "steps": 0}


def data_of(items: Items, labels: Sequence[int], n_classes: int = 2, n_annotators: int = 3) -> TrainingData:
    """Three annotators who all say what is right."""
    who = np.tile(np.arange(n_annotators), len(labels))
    annotations = Annotations.of(
        item=np.repeat(np.arange(len(labels)), n_annotators),
        annotator=who,
        label=np.repeat(labels, n_annotators),
        n_items=len(labels),
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    return TrainingData(annotations=annotations, items=items)


def texts(seed: int, n: int = 120) -> TrainingData:
    """Is there a `not` that a `bad` follows? Bags of words cannot tell."""
    rng = np.random.default_rng(seed)
    words = np.array(["not", "bad", "good", "film"])[rng.integers(0, 4, (n, 5))]
    rows = [" ".join(row) for row in words]
    return data_of(Items(n_items=n, text=rows), [int("not bad" in row) for row in rows])


def sentences(seed: int, n: int = 40, features: bool = False) -> TrainingData:
    """A token's class is whether the next one is in capitals: neither its own word nor what lies before it tells."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, n)
    unit = np.repeat(np.arange(n), lengths).astype(np.int32)
    capital = rng.random(len(unit)) < 0.5
    tokens = [
        str(word).upper() if big else str(word)
        for word, big in zip(rng.choice(["la", "li"], len(unit)), capital, strict=True)
    ]
    followed = np.append((unit[1:] == unit[:-1]) & capital[1:], False)
    table = np.zeros((len(unit), 2), np.float32) if features else None
    return data_of(Items(n_items=len(unit), text=tokens, unit=unit, features=table), followed.astype(int).tolist())


def fitted(model: str, params: dict[str, Any], data: Sequence[TrainingData], seeds: Sequence[int]) -> list[FitResult]:
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in seeds]
    return fit_all(registered.build_model(model, {**QUICK, **params}), data, contexts)


@pytest.mark.parametrize(
    ("params", "make"),
    [
        pytest.param(TEXT, texts, id="text_cnn"),
        pytest.param(TAGS, sentences, id="tagger", marks=pytest.mark.long),
    ],
)
def test_it_learns_what_only_neighbours_tell_and_labels_unseen_texts(params: dict[str, Any], make: Any) -> None:
    (fit,) = fitted("soft-mv", {**params, "epochs": 60}, [make(0, 200)], [0])
    unseen = make(99)
    assert fit.predictor is not None
    said = fit.predictor.predict(unseen.items, "classifier")
    assert (said.argmax(axis=1) == unseen.annotations.label[::3]).mean() > 0.97


@pytest.mark.parametrize("model", ["hard-mv", "pd", "stl", "mtl", "dl-em"])
@pytest.mark.parametrize(("params", "make"), [(TEXT, texts), (TAGS, sentences)], ids=["text_cnn", "tagger"])
def test_a_batch_equals_its_members_alone(model: str, params: dict[str, Any], make: Any) -> None:
    """Two replicas of the same texts share a stack; one of other texts has a vocabulary and a stack of its own."""
    first = make(0, 25)
    length = {"iterations": 2, "restarts": 2} if model == "dl-em" else {"epochs": 3}
    data, seeds, given = [first, first, make(1, 17)], [0, 1, 2], {**params, **length}
    for one, seed, batched in zip(data, seeds, fitted(model, given, data, seeds), strict=True):
        (alone,) = fitted(model, given, [one], [seed])
        np.testing.assert_allclose(batched.item_probs, alone.item_probs, atol=1e-5)
        assert batched.predictor is not None
        assert alone.predictor is not None
        use = batched.predictor.uses[-1]
        other = batched.predictor.predict(data[2].items, use)
        np.testing.assert_allclose(other, alone.predictor.predict(data[2].items, use), atol=1e-5)


def test_a_sentence_is_tagged_the_same_whatever_stands_beside_it() -> None:
    (fit,) = fitted("soft-mv", {**TAGS, "epochs": 3}, [sentences(0)], [0])
    items = sentences(5).items
    assert fit.predictor is not None
    assert items.unit is not None
    together = fit.predictor.predict(items, "classifier")
    for unit in range(3):
        own = np.flatnonzero(items.unit == unit)
        np.testing.assert_allclose(fit.predictor.predict(items.take(own), "classifier"), together[own], atol=1e-6)


def test_sentences_validate_whole_and_dev_sentences_validate_where_there_are_any() -> None:
    """Early stopping needs validation labels: dev items with annotations and texts, or whole sentences of its own."""
    data, dev = sentences(0), sentences(1)
    watched = replace(data, validation=Validation(items=dev.items, annotations=dev.annotations))
    for one in (data, watched):
        (fit,) = fitted("pd", {**TAGS, "epochs": 60, "patience": 3}, [one], [0])
        assert fit.converged
        assert fit.iterations < 60
        assert (fit.item_probs.argmax(axis=1) == data.annotations.label[::3]).mean() > 0.95


def test_tokens_without_an_answer_are_read_and_not_learnt() -> None:
    data = sentences(0)
    rows = data.annotations
    halved = replace(data, annotations=rows.take(rows.item % 2 == 0))
    (fit,) = fitted("soft-mv", {**TAGS, "epochs": 60, "patience": None}, [halved], [0])
    assert (fit.item_probs.argmax(axis=1) == rows.label[::3]).mean() > 0.9


def test_a_model_that_trains_on_single_items_refuses_a_tagger() -> None:
    with pytest.raises(FitFailed, match="got one that reads whole sentences, which this model cannot train"):
        fitted("speelfc-d", TAGS, [sentences(0, 5, features=True)], [0])


def test_texts_are_missed_by_name() -> None:
    data = texts(0, 5)
    with pytest.raises(FitFailed, match="expected items with text, got none"):
        fitted("soft-mv", TEXT, [replace(data, items=Items(n_items=5))], [0])


def test_guided_classifiers_read_texts() -> None:
    (fit,) = fitted("fmm-guided", {**TEXT, "item_clusters": 2, "restarts": 1, "epochs": 2}, [texts(0, 30)], [0])
    assert fit.predictor is not None
