"""Unseen annotators: how well a model predicts the labels of annotators that it was not trained on.

Trials store the array `unseen_loglik`, with a row per left-out annotator. It holds two mean log-probabilities of the
annotator's labels: under the mean of the known annotators, and under what the model inferred of this annotator from
other labels (Algorithm 4 of Weerasooriya, Ororbia and Homan).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from crowdsweep.analysis.kept_arrays import first_seeds
from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState

LOGLIK = "unseen_loglik"


@dataclass(frozen=True, kw_only=True)
class UnseenAnnotators:
    """Predictions for the annotators that one model left out of training, at its first seed.

    Attributes:
        as_mean, inferred: log-probability of a label in nats, as estimates over the annotators: under the mean of the
            known annotators, and under what the model inferred of this annotator.
        gain: estimate of `inferred` minus `as_mean`, over the annotators.
    """

    model: str
    n_annotators: int
    as_mean: Estimate
    inferred: Estimate
    gain: Estimate


def unseen_annotators(
    state: JournalState, trials: Iterable[ShownTrial], rows: Rows
) -> dict[Place, list[UnseenAnnotators]]:
    """Returns (dataset, parameters) → models that left annotators out."""
    found: dict[Place, list[UnseenAnnotators]] = {}
    for kept in first_seeds(state, trials, rows, (LOGLIK,)):
        loglik = kept.arrays[LOGLIK]
        if loglik.ndim != 2 or loglik.shape[1] != 2 or not len(loglik):  # a plug-in may use this name for another array
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
