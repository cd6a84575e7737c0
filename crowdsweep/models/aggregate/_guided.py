"""A cluster model of labels around a classifier: train on cluster distributions, snap predictions back to clusters.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._classifiers import ClassifierSettings, NetworkPredictor, build_network
from crowdsweep.models._em import chunks, normalised, winners
from crowdsweep.models._training import Lesson, Schedule, train_classifiers, watched_of
from crowdsweep.models.contract import FitContext, FitResult, Report

Snap = Literal["hard", "soft"]
TestSnap = Literal["hard", "soft", "none"]


class GuidedSettings(ClassifierSettings, Protocol):
    """The hyper-parameters of the classifier that both models have."""

    @property
    def test_snap(self) -> TestSnap: ...
    @property
    def projection_count(self) -> float | None: ...
    @property
    def epochs(self) -> int: ...
    @property
    def patience(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """What a fitted cluster model knows of clusters. FMM has one annotator cluster.

    Attributes:
        item_shares: psi, probability of each item cluster [clusters].
        annotator_shares: Omega [annotator_clusters].
        labels: Theta, label distribution of each pair of clusters [clusters, annotator_clusters, classes].
        distributions: what an item of each cluster is labelled with [clusters, classes].
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
class Progress:
    """Reports the best objective of all restarts of one replica so far, a report for each step of each restart."""

    report: Report
    step: int = 0
    best: float = -np.inf

    def note(self, objective: float) -> None:
        """Takes notice of one step."""
        self.best = max(self.best, objective)
        self.step += 1
        self.report(self.step, self.best)


def snapped(memberships: Float64[np.ndarray, "items clusters"], distributions: np.ndarray, snap: Snap) -> ItemProbs:
    """Returns the distribution of each item's best cluster (ties shared evenly), or the mixture of all."""
    return (winners(memberships) if snap == "hard" else memberships) @ distributions


@dataclass(frozen=True, kw_only=True, eq=False)
class GuidedPredictor:
    """Labels items with a classifier and snaps to clusters; `uses` has all three ways, the chosen one first."""

    network: NetworkPredictor
    clusters: Clusters
    count: float
    first: TestSnap

    @property
    def uses(self) -> tuple[str, ...]:
        return (self.first, *(use for use in ("hard", "soft", "none") if use != self.first))

    def predict(self, items: Items, use: str) -> ItemProbs:
        """Returns class probabilities [items, classes]."""
        probs = self.network.predict(items, self.network.uses[0])
        if use == "none":
            return probs
        memberships, _ = normalised(self.clusters.scores(probs, self.count))
        return snapped(memberships, self.clusters.distributions, "hard" if use == "hard" else "soft")


def with_classifiers(
    settings: GuidedSettings,
    fitted: Sequence[tuple[FitResult, Clusters]],
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
) -> list[FitResult]:
    """Trains a classifier on each fit's item_probs, all together, and adds the predictors.

    Fits of items without features, or without any annotation, come back as they are.
    """
    results = [result for result, _ in fitted]
    taught = [i for i, part in enumerate(data) if part.items.features is not None and len(part.annotations)]
    if not taught:
        return results
    lessons = [_lesson(results[i], data[i], contexts[i]) for i in taught]
    schedule = Schedule(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        patience=settings.patience,
    )
    network = build_network(settings, lessons[0].features.shape[1], data[0].n_classes)
    trained = train_classifiers(network, lessons, schedule, contexts[0].device)
    for i, classifier in zip(taught, trained, strict=True):
        given = settings.projection_count
        predictor = GuidedPredictor(
            network=classifier.predictor,
            clusters=fitted[i][1],
            count=_labels_per_item(data[i]) if given is None else given,
            first=settings.test_snap,
        )
        results[i] = replace(results[i], predictor=predictor)
    return results


def _lesson(result: FitResult, data: TrainingData, context: FitContext) -> Lesson:
    if data.items.features is None:
        raise TypeError("a lesson needs features")
    return Lesson(
        features=data.items.features,
        targets=result.item_probs,
        weights=(data.annotations.labels_per_item > 0).astype(np.float64),
        seeds=context.seeds.child("classifier"),
        watched=watched_of(data),
    )


def _labels_per_item(data: TrainingData) -> float:
    counts = data.annotations.labels_per_item
    return float(counts[counts > 0].mean())
