"""The accuracy of an annotator whose items' classes are only believed, with its interval.

Of each answer y the others' answers say how probable it is to be right, o. An annotator of accuracy a gives it with
probability

    o a + (1 - a) e,      e = sum over the other classes k of others[k] W[k, y]

where W[k] says which wrong answers are given where k is right, as the crowd gives them (evenly: e = (1 - o)/(K - 1)).
The product over the answers is the likelihood of a. The mean of o would be no accuracy: of somebody who is always
right it is what the others are sure of.

The prior is Jeffreys's, Beta(1/2, 1/2): flat in the angle of a = sin². There the interval holds the 95 % that are most
probable, and so the likeliest accuracy too, 1 of somebody who may never err. It takes errors of different annotators to
be independent. Where they err alike, everybody looks better than they are and intervals are too narrow; `evidence` says
what an answer is worth then (the likelihood to that power), told by how sure the others' answers are of each other.
"""

import numpy as np
from jaxtyping import Float64, Int64
from scipy import special

from crowdsweep.arrays import floored_log

_COARSE, _FINE = 32, 96  # points
_FAR = 14.0  # below the highest log-likelihood nothing is left that matters
_BLOCK = 1 << 15  # answers at a time, which a core's cache holds
_INSIDE = 0.95

Column = Float64[np.ndarray, " annotators"]
Rows = Float64[np.ndarray, " rows"]
Grid = Float64[np.ndarray, "annotators points"]


def accuracies(
    place: Int64[np.ndarray, " rows"], right: Rows, wrong: Rows, weight: Rows, evidence: float
) -> tuple[Column, Column, Column]:
    """Returns the posterior mean of each annotator's accuracy, and the ends of its 95 % interval.

    Args:
        place: of each answer, the number of its annotator, ascending, every number from 0 having at least one.
        right: probability of the answer where the annotator is right.
        wrong: the same where the annotator errs.
        weight: of each answer.
        evidence: what an answer is worth, in (0, 1]; 1 where errors are independent.
    """
    first = np.append(np.flatnonzero(np.diff(place, prepend=-1)), len(place))
    parts: list[tuple[Column, Column, Column]] = []
    start = 0
    while start < len(first) - 1:
        stop = max(int(np.searchsorted(first, first[start] + _BLOCK, side="right")) - 1, start + 1)
        rows = slice(first[start], first[stop])
        parts.append(_block(place[rows] - start, right[rows], wrong[rows], weight[rows] * evidence))
        start = stop
    mean, low, high = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return mean, low, high


def _block(place: np.ndarray, right: Rows, wrong: Rows, weight: Rows) -> tuple[Column, Column, Column]:
    first = np.flatnonzero(np.diff(place, prepend=-1))
    n = len(first)

    def likelihood(angle: Grid) -> Grid:
        found = np.empty(angle.shape)
        for point, accuracy in enumerate(np.sin(angle.T) ** 2):
            of_row = accuracy[place]
            said = weight * floored_log(of_row * right + (1.0 - of_row) * wrong)
            found[:, point] = np.add.reduceat(said, first)
        return found

    width = 0.5 * np.pi / _COARSE
    coarse = likelihood(np.tile((np.arange(_COARSE) + 0.5) * width, (n, 1)))
    near = coarse >= coarse.max(axis=1, keepdims=True) - _FAR
    low = np.maximum(near.argmax(axis=1) - 1, 0) * width
    high = np.minimum(_COARSE - near[:, ::-1].argmax(axis=1) + 1, _COARSE) * width
    step = (high - low) / _FINE
    angle = low[:, None] + (np.arange(_FINE) + 0.5) * step[:, None]
    posterior = special.softmax(likelihood(angle), axis=1)
    mean = (posterior * np.sin(angle) ** 2).sum(axis=1)
    inside = _most_probable(posterior)
    begin = low + inside.argmax(axis=1) * step
    end = high - inside[:, ::-1].argmax(axis=1) * step
    return mean, np.sin(begin) ** 2, np.sin(end) ** 2


def _most_probable(posterior: Grid) -> np.ndarray:
    """Returns a mask of the points with the highest probabilities that make up `_INSIDE` together: one piece, as the
    logarithm of the likelihood is concave in the accuracy."""
    order = np.argsort(-posterior, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(posterior, order, axis=1), axis=1) - np.take_along_axis(
        posterior, order, axis=1
    )
    inside = np.zeros(posterior.shape, dtype=bool)
    np.put_along_axis(inside, order, before < _INSIDE, axis=1)
    return inside
