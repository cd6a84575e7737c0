"""Temperature scaling of probabilities, fitted to answers that they were not computed from.

Probabilities q of an item's class are the better, the more probable they make answers that were not used for them. An
answer is right with probability a, the same for all answers, and otherwise is any of the other classes:

    p(answer y) = a q'[y] + (1 - a) (1 - q'[y]) / (K - 1),      q'[k]  ~  (n q[k] + s)^(1 / T) / (n + K s)^(1 / T)

T is the temperature. It is above 1 where probabilities are surer than they should be, as those of models that assume
independent errors where people make the same errors. s is a pseudo-count that is added to the n answers of an item: a
share of votes is zero where nobody gave the class, which no temperature corrects. At each temperature a takes the value
of the highest likelihood, so none of this needs gold. Temperature scaling is by Guo et al., ICML 2017; here answers of
the crowd take the place of gold.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int
from scipy import special

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.models._em import chunks

TEMPERATURES: Float64[np.ndarray, " temperatures"] = np.exp(np.linspace(np.log(0.15), np.log(30.0), 45))
_ACCURACIES = np.linspace(0.02, 0.995, 80)
_PIECE = 1 << 18  # numbers per piece, which a core's cache holds
_BINS = 400  # bins of probabilities; those in one bin are counted as their mean

Curve = Float64[np.ndarray, " temperatures"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Unseen:
    """Held-out answers, with probabilities that were not computed from them.

    Attributes:
        probs: probabilities of each answer's question.
        n_answers: number of answers that these were computed from.
        certainty: probability that the annotator gives to the answer; the rest goes to the others.
        total: number of answers that the rows are a sample of; None where they are all.
    """

    probs: ItemProbs
    n_answers: Float64[np.ndarray, " rows"]
    answer: Int[np.ndarray, " rows"]
    certainty: Float64[np.ndarray, " rows"]
    weight: Float64[np.ndarray, " rows"]
    total: int | None = None

    def thinned(self, most: int) -> "Unseen":
        """Returns at most `most` rows, evenly spaced."""
        some = evenly_spaced(len(self.answer), most)
        return replace(
            self,
            probs=self.probs[some],
            n_answers=self.n_answers[some],
            answer=self.answer[some],
            certainty=self.certainty[some],
            weight=self.weight[some],
        )


def evenly_spaced(n_rows: int, most: int) -> slice:
    """Returns a slice that takes at most `most` of `n_rows` rows, evenly spaced."""
    return slice(None, None, -(-n_rows // most) or 1)


def tempered(
    probs: ItemProbs, n_answers: Float64[np.ndarray, " rows"], temperature: float, smoothing: float
) -> ItemProbs:
    """Returns probabilities at a temperature, after `smoothing` pseudo-counts for each class; the order of an item's
    classes does not change.

    Args:
        probs: rows sum to one.
        n_answers: number of answers behind each row.
        temperature: above 0; 1 changes nothing.
        smoothing: at least 0.
    """
    return special.softmax(_smoothed_logs(probs, n_answers, smoothing) / temperature, axis=1)


def _smoothed_logs(probs: ItemProbs, n_answers: Float64[np.ndarray, " rows"], smoothing: float) -> ItemProbs:
    if smoothing:
        counts = n_answers[:, None] * probs + smoothing
        probs = counts / counts.sum(axis=1, keepdims=True)
    return floored_log(probs)


def curve(unseen: Unseen, smoothing: float) -> Curve:
    """Returns the log-likelihood of the answers at each of `TEMPERATURES`, with the best accuracy for that
    temperature."""
    right = np.empty((len(TEMPERATURES), len(unseen.answer)))
    for part in chunks(len(unseen.answer), unseen.probs.shape[1], _PIECE):
        logs, answer = _smoothed_logs(unseen.probs[part], unseen.n_answers[part], smoothing), unseen.answer[part]
        for place, temperature in enumerate(TEMPERATURES):
            right[place, part] = special.softmax(logs / temperature, axis=1)[np.arange(len(answer)), answer]
    return np.array([_likelihood(unseen, one) for one in right])


def mean_temperature(likelihood: Curve, about: float = 1.0, width: float = 1.0) -> float:
    """Returns the posterior mean of the temperature (a mean of logarithms).

    Args:
        likelihood: a log-likelihood for each of `TEMPERATURES`.
        about, width: centre of the prior, and its standard deviation in logarithms.
    """
    return float(np.exp(special.softmax(likelihood + prior(about, width)) @ np.log(TEMPERATURES)))


def prior(about: float, width: float) -> Curve:
    """Returns the logarithm of a prior of temperatures that is normal in their logarithms."""
    return -0.5 * ((np.log(TEMPERATURES) - np.log(about)) / width) ** 2


def said_by(certainty: np.ndarray, one: np.ndarray, n_answers: int) -> np.ndarray:
    """Returns the mean, over the classes that an unsure answer stands for, of numbers that sum to one over all classes.
    `one` is the number of the answer's class; the rest of the certainty is spread evenly over the other classes."""
    if np.all(certainty == 1.0):
        return one
    return certainty * one + (1.0 - certainty) * (1.0 - one) / max(n_answers - 1, 1)


def _likelihood(unseen: Unseen, believed: Float64[np.ndarray, " rows"]) -> float:
    """Returns the log-likelihood of the answers at the best accuracy, from the probability that each of them is
    right."""
    size = unseen.probs.shape[1]
    right = said_by(unseen.certainty, believed, size)
    # An answer's likelihood depends on its `right` alone: counted in 400 bins, the answers may be any number.
    place = np.minimum((right * _BINS).astype(np.int64), _BINS - 1)
    weight = np.bincount(place, unseen.weight, minlength=_BINS)
    there = weight > 0
    mean = np.bincount(place, unseen.weight * right, minlength=_BINS)[there] / weight[there]
    of_answers = mean[:, None] * _ACCURACIES + (1.0 - mean)[:, None] * (1.0 - _ACCURACIES) / max(size - 1, 1)
    return float((weight[there] @ floored_log(of_answers)).max(initial=-np.inf)) if there.any() else 0.0
