"""A classifier around a model of clusters: train on the clusters' distributions, project predictions onto them.

Weerasooriya, Ororbia and Homan, the guided pipeline and equations 1 and 2.

1. The cluster model is fitted to the training annotations.
2. Each training item's target is the label distribution of its cluster: Y'_i = sum over l of mix_l Theta[w_i, l], mix
   being the annotators' mean membership (equation 1 has Omega, which of few annotators is mostly pseudo-counts, and
   says test items). `snap` says whether of its best cluster or of all. fmm's is the counts of the cluster's members.
3. A classifier h is trained on these targets with the KL loss.
4. For an unseen item, clusters are scored by how well they explain c answers distributed like h(x):

       score_g = log psi_g + c * sum over k of h_k(x) log(sum over l of mix_l Theta[g, l, k])

   and the item gets the distribution of the best cluster (hard), of all in proportion (soft), or h(x) as it is (none).
   Its own labels, where it has any, are never looked at.

Equation 2 of the paper draws a whole distribution from a categorical one, which is not defined; c answers are our
reading, c being the mean number of labels of a training item unless the hyper-parameter says otherwise. Its sum over l
of Omega_l Theta[g, l] to the power of these answers, read word by word, has all of them come from one cluster of
annotators; but h(x) is a mixture over all of them, and the flattest distribution wins. Of twelve crowds drawn from the
model, two clusters of annotators each, clusters' own distributions were then projected onto others in nine, and hard
projection had a divergence of .157 from the truth; with the score above it has .010 (no projection: .013).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, final

import numpy as np
from annotated_types import Gt

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._cost import training_cost
from crowdsweep.models._em import normalised
from crowdsweep.models.aggregate._clustered import ClusterModel, FittedClusters
from crowdsweep.models.clusters import ClusteredCrowd, Clusters, ItemClusters, projected
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, Predictor, handing_on
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers
from crowdsweep.models.two_stage._pair import READS_FEATURES, model_class, name_of
from crowdsweep.models.two_stage._training import ValidatedTraining

TestSnap = Literal["hard", "soft", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GuidedPredictor:
    """Labels items with a classifier, projected onto clusters; `uses` has all three ways, the chosen one first."""

    classifier: Predictor
    clusters: Clusters
    count: float
    first: TestSnap

    @property
    def uses(self) -> tuple[str, ...]:
        return (self.first, *(use for use in ("hard", "soft", "none") if use != self.first))

    def predict(self, items: Items, use: str) -> ItemProbs:
        probs = self.classifier.predict(items, self.classifier.uses[0])
        if use == "none":
            return probs
        return projected(self._memberships(probs), self.clusters.distributions, "hard" if use == "hard" else "soft")

    def label_probs(self, crowd: ClusteredCrowd, items: Items, item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        """Returns the predictive probabilities of annotators' labels of items, by the clusters that the classifier
        predicts.
        """
        memberships = self._memberships(self.classifier.predict(items, self.classifier.uses[0]))
        return replace(crowd, items=memberships).label_probs(item, annotator)

    def _memberships(self, probs: ItemProbs) -> ItemClusters:
        return normalised(self.clusters.scores(probs, self.count))[0]


@final
@dataclass(frozen=True, kw_only=True)
class Guided:
    """Hyper-parameters of the classifier around a model of clusters.

    Attributes:
        test_snap: whether a prediction is projected onto the nearest cluster, onto a mix of all clusters, or not.
        projection_count: how many answers a prediction stands for when clusters are scored; null: the mean number of
            labels of a training item, as they are weighted.
        training: of the classifier.
    """

    test_snap: TestSnap = "hard"
    projection_count: Annotated[float, Gt(0)] | None = None
    training: ValidatedTraining = ValidatedTraining()

    def fit(self, model: ClusterModel, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits the clusters, then trains a classifier on each fit's item_probs, all together.

        Fits without any annotation, or that were stopped, keep the cluster model's result and label no unseen item.
        Epochs are reported as further steps, with the cluster model's last objective.
        """
        self.training.classifier.build(data[0])  # misses what it needs before the clusters are looked for
        fitted = model.fit_clusters(data, contexts)
        results = [one.result for one in fitted]
        taught = [i for i, part in enumerate(data) if len(part.annotations) and fitted[i].reporter.goes_on]
        if not taught:
            return results
        jobs = [self._job(fitted[i], data[i], contexts[i]) for i in taught]
        training = self.training
        trained = train_classifiers(training.classifier, jobs, training.schedule, contexts[0].device)
        for i, classifier in zip(taught, trained, strict=True):
            predictor = self._predictor(fitted[i].crowd.clusters, data[i], classifier.predictor)
            answers = partial(predictor.label_probs, fitted[i].crowd)
            results[i] = replace(results[i], predictor=predictor, unseen_label_probs=answers)
        return results

    def _job(self, fitted: FittedClusters, data: TrainingData, context: FitContext) -> TrainingJob:
        """Returns the classifier's training on the labelled items' cluster distributions."""
        labelled = data.annotations.labels_per_item > 0

        # The objective stays the clusters': the classifier's own says less.
        def report(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:  # noqa: ARG001
            return context.report(fitted.reporter.step + step, fitted.reporter.best, predictor)

        return TrainingJob(
            data=data,
            targets=fitted.result.item_probs * labelled[:, None],
            seeds=context.seeds.child("classifier"),
            report=handing_on(report, partial(self._predictor, fitted.crowd.clusters, data)),
            checkpoint=context.checkpoint,
        )

    def _predictor(self, clusters: Clusters, data: TrainingData, classifier: Predictor) -> GuidedPredictor:
        """Returns what labels unseen items."""
        annotations = data.annotations
        counts = np.asarray(annotations.counts.sum(axis=1))[annotations.labels_per_item > 0]
        count = float(counts.mean()) if self.projection_count is None else self.projection_count
        return GuidedPredictor(classifier=classifier, clusters=clusters, count=count, first=self.test_snap)


GUIDED_SPACE: Mapping[str, Any] = {
    "snap": {"values": ["hard", "soft"]},
    "test_snap": {"values": ["hard", "soft", "none"]},
    "projection_count": {"values": [1, 5, 10, 50]},
}


def guided(module: str, clusters: ModelInfo, version: int = 1) -> ModelInfo:
    """Returns a classifier around a model of clusters, whose hyper-parameters are those of both.

    Args:
        module: `__name__` of the model's file, which has the model's name.
        version: raised with that of the model of labels.
    """

    def fit_batch(model: Any, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        return model.guided.fit(model.clusters, data, contexts)

    inner = clusters.cost
    return ModelInfo(
        name=name_of(module),
        title=f"A classifier trained on the clusters of {clusters.name}, with predictions projected onto them",
        model=model_class(module, fit_batch, clusters=clusters.model(), guided=Guided()),
        steps=clusters.steps,
        predicts_labels=clusters.predicts_labels,
        checkpoints=True,
        source="Weerasooriya, Ororbia and Homan, equations 1 and 2",
        needs=clusters.needs | READS_FEATURES,
        supports=clusters.supports,
        version=version,
        space={**clusters.space, **GUIDED_SPACE},
        cost=lambda shape, params: (0.0 if inner is None else inner(shape, params)) + training_cost(shape, params),
        monotone_objective=clusters.monotone_objective,
        label_symmetric=clusters.label_symmetric,
    )
