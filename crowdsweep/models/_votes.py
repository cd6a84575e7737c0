"""Which of a model's classes is which: what it says of the items, held against their votes.

A model that estimates confusion matrices fits the answers as well with its classes exchanged, rows of the matrices
included: likelihood cannot tell. What names the classes is that most answers are right, so the vote does.
"""

from typing import cast

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.models._em import winners

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


def exchanged_classes(agreeing: Agreement, n_items: int) -> Int64[np.ndarray, " classes"] | None:
    """Returns for each class the one that the model takes it for, where its classes are the votes' in another order.

    None where they are not, that is where no other order agrees much better than the model's own.

    Args:
        agreeing: from `agreement`.
        n_items: with votes.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - who describes a model needs none of it

    _, order = linear_sum_assignment(-agreeing)
    gain = agreeing[np.arange(len(order)), order].sum() - np.trace(agreeing)
    if gain <= max(_LEAST_SHARE, _LEAST_VOTES / max(n_items, 1)):
        return None
    return cast(np.ndarray, order).astype(np.int64)
