"""Annotators whom a model was not trained on: how well their answers are predicted once it has seen a few of them.

From what a trial kept as `unseen_loglik`: of each annotator that it left out the mean log-probability of answers, by
the mean of the annotators that it knows, and by what it inferred of this one from other answers (Algorithm 4 of
Weerasooriya, Ororbia and Homan).
"""

from collections.abc import Iterable

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import first_seeds
from crowdsweep.metrics.intervals import estimate
from crowdsweep.metrics.known import HELDOUT
from crowdsweep.metrics.shown import show_interval, show_number, show_probability
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.studies.contract import StudyTable

LOGLIK = "unseen_loglik"
NOTE = (
    "first seed; the share is the probability, as a geometric mean, that an answer was given. gain: in nats per "
    "answer, a mean over the annotators, with its 95 % interval."
)


def unseen_tables(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, StudyTable]:
    """Returns a table by dataset and its parameters: a row for each model that left annotators out."""
    found: dict[Place, list[tuple[str, ...]]] = {}
    for kept in first_seeds(state, trials, rows, (LOGLIK,)):
        loglik = kept.arrays[LOGLIK]
        if loglik.ndim != 2 or loglik.shape[1] != 2 or not len(loglik):  # a plug-in's own array of this name
            continue
        crowd, inferred = (estimate(column.tolist()) for column in loglik.T)
        gain = estimate((loglik[:, 1] - loglik[:, 0]).tolist())
        found.setdefault(kept.place, []).append(
            (
                kept.model,
                str(len(loglik)),
                show_probability(crowd, HELDOUT),
                show_probability(inferred, HELDOUT),
                show_number(gain.mean, HELDOUT, gain),
                show_interval(gain, HELDOUT),
            )
        )
    columns = ("model", "annotators", "as the mean annotator", "inferred from other answers", "gain", "95 % interval")
    return {place: StudyTable(title="", columns=columns, rows=cells, note=NOTE) for place, cells in found.items()}
