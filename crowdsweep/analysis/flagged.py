"""The counted trials of a report that are flagged (`trial.flags`) or had not converged."""

from collections import Counter
from collections.abc import Iterable

from crowdsweep.analysis.trial_table import ended_too_early
from crowdsweep.record.flags import flag_words
from crowdsweep.record.naming import describe_dataset
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState


def flagged_notes(state: JournalState, trials: Iterable[ShownTrial]) -> list[str]:
    """Returns a sentence for each model, dataset and flag: how many of the counted trials have it; and for each model
    and dataset whose fits ended while their objective still clearly improved."""
    counted: Counter[tuple[str, str]] = Counter()
    flagged: Counter[tuple[str, str, str]] = Counter()
    unfinished: Counter[tuple[str, str]] = Counter()
    among = {row.dataset for row in state.plan.datasets}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if trial.chosen and result is not None and result.failure is None:
            params = canonical_json(dict(trial.spec.dataset_params))
            place = trial.label, describe_dataset(trial.spec.dataset, params, among)
            counted[place] += 1
            flagged.update((*place, flag) for flag in result.flags)
            unfinished[place] += ended_too_early(result)
    notes = [
        f"{number} of {counted[model, dataset]} trials of {model} on {dataset}: {flag_words([flag])}."
        for (model, dataset, flag), number in flagged.items()
    ]
    notes += [
        f"{number} of {counted[model, dataset]} fits of {model} on {dataset} ended while the objective still clearly "
        f"improved: more training (epochs, steps or iterations) may label better."
        for (model, dataset), number in unfinished.items()
        if number
    ]
    return notes
