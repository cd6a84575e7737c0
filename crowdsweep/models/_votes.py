"""Label switching: whether a model's classes are the votes' classes in another order.

The likelihood of a model with confusion matrices stays the same when its classes are permuted together with the rows of
the matrices. As most answers are right, the votes decide which class is which.
"""

from typing import cast

import numpy as np
from jaxtyping import Float64, Int64
from scipy import sparse as sp

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.models._em import chunks, winners

_PIECE = 1 << 18  # numbers at a time

Agreement = Float64[np.ndarray, "classes classes"]

# By so much of all votes must another naming of the classes agree better, and by so many votes: less is chance, or two
# classes that annotators themselves confuse.
_LEAST_SHARE, _LEAST_VOTES = 0.1, 5


def agreement(votes: ItemProbs, item_probs: ItemProbs) -> Agreement:
    """Returns for each class the share of all items' votes for it [voted], by the class that a model says [said].

    Args:
        votes: of the items that have any; rows sum to one.
        item_probs: of the same items; the likeliest class counts, shared evenly where several tie.
    """
    return votes.T @ winners(item_probs) / max(len(votes), 1)


def permuted_classes(agreeing: Agreement, n_items: int) -> Int64[np.ndarray, " classes"] | None:
    """Returns for each voted class the model's class, where the model has the votes' classes in another order.

    None where no other order agrees much better than the model's own.

    Args:
        n_items: with votes.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - who describes a model needs none of it

    _, order = linear_sum_assignment(-agreeing)
    gain = agreeing[np.arange(len(order)), order].sum() - np.trace(agreeing)
    return None if gain <= _chance(n_items) else cast(np.ndarray, order).astype(np.int64)


def surely_in_order(annotations: Annotations, item_probs: ItemProbs) -> bool:
    """Whether `permuted_classes` certainly finds no other order, without a table of classes × classes: even with the
    best class for each voted class, repeats allowed, the agreement is hardly better. O(items × classes).
    """
    answered = np.flatnonzero(annotations.labels_per_item)
    pieces = chunks(len(answered), item_probs.shape[1], _PIECE)
    said = sp.vstack([sp.csr_array(winners(item_probs[answered[part]])) for part in pieces], format="csr")
    votes = annotations.counts[answered]
    weight = 1.0 / np.asarray(votes.sum(axis=1)).ravel()
    values = votes.data * np.repeat(weight, np.diff(votes.indptr))
    shares = sp.csr_array((values, votes.indices, votes.indptr), shape=votes.shape)
    agreeing = sp.coo_array(shares.T @ said)
    row, column = agreeing.coords
    most = np.zeros(annotations.n_classes)
    np.maximum.at(most, row, agreeing.data)
    gain = (most.sum() - agreeing.data[row == column].sum()) / max(len(weight), 1)
    return bool(gain <= _chance(len(weight)))


def _chance(n_items: int) -> float:
    return max(_LEAST_SHARE, _LEAST_VOTES / max(n_items, 1))
