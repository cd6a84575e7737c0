"""Annotators who give the same answers more often than independent errors allow: copies, and judges of one family.

Gold shows it directly: given the numbers of errors of two annotators, the number of errors that they make together is
hypergeometric (`correlated_errors`).

Without gold a model of annotators is no witness: it takes two who copy each other for two who are always right, and
their agreement for what it expects. So agreement is predicted from the *other* pairs (`excess_agreement`). Where errors
are independent, the covariance x[i, j] of two annotators' answers is a product m[i] m[j], of two classes whatever the
classes' shares and the annotators' errors, and whether items are easy or hard; of several where errors go evenly, and
nearly elsewhere. So for any two others a and b

    x[i, j] x[a, b]  =  x[i, a] x[b, j]

and the least squares of these equations, in which x[i, j] itself has no part, say what it should be. These are the
tetrad differences of Spearman and Holzinger ("The sampling error in the theory of two factors", British Journal of
Psychology 1924). Their errors are those of a jackknife over blocks of items, but at least what a covariance of so many
answers has. The pair without which the others agree best is named, its covariance taken away, and the others are
compared anew. Answers on a scale of steps are compared by their correlation, which has the same property.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64
from scipy import stats

from crowdsweep.labelling.questions import Questions

_MOST = 80  # annotators who are compared: those with the most answers
_FEWEST = 20  # questions that both annotators of a pair have answered, at least
_EXCESS = 0.05  # least excess of a pair's share of agreement over the expected share
_CHANCE = 0.01
_CERTAIN = 0.99  # least certainty: two who are unsure of the same label have not said the same
_NAMED = 5
_MOST_FOUND = 50  # pairs
_LEAST_ANNOTATORS = 4  # two of whom, at least, say how often two others should agree
_BLOCKS = 40  # of the jackknife
_MOST_CLASSES = 21
_PIECE = 1 << 21  # numbers of one part of a block
_LEAST_BELOW = 1e-9

Pairs = Float64[np.ndarray, "blocks annotators annotators"]


def correlated_errors(questions: Questions, truth: Int64[np.ndarray, " questions"], names: Sequence[str]) -> str | None:
    """Returns a message that names the pairs who are wrong on the same questions more often than by chance. It is empty
    where there are none, and None where no pair has answered enough of the same questions with gold.

    Args:
        truth: right answer of each question, -1 where it is not known.
    """
    most, own = _with_most(questions, truth[questions.question] >= 0)
    asked = [questions.question[rows] for rows in own]
    wrong = [questions.answer[rows] != truth[where] for rows, where in zip(own, asked, strict=True)]
    found: list[tuple[float, int, float, int, int, int]] = []
    compared = 0
    for one, other in combinations(range(len(most)), 2):
        shared, here, there = np.intersect1d(asked[one], asked[other], assume_unique=True, return_indices=True)
        if (n := len(shared)) < _FEWEST:
            continue
        compared += 1
        errs, errs_too = wrong[one][here], wrong[other][there]
        both, expected = int((errs & errs_too).sum()), float(errs.sum() * errs_too.sum() / n)
        p = float(stats.hypergeom.sf(both - 1, n, int(errs.sum()), int(errs_too.sum())))
        if both - expected > _EXCESS * n:
            found.append((p, both, expected, n, one, other))
    if not compared:
        return None
    sure = sorted(pair for pair in found if pair[0] < _CHANCE / compared)
    if not sure:
        return ""
    shown = ", ".join(
        f"{names[int(most[one])]} and {names[int(most[other])]} ({both} of {n}, expected {expected:.1f})"
        for _, both, expected, n, one, other in sure[:_NAMED]
    )
    more = ", …" if len(sure) > _NAMED else ""
    return (
        f"{len(sure)} of {compared} pairs of annotators are wrong on the same items with gold more often than "
        f"independent errors allow: {shown}{more}; their opinion counts twice, and their accuracies are too high"
    )


def excess_agreement(questions: Questions, names: Sequence[str], *, ordinal: bool) -> str:
    """Returns a message that names the pairs who agree more often than the answers of the others allow; empty where
    there are none, and where fewer than four annotators can be compared.

    Args:
        questions: of single-label data.
        ordinal: whether classes are steps of a scale.
    """
    most, own = _with_most(questions, np.ones(len(questions.question), dtype=bool))
    if len(most) < _LEAST_ANNOTATORS:
        return ""
    products, shared, chance = _products(questions, own, ordinal=ordinal)
    n, answers = shared.sum(axis=0), np.array([len(rows) for rows in own])
    open_to = (n >= _FEWEST) & ~np.eye(len(n), dtype=bool)
    compared = int(open_to.sum()) // 2
    found: list[tuple[float, float, int, int]] = []
    while len(found) < _MOST_FOUND:
        excess, expected = _excess(products.sum(axis=0), n, open_to)
        without = np.stack(
            [
                _excess(products.sum(axis=0) - part, n - its, open_to)[0]
                for part, its in zip(products, shared, strict=True)
            ]
        )
        error = np.sqrt((len(without) - 1) * without.var(axis=0))
        error = np.sqrt(np.maximum(error**2, _variance(expected, None if ordinal else chance, n, answers)))
        error = np.where(np.isfinite(error), np.maximum(error, _LEAST_BELOW), np.inf)
        limit = stats.t.isf(_CHANCE / max(compared, 1), len(without) - 1)
        pairs = np.argwhere(np.triu(open_to & (excess > np.maximum(_EXCESS, limit * error))))
        if not len(pairs):
            break
        one, other = _explains_most(pairs, products.sum(axis=0), n, open_to, error)
        said = expected[one, other] + chance[one, other]
        found.append((said + excess[one, other], said, one, other))
        open_to[[one, other], [other, one]] = False
    if not found:
        return ""
    how = "their answers correlate by {0:.2f}, expected {1:.2f}" if ordinal else "{0:.0%}, expected {1:.0%}"
    shown = ", ".join(
        f"{names[int(most[one])]} and {names[int(most[other])]} ({how.format(min(agree, 1.0), max(said, 0.0))})"
        for agree, said, one, other in found[:_NAMED]
    )
    more = ", …" if len(found) > _NAMED else ""
    pairs_of = f"{len(found)} of {compared} pairs of annotators"
    return (
        f"{pairs_of} agree more often than independent errors allow: {shown}{more}; "
        f"their opinion counts twice: labels look surer than they are, and the accuracies of these annotators too high"
    )


def _products(
    questions: Questions, own: Sequence[Int[np.ndarray, " _"]], *, ordinal: bool
) -> tuple[Pairs, Pairs, Float64[np.ndarray, "annotators annotators"]]:
    """Returns, by block of questions and pair of annotators, the sum of the products of their centred answers and the
    number of questions that both answered; and the agreement of each pair that chance alone brings.

    An answer is the number of its step in standard deviations of its annotator, or an indicator of its class. Classes
    beyond the twenty that are given most often count as one.
    """
    n_annotators, place = len(own), np.repeat(np.arange(len(own)), [len(rows) for rows in own])
    rows = np.concatenate(own)
    _, question = np.unique(questions.question[rows], return_inverse=True)
    answer = questions.answer[rows]
    given = np.bincount(place, minlength=n_annotators).clip(1)[:, None]
    if ordinal:
        values = answer[:, None].astype(np.float64)
    else:
        rank = np.argsort(np.argsort(-np.bincount(answer), kind="stable"))
        values = np.eye(min(int(rank.max()) + 1, _MOST_CLASSES))[np.minimum(rank, _MOST_CLASSES - 1)[answer]]
    mean = np.stack([np.bincount(place, column, n_annotators) for column in values.T], axis=1) / given
    values = values - mean[place]
    if ordinal:
        values /= np.sqrt(np.bincount(place, values[:, 0] ** 2, n_annotators)[:, None] / given + 1e-12)[place]
    chance = np.zeros((n_annotators, n_annotators)) if ordinal else mean @ mean.T
    order = np.argsort(question, kind="stable")
    n_parts = _BLOCKS * -(-(int(question.max()) + 1) * n_annotators * values.shape[1] // (_BLOCKS * _PIECE))
    ends = np.linspace(0, int(question.max()) + 1, n_parts + 1).astype(np.int64)
    bounds = np.searchsorted(question[order], ends)
    products, shared = np.zeros((2, _BLOCKS, n_annotators, n_annotators))
    for part in range(n_parts):
        its = order[bounds[part] : bounds[part + 1]]
        said = np.zeros((n_annotators, ends[part + 1] - ends[part], values.shape[1]))
        said[place[its], question[its] - ends[part]] = values[its]
        there = np.zeros(said.shape[:2])
        there[place[its], question[its] - ends[part]] = 1.0
        flat = said.reshape(n_annotators, -1)
        products[part % _BLOCKS] += flat @ flat.T
        shared[part % _BLOCKS] += there @ there.T
    return products, shared, chance


def _excess(
    products: Float64[np.ndarray, "n n"], shared: Float64[np.ndarray, "n n"], open_to: Bool[np.ndarray, "n n"]
) -> tuple[Float64[np.ndarray, "n n"], Float64[np.ndarray, "n n"]]:
    """Returns by how much the covariance of each pair exceeds what the other pairs say, and what they say; NaN where
    they say nothing. Nobody is taken to know the answer and to say another: covariances below 0 count as 0, and two who
    contradict all others in the same way agree more often than is expected.

    Args:
        open_to: whether a pair's covariance is known and not that of a pair that was found to be dependent.
    """
    covariance = products / np.maximum(shared, 1.0)
    known = open_to.astype(np.float64)
    x = np.maximum(covariance, 0.0) * known
    square = x * x
    of_one = square.sum(axis=1)
    # Sums over all a and b but i and j: those over all, less those where a is j or b is i, which count twice.
    both = of_one[:, None] + of_one
    above = x @ x @ x - x * both + x * square
    below = known @ square @ known - known * both + known * square
    expected = np.where(below > _LEAST_BELOW, above / np.maximum(below, _LEAST_BELOW), np.nan)
    return covariance - expected, expected


def _explains_most(
    pairs: Int[np.ndarray, "pairs 2"],
    products: Float64[np.ndarray, "n n"],
    shared: Float64[np.ndarray, "n n"],
    open_to: Bool[np.ndarray, "n n"],
    error: Float64[np.ndarray, "n n"],
) -> tuple[int, int]:
    """Returns the pair without which the other pairs agree best with each other: where two of five copy each other, the
    other three seem to agree too often as well."""
    left: list[float] = []
    for one, other in pairs:
        rest = open_to.copy()
        rest[[one, other], [other, one]] = False
        away = np.where(rest, _excess(products, shared, rest)[0] / error, 0.0)
        left.append(float(np.nansum(away**2)))
    one, other = pairs[int(np.argmin(left))].tolist()
    return one, other


def _variance(
    expected: Float64[np.ndarray, "n n"],
    chance: Float64[np.ndarray, "n n"] | None,
    shared: Float64[np.ndarray, "n n"],
    answers: Int[np.ndarray, " n"],
) -> Float64[np.ndarray, "n n"]:
    """Returns the variance of a pair's agreement or, where `chance` is None, of its correlation: that of a normal
    sample, and that of the items which both answered, whose steps may vary more than those of all others."""
    n = np.maximum(shared, 1.0)
    if chance is None:
        square = np.clip(expected, -1.0, 1.0) ** 2
        return (1.0 - square) ** 2 / n + (1.0 + square) * (1.0 / n - 1.0 / np.maximum.outer(answers, answers))
    agree = np.clip(expected + chance, 0.0, 1.0)
    return agree * (1.0 - agree) / n


def _with_most(
    questions: Questions, asked: Bool[np.ndarray, " rows"]
) -> tuple[Int64[np.ndarray, " annotators"], list[Int[np.ndarray, " _"]]]:
    """Returns the annotators with most of the rows in `asked` whose answers are certain, and for each of them the rows
    of first answers to questions."""
    asked = asked & (questions.certainty >= _CERTAIN)
    active, answers = np.unique(questions.annotator[asked], return_counts=True)
    most = np.sort(active[np.argsort(-answers, kind="stable")[:_MOST]]).astype(np.int64)
    own: list[Int[np.ndarray, " _"]] = []
    order, code, ends = questions.by_annotator
    for place in np.searchsorted(code, most):
        rows = order[ends[place - 1] if place else 0 : ends[place]]
        rows = rows[asked[rows]]
        own.append(rows[np.unique(questions.question[rows], return_index=True)[1]])
    return most, own
