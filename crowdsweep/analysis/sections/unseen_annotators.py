"""Annotators whom a model was not trained on: how well their answers are predicted once it has seen a few of them.

From what a trial kept as `unseen_loglik`: of each annotator that it left out the mean log-probability of answers, by
the mean of the annotators that it knows, and by what it inferred of this one from other answers (Algorithm 4 of
Weerasooriya, Ororbia and Homan).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import first_seeds
from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

LOGLIK = "unseen_loglik"


@dataclass(frozen=True, kw_only=True)
class UnseenAnnotators:
    """The annotators that one model left out of training, by its first seed.

    Attributes:
        model: what the sweep file calls it.
        n_annotators: how many.
        as_mean, inferred: log-probability of an answer in nats, over the annotators: by the mean of those that the
            model knows, and by what it inferred of this one.
        gain: of the latter over the former, annotator by annotator.
    """

    model: str
    n_annotators: int
    as_mean: Estimate
    inferred: Estimate
    gain: Estimate


def unseen_annotators(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows
) -> dict[Place, list[UnseenAnnotators]]:
    """Returns by dataset and its parameters the models that left annotators out."""
    found: dict[Place, list[UnseenAnnotators]] = {}
    for kept in first_seeds(state, trials, rows, (LOGLIK,)):
        loglik = kept.arrays[LOGLIK]
        if loglik.ndim != 2 or loglik.shape[1] != 2 or not len(loglik):  # a plug-in's own array of this name
            continue
        as_mean, inferred = (estimate(column.tolist()) for column in loglik.T)
        one = UnseenAnnotators(
            model=kept.model,
            n_annotators=len(loglik),
            as_mean=as_mean,
            inferred=inferred,
            gain=estimate((loglik[:, 1] - loglik[:, 0]).tolist()),
        )
        found.setdefault(kept.place, []).append(one)
    return found
