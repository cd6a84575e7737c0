"""Weighted votes, and annotators' answers counted against the votes of the item's other annotators."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, add_rows, normalised_rows, ratio
from crowdsweep.models._em import IN_CACHE, ColumnProbs, StackedCrowds, chunks, em_results, soft_vote
from crowdsweep.models._steps import Stepped
from crowdsweep.models.aggregate._coins import PerEntry, coins, right_entries
from crowdsweep.models.aggregate._rows import by_code, pairs_of
from crowdsweep.models.contract import FitResult

Weights = Float64[np.ndarray, " annotators"]
Votes = Float64[np.ndarray, "items classes"]


def weighted_votes(crowds: StackedCrowds, weights: Weights) -> Votes:
    """Returns for each item and class the summed weights of the annotators who gave that label. O(A)."""
    answers = crowds.answers
    return crowds.vote_sums(answers.data * weights[crowds.column_annotator[answers.indices]])


def counts_against_others(
    crowds: StackedCrowds, weights: Weights, posterior_of: Callable[[ItemProbs], ItemProbs]
) -> ColumnProbs:
    """Counts answers [columns, classes], each against the votes of its item's other annotators. O(A K).

    Against a vote that includes it, a single answer per item would make its annotator perfect.

    Args:
        weights: of each annotator's votes, at least 0.
        posterior_of: from the shares of the votes, uniform where there is none, to a posterior of the items.
    """
    votes = weighted_votes(crowds, weights)
    item, annotator, first = pairs_of(crowds)
    answers, n_classes = crowds.answers, crowds.n_classes
    counts = np.zeros((len(crowds.column_label), n_classes))
    for pairs in chunks(len(first) - 1, n_classes, IN_CACHE):
        part = slice(int(first[pairs.start]), int(first[pairs.stop]))
        pair = np.repeat(np.arange(pairs.stop - pairs.start), np.diff(first[pairs.start : pairs.stop + 1]))
        own = np.zeros((pairs.stop - pairs.start, n_classes))
        own[pair, crowds.column_label[answers.indices[part]]] = answers.data[part] * weights[annotator[part]]
        left_out = votes[item[first[pairs]]] - own
        # Votes less the annotator's own: what is left of a sole answer is rounding, not a vote.
        left_out[left_out <= 1e-9 * own.sum(axis=1, keepdims=True)] = 0.0
        probs = posterior_of(normalised_rows(left_out))
        add_rows(counts, answers.indices[part], answers.data[part][:, None] * probs[pair])
    return counts


def agreement_with_others(crowds: StackedCrowds, weights: Weights, votes: Votes) -> PerEntry:
    """Returns for each entry of `answers` the share that its label has of the votes of its item's other annotators, an
    even one where there are none: what `counts_against_others` counts for an answer's own label, in O(A).

    Args:
        weights: of each annotator's votes, at least 0.
        votes: `weighted_votes` of both.
    """
    item, annotator, first = pairs_of(crowds)
    pair = np.repeat(np.arange(len(first) - 1), np.diff(first))
    own = crowds.answers.data * weights[annotator]
    own_of_pair = np.bincount(pair, own)[pair]
    left = votes[item, crowds.column_label[crowds.answers.indices]] - own
    total = (votes @ np.ones(crowds.n_classes))[item] - own_of_pair
    for found in (left, total):
        found[found <= 1e-9 * own_of_pair] = 0.0
    return ratio(left, total, at_zero=1.0 / crowds.n_classes)


def voted_results(crowds: StackedCrowds, weights: Weights, stepped: Stepped[Any], smoothing: float) -> list[FitResult]:
    """Returns the result of each replica, whose items have their weighted votes for probabilities.

    An item whose votes have weight zero has its unweighted votes. Annotators have one accuracy each.

    Args:
        smoothing: pseudo-counts of the accuracies.
    """
    votes = weighted_votes(crowds, weights)
    decided = (votes @ np.ones(crowds.n_classes) > 0).all()
    item_probs = normalised_rows(votes, at_zero=None if decided else soft_vote(crowds))
    annotators = coins(crowds, right_entries(crowds, agreement_with_others(crowds, weights, votes)), smoothing)
    parts = [crowds.annotators_of(replica) for replica in range(crowds.n_replicas)]
    extras = [
        {"annotator_accuracy": own.accuracy, "annotator_weight": by_code(crowds, replica, weights[mine])}
        for replica, (own, mine) in enumerate(zip(annotators, parts, strict=True))
    ]
    return em_results(crowds, item_probs, stepped, annotators, extras)
