"""MLflow as a view of the record: writes what a sweep has and MLflow lacks, and may be repeated at any time."""

from collections import Counter
from collections.abc import Iterator

from crowdsweep.record.result import TrialResult
from crowdsweep.record.shown import ShownTrial, one_each, shown_trials
from crowdsweep.record.state import JournalState
from crowdsweep.tracking.run_book import Rejected, RunBook

_ATTEMPTS = 8  # failures of one trial, after which it is skipped


class Projection:
    """Brings MLflow up to date with a record. It can be repeated after any failure, and when the record has grown:
    nothing is written twice, and runs that this process has written are not checked again.
    """

    def __init__(self, runs: RunBook) -> None:
        self._runs = runs
        self._failures: Counter[str] = Counter()

    def write(self, state: JournalState) -> Iterator[tuple[str, bool | Rejected]]:
        """Returns an iterator that writes one missing trial per step, and then marks the trials that the sweep does not
        ask for. Trials that failed before come last, so that they hold up no others. This call itself reads the record,
        which takes a second for ten thousand trials.

        Yields:
            (key, whether its run had to be written or changed), or (key, why MLflow will never accept it).
        """
        trials = _trials_of(state)

        def steps() -> Iterator[tuple[str, bool | Rejected]]:
            self._runs.open(state)
            for key, (trial, result) in sorted(trials.items(), key=lambda one: self._failures[one[0]]):
                if self._failures[key] < _ATTEMPTS:
                    yield key, self._written(trial, result)
            self._runs.mark({key: trial for key, (trial, _) in trials.items()})

        return steps()

    def _written(self, trial: ShownTrial, result: TrialResult) -> bool | Rejected:
        try:
            return self._runs.write_trial(trial, result)
        except Rejected as error:
            self._failures[result.key] = _ATTEMPTS
            return error
        except Exception:
            self._failures[result.key] += 1
            raise

    def lacking(self, state: JournalState) -> int:
        """Returns how many trials of a record are not known to be in MLflow."""
        return sum(not self._runs.has(trial, result) for trial, result in _trials_of(state).values())


def _trials_of(state: JournalState) -> dict[str, tuple[ShownTrial, TrialResult]]:
    shown = one_each(shown_trials(state, every=True))
    return {key: (shown[key], result) for key, result in state.results.items() if key in shown}
