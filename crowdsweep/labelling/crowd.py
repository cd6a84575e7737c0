"""How annotators answer, as a crowd and each of them, estimated from what the other annotators' answers say of the same
items.

The others' answers only give probabilities of an item's class. Counting answers by these probabilities would make every
annotator look as doubtful as the others are. Instead they serve as the prior of a class, about which the annotator's
own answer is evidence too. Confusion matrices are estimated by EM:

    believed[k]  ~  others[k] C[k, y],      C[k, y]  ~  sum over the answers y of believed[k]

The others' posteriors are also compared with answers that they have not seen, to learn how over-confident they are
(`temperature`). Models take errors to be independent; where people make the same errors, these posteriors are surer
than they should be.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from crowdsweep.arrays import Confusion, Confusions, ItemProbs, normalised_rows
from crowdsweep.labelling.leave_one_out import Answers
from crowdsweep.labelling.temperature import Unseen, curve, mean_temperature, said_by

_STEPS, _CROWD_STEPS = 15, 50  # of EM
_MOST_ROWS = 100_000  # answers from which the crowd's matrix is estimated, evenly spaced
_MOST_NUMBERS = 40_000_000  # in the table of these answers
_TEMPERATURE_ROWS = 40_000
_WIDTH = 0.7  # standard deviation of the temperature's prior, in logarithms
_ROWS = ("answer", "certainty", "weight", "others")


@dataclass(frozen=True, kw_only=True, eq=False)
class Crowd:
    """How annotators answer on the whole.

    Attributes:
        matrix: confusion matrix of the crowd; rows are the true class.
        temperature: how over-confident the others' posteriors are about answers that they have not seen; 1 where they
            are not, as with independent errors.
    """

    matrix: Confusion
    temperature: float = 1.0

    @property
    def errors(self) -> Confusion:
        """Distribution of the wrong answers, by true class."""
        wrong = 1.0 - np.eye(len(self.matrix))
        return normalised_rows(self.matrix * wrong, at_zero=wrong / max(len(wrong) - 1, 1))


def crowd_of(chunks: Callable[[], Iterable[Answers]], n_answers: int) -> Crowd:
    """Estimates how the crowd answers, from at most `_MOST_ROWS` of all answers.

    Args:
        chunks: yields the answers, at least one.
        n_answers: number of possible answers.
    """
    rows = _sample(chunks)
    mostly_right = np.full((n_answers, n_answers), 0.4 / n_answers) + 0.6 * np.eye(n_answers)
    matrices, _ = learned_matrices(rows, mostly_right, pseudo_count=1e-3, steps=_CROWD_STEPS)
    unseen = Unseen(
        probs=rows.others,
        n_answers=np.ones(len(rows.answer)),
        answer=rows.answer,
        certainty=rows.certainty,
        weight=rows.weight,
    )
    temperature = mean_temperature(curve(unseen.thinned(_TEMPERATURE_ROWS), smoothing=0.0), width=_WIDTH)
    return Crowd(matrix=matrices[0], temperature=max(temperature, 1.0))


def learned_matrices(
    part: Answers, start: Confusion, *, pseudo_count: float = 1.0, steps: int = _STEPS
) -> tuple[Confusions, Confusions]:
    """Returns the annotators' confusion matrices, and the expected numbers of their answers, by true class and answer
    given.

    Args:
        start: initial matrix; `pseudo_count` answers distributed like it are added to an annotator's own.
        pseudo_count: number of these for each true class.
    """
    size = part.others.shape[1]
    matrices: Confusions = np.broadcast_to(start, (len(part.code), size, size))
    counts = np.zeros(matrices.shape)
    for _ in range(steps):
        said = said_by(part.certainty[:, None], part.of_cells(matrices), size)
        believed: ItemProbs = normalised_rows(part.others * said)
        counts = part.counts(believed)
        matrices = normalised_rows(counts + pseudo_count * start)
    return matrices, counts


def _sample(chunks: Callable[[], Iterable[Answers]]) -> Answers:
    """Returns a sample of the answers, evenly spaced, as if one annotator had given them."""
    every, seen = 1, 0
    kept: dict[str, np.ndarray] = {}
    for part in chunks():
        # The rows whose number among all chunks is a multiple of `every`.
        rows = slice(-seen % every, None, every)
        fresh = {name: getattr(part, name)[rows] for name in _ROWS}
        kept = {name: np.concatenate([kept[name], fresh[name]]) if kept else fresh[name] for name in _ROWS}
        seen += len(part.answer)
        most = min(_MOST_ROWS, max(_MOST_NUMBERS // part.others.shape[1], 1))
        while len(kept["answer"]) > most:
            every, kept = 2 * every, {name: column[::2] for name, column in kept.items()}
    return Answers(code=np.zeros(1, np.int64), place=np.zeros(len(kept["answer"]), np.int64), **kept)
