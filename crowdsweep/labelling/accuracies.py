"""The posterior of each annotator's accuracy, with a 95 % interval, where the items' classes are known only as
probabilities.

For each answer y, the other annotators' answers give the probability o that y is right. An annotator of accuracy a
gives the answer y with probability

    o a + (1 - a) e,      e = sum over the other classes k of others[k] W[k, y]

where W[k] is the crowd's distribution of wrong answers if k is the right class. Where errors are spread evenly,
e = (1 - o)/(K - 1). The likelihood of a is the product over the annotator's answers. The mean of o does not estimate
the accuracy: for an annotator who is always right, it measures how sure the others are.

The prior is Jeffreys's, Beta(1/2, 1/2), which is flat in the angle whose squared sine is a. The interval holds the most
probable 95 % of that angle. So it contains the most probable accuracy too, which is 1 for an annotator who may never
err.

The model takes errors of different annotators to be independent. Where annotators make the same errors, all of them
look better than they are, and intervals are too narrow. `evidence` corrects for that: it is the power to which the
likelihood of each answer is raised. Callers estimate it from how sure the others' posteriors are of answers that they
have not seen.
"""

import numpy as np
from jaxtyping import Float64, Int64
from scipy import special

from crowdsweep.arrays import floored_log

_COARSE, _FINE = 32, 96  # points of the two grids
_FAR = 14.0  # log-likelihoods that lie further below the maximum are negligible
_BLOCK = 1 << 15  # answers per block, which a core's cache holds
_INSIDE = 0.95

Column = Float64[np.ndarray, " annotators"]
Rows = Float64[np.ndarray, " rows"]
Grid = Float64[np.ndarray, "annotators points"]


def accuracies(
    place: Int64[np.ndarray, " rows"], right: Rows, wrong: Rows, weight: Rows, evidence: float
) -> tuple[Column, Column, Column]:
    """Returns the posterior mean of each annotator's accuracy, and the ends of its 95 % interval.

    Args:
        place: number of each answer's annotator, ascending; every number from 0 has at least one answer.
        right: probability of each answer, given that its annotator is right.
        wrong: probability of each answer, given that its annotator errs.
        weight: weight of each answer.
        evidence: power to which the likelihood of an answer is raised, in (0, 1]; 1 where errors are independent.
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
            # Every annotator has a row here, as reduceat needs: of an empty group it returns another's number.
            found[:, point] = np.add.reduceat(said, first)
        return found

    # The likelihood of many answers is narrower than a grid's step. So a coarse grid finds where it is not negligible,
    # and a fine one is laid there, one cell wider on either side.
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
    """Returns a mask of the most probable points that hold `_INSIDE` together. They form one interval, because the
    log-likelihood is concave in the accuracy."""
    order = np.argsort(-posterior, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(posterior, order, axis=1), axis=1) - np.take_along_axis(
        posterior, order, axis=1
    )
    inside = np.zeros(posterior.shape, dtype=bool)
    np.put_along_axis(inside, order, before < _INSIDE, axis=1)
    return inside
