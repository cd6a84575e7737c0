"""A classifier around a cluster model of labels: train on cluster distributions, snap predictions back to clusters.

What `fmm` and `pgm-bp` share (reference: Weerasooriya, Ororbia and Homan, the guided pipeline and equations 1 and 2).

1. The cluster model is fitted to the training annotations.
2. Each training item's target is the label distribution of its cluster (`snapped`).
3. A classifier h is trained on these targets with the KL loss.
4. For an unseen item, clusters are scored by how well they explain c answers distributed like h(x):

       score_g = log psi_g + logsumexp over l of (log Omega_l + c * sum over k of h_k(x) log Theta[g, l, k])

   and the item gets the distribution of the best cluster (hard), of all in proportion (soft), or h(x) as it is (none).

Equation 2 of the paper draws a whole distribution from a categorical one, which is not defined; c answers are our
reading, c being the mean number of labels of a training item unless the hyper-parameter says otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Gt
from jaxtyping import Float64
from scipy.special import logsumexp

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._em import chunks, normalised, winners
from crowdsweep.models.classifier import Lesson, WatchedTraining, can_read, train_classifiers
from crowdsweep.models.contract import FitContext, FitResult, Predictor, Report

Snap = Literal["hard", "soft"]
TestSnap = Literal["hard", "soft", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """What a fitted cluster model knows of clusters. FMM has one annotator cluster.

    Attributes:
        item_shares: psi, probability of each item cluster.
        annotator_shares: Omega, of each annotator cluster.
        labels: Theta, label distribution of each pair of clusters.
        distributions: what an item of each cluster is labelled with.
    """

    item_shares: Float64[np.ndarray, " clusters"]
    annotator_shares: Float64[np.ndarray, " annotator_clusters"]
    labels: Float64[np.ndarray, "clusters annotator_clusters classes"]
    distributions: Float64[np.ndarray, "clusters classes"]

    def scores(self, probs: ItemProbs, count: float) -> Float64[np.ndarray, "items clusters"]:
        """Returns score_g of each row of class probabilities, taken as `count` answers. O(N G L K)."""
        n_clusters, n_annotator_clusters, n_classes = self.labels.shape
        log_labels = floored_log(self.labels).reshape(-1, n_classes).T
        out = np.empty((len(probs), n_clusters))
        for part in chunks(len(probs), n_clusters * n_annotator_clusters):
            fit = count * (probs[part] @ log_labels).reshape(-1, n_clusters, n_annotator_clusters)
            out[part] = logsumexp(fit + floored_log(self.annotator_shares), axis=2)
        return out + floored_log(self.item_shares)


@dataclass
class RestartReporter:
    """Reports the best objective of a replica's restarts so far, step after step."""

    report: Report
    step: int = 0
    best: float = -np.inf
    goes_on: bool = True

    def note(self, objective: float) -> bool:
        """Reports one step; returns whether the fit goes on."""
        self.best = max(self.best, objective)
        self.step += 1
        self.goes_on = self.report(self.step, self.best)
        return self.goes_on


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedClusters:
    """A fitted cluster model: its result without a predictor, what it knows of clusters, and who reported its steps."""

    result: FitResult
    clusters: Clusters
    reporter: RestartReporter


def snapped(
    memberships: Float64[np.ndarray, "items clusters"],
    distributions: Float64[np.ndarray, "clusters classes"],
    snap: Snap,
) -> ItemProbs:
    """Returns the distribution of each item's best cluster (ties shared evenly), or the mixture of all."""
    return (winners(memberships) if snap == "hard" else memberships) @ distributions


@dataclass(frozen=True, kw_only=True, eq=False)
class GuidedPredictor:
    """Labels items with a classifier and snaps to clusters; `uses` has all three ways, the chosen one first."""

    classifier: Predictor
    clusters: Clusters
    count: float
    first: TestSnap

    @property
    def uses(self) -> tuple[str, ...]:
        return (self.first, *(use for use in ("hard", "soft", "none") if use != self.first))

    def predict(self, items: Items, use: str) -> ItemProbs:
        """Returns class probabilities."""
        probs = self.classifier.predict(items, self.classifier.uses[0])
        if use == "none":
            return probs
        memberships, _ = normalised(self.clusters.scores(probs, self.count))
        return snapped(memberships, self.clusters.distributions, "hard" if use == "hard" else "soft")


@final
@dataclass(frozen=True, kw_only=True)
class Guided:
    """Hyper-parameters of the classifier around a cluster model.

    Attributes:
        snap: a training item gets the distribution of its best cluster, or the mixture of all.
        test_snap: what is done with a classifier's prediction for an unseen item; `none` leaves it.
        projection_count: how many answers a prediction stands for when clusters are scored; null: the mean number of
            labels of a training item.
        training: of the classifier.
    """

    snap: Snap = "hard"
    test_snap: TestSnap = "hard"
    projection_count: Annotated[float, Gt(0)] | None = None
    training: WatchedTraining = WatchedTraining()

    def lesson(self, fitted: FittedClusters, data: TrainingData, context: FitContext) -> Lesson:
        """Returns what the classifier is to learn: the labelled items' cluster distributions."""
        labelled = data.annotations.labels_per_item > 0

        def report(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
            step, objective = fitted.reporter.step + step, fitted.reporter.best  # the classifier's own says less
            if predictor is None:
                return context.report(step, objective)
            return context.report(step, objective, lambda: self.predictor(predictor(), fitted.clusters, data))

        return Lesson(
            data=data,
            targets=fitted.result.item_probs * labelled[:, None],
            seeds=context.seeds.child("classifier"),
            report=report,
        )

    def predictor(self, classifier: Predictor, clusters: Clusters, data: TrainingData) -> GuidedPredictor:
        """Returns what labels unseen items."""
        counts = data.annotations.labels_per_item
        count = float(counts[counts > 0].mean()) if self.projection_count is None else self.projection_count
        return GuidedPredictor(classifier=classifier, clusters=clusters, count=count, first=self.test_snap)


def with_classifiers(
    guided: Guided,
    fitted: Sequence[FittedClusters],
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
) -> list[FitResult]:
    """Trains a classifier on each fit's item_probs, all together, and adds the predictors.

    Fits of items without what the classifier reads, without any annotation, or that were told to stop, come back as
    they are. Epochs are reported as further steps, with the cluster model's last objective.
    """
    results, reads = [one.result for one in fitted], guided.training.classifier.network.needs()
    taught = [
        i
        for i, part in enumerate(data)
        if can_read(reads, part.items) and len(part.annotations) and fitted[i].reporter.goes_on
    ]
    if not taught:
        return results
    lessons = [guided.lesson(fitted[i], data[i], contexts[i]) for i in taught]
    training = guided.training
    trained = train_classifiers(training.classifier, lessons, training.schedule, contexts[0].device)
    for i, classifier in zip(taught, trained, strict=True):
        results[i] = replace(results[i], predictor=guided.predictor(classifier.predictor, fitted[i].clusters, data[i]))
    return results
