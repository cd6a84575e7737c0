"""Models of labels alone on multi-label data: each class is a question of its own."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.default_model import DEFAULT_MODEL
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

N_ITEMS, N_ANNOTATORS, N_CLASSES, PER_ITEM = 300, 20, 4, 4
BY_CLASS = ("dawid-skene", "hierarchical-dawid-skene", "one-coin")
CONTEXT = FitContext(seeds=SeedStream(0))


def crowd():
    """Annotators who overlook a third of what applies, and seldom choose what does not."""
    random = np.random.default_rng(4)
    truth = random.random((N_ITEMS, N_CLASSES)) < (0.1, 0.2, 0.3, 0.4)
    item = np.repeat(np.arange(N_ITEMS, dtype=np.int32), PER_ITEM)
    annotator = np.concatenate([random.permutation(N_ANNOTATORS)[:PER_ITEM] for _ in range(N_ITEMS)]).astype(np.int32)
    draw = random.random((len(item), N_CLASSES))
    chosen = np.where(truth[item], draw < 0.66, draw < 0.03)
    answers = {"item": item, "annotator": annotator, "n_items": N_ITEMS, "n_annotators": N_ANNOTATORS}
    data = TrainingData(annotations=annotations_of(chosen, **answers), items=Items(n_items=N_ITEMS), scale="multilabel")
    return truth, chosen, answers, data


def fitted(name, data, context=CONTEXT, **params):
    return fit_one(registered.build_model(name, params), data, context)


@pytest.mark.parametrize("name", BY_CLASS)
def test_each_class_is_the_binary_question_whether_it_was_chosen(name):
    _, chosen, answers, data = crowd()
    found, everybody = fitted(name, data), np.arange(N_ANNOTATORS)
    asked = answers["item"], answers["annotator"]
    for k in range(N_CLASSES):
        binary = Annotations.of(**answers, label=chosen[:, k].astype(np.int32), n_classes=2)
        alone = fitted(name, replace(data, annotations=binary, scale="nominal"))
        close = partial(np.testing.assert_allclose, atol=1e-12)
        close(found.item_probs[:, k], alone.item_probs[:, 1])
        close(found.annotators.confusion(everybody)[:, k], alone.annotators.confusion(everybody))
        close(found.label_probs(*asked)[:, k], alone.label_probs(*asked)[:, 1])


@pytest.mark.parametrize("name", ["dawid-skene", DEFAULT_MODEL])
def test_what_annotators_overlook_is_found_where_half_of_them_chose_it(name):
    truth, _, _, data = crowd()
    vote = fitted("majority-vote", data).item_probs > 0.5
    found = fitted(name, data).item_probs > 0.5
    assert (found == truth).mean() > (vote == truth).mean() + 0.03
    assert found[truth].mean() > vote[truth].mean() + 0.1, "the vote finds a class only where most chose it"


def test_a_report_that_ends_a_fit_leaves_the_fit_of_so_many_steps():
    *_, data = crowd()
    seen: list[tuple[int, float]] = []

    def report(step, objective, predictor=None):
        seen.append((step, objective))
        return step < 3

    ended = fitted(DEFAULT_MODEL, data, replace(CONTEXT, report=report))
    short = fitted(DEFAULT_MODEL, data, iterations=3)
    np.testing.assert_array_equal(ended.item_probs, short.item_probs)
    assert ended.iterations == 3
    assert [value for _, value in seen] == pytest.approx(short.objective.tolist())
    assert (np.diff(fitted(DEFAULT_MODEL, data).objective) > -1e-6).all(), "a sum of what never falls"
