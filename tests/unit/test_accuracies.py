"""The accuracy of annotators, told by what others believe: a posterior, with an interval that means it."""

import numpy as np
import pytest
from scipy import integrate

from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.annotators import annotator_facts
from crowdsweep.labelling.crowd import Crowd
from crowdsweep.labelling.leave_one_out import leave_one_out_answers
from crowdsweep.labelling.questions import questions_of


def one_of(right, weight=None, evidence=1.0, n_classes=3):
    right = np.asarray(right, dtype=np.float64)
    weight = np.ones(len(right)) if weight is None else np.asarray(weight, dtype=np.float64)
    place = np.zeros(len(right), np.int64)
    mean, low, high = accuracies(place, right, (1 - right) / (n_classes - 1), weight, evidence)
    return float(mean[0]), float(low[0]), float(high[0])


@pytest.mark.parametrize("n", [1, 12, 400])
def test_the_mean_is_the_integral_under_jeffreys_prior(n):
    right = np.random.default_rng(n).beta(4, 1, n)

    def likelihood(angle, power=0):
        accuracy = np.sin(angle) ** 2
        return accuracy**power * np.prod((accuracy * right + (1 - accuracy) * (1 - right) / 2) * 2)

    whole, moment = (integrate.quad(likelihood, 0, np.pi / 2, args=(power,), limit=200)[0] for power in (0, 1))
    mean, low, high = one_of(right)
    assert mean == pytest.approx(moment / whole, abs=2e-3)
    inside = integrate.quad(likelihood, np.arcsin(low**0.5), np.arcsin(high**0.5), limit=200)[0] / whole
    assert inside == pytest.approx(0.95, abs=0.02)


def test_whoever_is_always_right_is_not_as_doubtful_as_the_others():
    mean, low, high = one_of([0.8] * 80 + [0.1] * 20)  # of a perfect annotator: the others believe in it 66 %
    assert mean > 0.9
    assert (low > 0.75, high) == (True, 1.0)
    assert one_of([1.0] * 500)[2] == 1.0
    assert one_of([0.0] * 500)[1] == 0.0


def test_one_answer_is_no_estimate():
    for right in (0.001, 0.999):
        mean, low, high = one_of([right])
        assert mean == pytest.approx(0.25 if right < 0.5 else 0.75, abs=0.01)
        assert high - low > 0.7
    mean, low, high = one_of([1 / 3])  # the others know nothing of it
    assert (mean, high - low > 0.9) == (pytest.approx(0.5, abs=0.01), True)


def test_weights_and_what_an_answer_is_worth_are_powers():
    twice = one_of([0.9, 0.4], weight=[2, 2])
    assert one_of([0.9, 0.9, 0.4, 0.4]) == pytest.approx(twice)
    assert one_of([0.9, 0.9, 0.4, 0.4], evidence=0.5) == pytest.approx(one_of([0.9, 0.4]))


def test_an_answers_certainty_and_weight_count():
    item, annotator = np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40)
    label = np.where(annotator == 2, 1 - item % 2, item % 2)  # the third is always wrong

    def facts(**carried):
        rows = Annotations.of(
            item=item, annotator=annotator, label=label, n_items=40, n_annotators=3, n_classes=2, **carried
        )
        questions = questions_of(rows, np.eye(2)[item[::3] % 2], multilabel=False)
        good = np.tile(np.array([[0.9, 0.1], [0.1, 0.9]]), (3, 1, 1))
        chunks = leave_one_out_answers(questions, lambda code: good[code])
        return annotator_facts(chunks, Crowd(matrix=good[0]), questions.shares)

    sure = facts()
    assert sure.accuracy[2] < 0.05
    unsure = facts(probability=np.where(annotator == 2, 0.5, 1.0).astype(np.float32))
    assert unsure.accuracy[2] == pytest.approx(0.5, abs=0.02)  # says nothing, and is not known to err
    assert unsure.high[2] - unsure.low[2] > 0.8
    light = facts(weight=np.full(120, 0.1, np.float32))
    assert light.high[2] - light.low[2] > 2 * (sure.high[2] - sure.low[2])
