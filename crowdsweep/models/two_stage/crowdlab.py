"""CROWDLAB: the weighted mean of a classifier's out-of-sample prediction and of the annotators' answers.

A classifier is trained on the majority vote of other items and predicts each item out of sample. An item's class
probabilities are the weighted mean of that prediction and of its answers, an answer being a distribution whose mass on
its label is the overall agreement. An annotator's weight is its agreement with the others, the classifier's its
agreement with the consensus, both relative to the accuracy of always predicting the most frequent class.

Goh, Tkachenko and Mueller (2022), "CROWDLAB: Supervised learning to infer consensus labels and quality scores for data
with multiple annotators"; cleanlab's get_label_quality_multiannotator.

    p_M        out-of-sample predictions of the classifier                                 predicted
    Y_i        consensus: majority vote, ties broken by p_M                                consensus
    P          mean share of an item's answers that are its consensus                      agreeing
    s_j        agreement of annotator j with the others, by their answers to j's items     agreement
    A_MLC      accuracy of always naming the commonest consensus                           1 - chance_error
    w_j, w_M   1 - (1 - s_j) / (1 - A_MLC); likewise of p_M, times sqrt(mean answers)      weights, model_weight

P, A_MLC and all agreements are computed on items with several annotators (an annotator j without such items has the
mean of the others); weights are at least 1e-6. Where no item has several, all items count and agreement is complete. As
in cleanlab, all is done twice, the second time with the first result as the consensus.

Deviations: an annotator's repeated answers to an item are not counted as agreeing with each other. The classifier that
labels unseen items is trained on the result. CROWDLAB has no model of annotators; here they have one accuracy each,
estimated with `smoothing` from the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Bool, Float64, Int64, Shaped

from crowdsweep.arrays import ItemProbs, normalised_rows, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import StackedCrowds, label_probs_of, soft_vote, stack, winners
from crowdsweep.models.aggregate._coins import coins, right_answers
from crowdsweep.models.aggregate._rows import AnswersByPair, by_code, sums_of
from crowdsweep.models.contract import FitContext, FitResult, no_op
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers
from crowdsweep.models.two_stage._pair import two_stage
from crowdsweep.models.two_stage._targets import Aggregated, answered
from crowdsweep.models.two_stage._training import CLASSIFIER_SPACE, Training

_LEAST = 1e-6

PerAnnotator = Float64[np.ndarray, " annotators"]
Answers = Float64[np.ndarray, "pairs classes"]
Counted = Bool[np.ndarray, " items"]


@final
@dataclass(frozen=True, kw_only=True)
class Crowdlab:
    """Hyper-parameters of CROWDLAB.

    Attributes:
        training: training of all classifiers.
        folds: number of classifiers that predict out of sample, each the items that it was not trained on.
        fold_epochs: passes of each of these over its items; `epochs` is of the classifier that learns the result.
        smoothing: pseudo-counts of right answers, and of each kind of wrong ones, in an annotator's accuracy; the item
            probabilities do not depend on it.
    """

    training: Training = Training()
    folds: Annotated[int, Ge(2)] = 5
    fold_epochs: Annotated[int, Ge(1)] = 50
    smoothing: Annotated[float, Ge(0)] = 0.01

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        stages: list[Aggregated] = []
        weighed: list[Weighed] = []
        for part, predicted in zip(data, self._predicted(data, contexts), strict=True):
            crowds = stack([part.annotations])
            found = weigh(crowds, predicted)
            (own,) = coins(crowds, right_answers(crowds, found.item_probs), self.smoothing)
            extras = {
                "annotator_accuracy": own.accuracy,
                "annotator_weight": by_code(crowds, 0, found.weights),
                "classifier_weight": np.array([found.model_weight]),
                "out_of_sample_probs": predicted,
            }
            weighed.append(found)
            stages.append(Aggregated(targets=answered(part, found.item_probs), annotators=own, extras=extras))
        return [
            replace(result, item_probs=found.item_probs, label_probs=label_probs_of(found.item_probs, stage.annotators))
            for result, found, stage in zip(self.training.fit(data, contexts, stages), weighed, stages, strict=True)
            if stage.annotators is not None
        ]

    def _predicted(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> Iterator[ItemProbs]:
        """Yields the out-of-sample predictions of the items; a single labelled item gets uniform ones."""
        votes = [answered(part, winners(soft_vote(stack([part.annotations])))) for part in data]
        folds = [self._folds(part, context) for part, context in zip(data, contexts, strict=True)]
        numbers = [range(own.max(initial=-1) + 1) if own.max(initial=0) else range(0) for own in folds]
        jobs = [
            TrainingJob(
                data=part,
                targets=np.where((own == fold)[:, None], 0.0, vote),
                seeds=context.seeds.child(f"fold {fold}"),
                report=no_op,
                checkpoint=context.checkpoint,
            )
            for part, context, vote, own, of in zip(data, contexts, votes, folds, numbers, strict=True)
            for fold in of
        ]
        schedule = replace(self.training.schedule, epochs=self.fold_epochs)
        device = contexts[0].device
        classifier = self.training.classifier.under(self.training.protocol)
        trained = iter(train_classifiers(classifier, jobs, schedule, device) if jobs else ())
        for part, own, of in zip(data, folds, numbers, strict=True):
            predicted = np.full((part.n_items, part.n_classes), 1.0 / part.n_classes)
            for fold in of:
                predicted[own == fold] = next(trained).probs[own == fold]
            yield predicted

    def _folds(self, data: TrainingData, context: FitContext) -> Int64[np.ndarray, " items"]:
        """Deals the items out, labelled ones first, so that every fold has its share of them."""
        labelled = data.annotations.labels_per_item > 0
        order = context.seeds.numpy("folds").permutation(data.n_items)
        # Dealt out in turn, labelled items first: their numbers in two folds differ by one at most.
        order = order[np.argsort(~labelled[order], kind="stable")]
        folds = np.empty(data.n_items, dtype=np.int64)
        folds[order] = np.arange(data.n_items) % max(min(self.folds, int(labelled.sum())), 1)
        return folds


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed:
    """The weighted mean of a classifier and the annotators, and the weight of each."""

    item_probs: ItemProbs
    weights: PerAnnotator
    model_weight: float


def weigh(crowds: StackedCrowds, predicted: ItemProbs) -> Weighed:
    """Returns the weighted mean of a classifier's predictions and the answers of one data set. O(A K).

    Args:
        predicted: out of sample.
    """
    pairs, item, annotator = AnswersByPair.of(crowds)
    own = (pairs @ crowds.label_indicator).toarray()
    votes = (crowds.answers @ crowds.label_indicator).toarray()
    agreement = _agreement(own, votes[item] - own, annotator, crowds.n_annotators)
    met = np.bincount(item, minlength=crowds.n_items)
    counted = met > 1 if (met > 1).any() else met > 0

    def weighed(consensus: Int64[np.ndarray, " items"]) -> Weighed:
        agreeing, chance_error, model_weight = _against(consensus, votes, predicted, counted)
        weights = np.maximum(1.0 - (1.0 - agreement) / chance_error, _LEAST)
        # An answer says `agreeing` of its label, and the rest of the other classes.
        chosen = np.stack([sums_of(item, label * weights[annotator], crowds.n_items) for label in own.T], axis=1)
        error = (1.0 - agreeing) / max(crowds.n_classes - 1, 1)
        mixed = model_weight * predicted + agreeing * chosen + error * (chosen.sum(axis=1, keepdims=True) - chosen)
        return Weighed(item_probs=normalised_rows(mixed), weights=weights, model_weight=model_weight)

    # Only classes that have the most votes score 1 or more; among these the classifier's probability decides.
    consensus = ((winners(votes) > 0) * (1.0 + predicted)).argmax(axis=1)
    return weighed(weighed(consensus).item_probs.argmax(axis=1))


def _agreement(own: Answers, others: Answers, annotator: np.ndarray, n_annotators: int) -> PerAnnotator:
    """Returns the share of the answers of others, to each annotator's items, that are the annotator's own."""
    agreeing = sums_of(annotator, (own * others).sum(axis=1), n_annotators)
    total = sums_of(annotator, own.sum(axis=1) * others.sum(axis=1), n_annotators)
    met = total > 1e-9
    share = ratio(agreeing, np.where(met, total, 0.0), at_zero=0.0)
    return np.where(met, share, share[met].mean() if met.any() else 1.0)


def _against(
    consensus: Int64[np.ndarray, " items"], votes: ItemProbs, predicted: ItemProbs, counted: Counted
) -> tuple[float, float, float]:
    """Returns how often answers agree with the consensus, how often the commonest class does not, and the weight of
    the classifier."""
    rows, total = np.arange(len(votes)), votes.sum(axis=1)
    agreeing = _mean(ratio(votes[rows, consensus], total, at_zero=0.0), counted)
    common = np.bincount(consensus[counted], minlength=votes.shape[1]).argmax()
    chance_error = max(_mean(consensus != common, counted), _LEAST)
    wrong = _mean(consensus != predicted.argmax(axis=1), counted)
    return agreeing, chance_error, max(1.0 - wrong / chance_error, _LEAST) * float(np.sqrt(_mean(total, total > 0)))


def _mean(values: Shaped[np.ndarray, " items"], of: Counted) -> float:
    return float(values[of].mean()) if of.any() else 0.0


MODEL = two_stage(
    name="crowdlab",
    title="CROWDLAB: a classifier's predictions and annotators, weighted by what they get right",
    model=Crowdlab,
    source="Goh, Tkachenko and Mueller 2022, section 2",
    space={"folds": {"values": [5, 10]}, "fold_epochs": {"values": [10, 20, 50]}, **CLASSIFIER_SPACE},
    version=2,
)
