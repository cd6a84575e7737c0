"""What an answer may claim: the best of those that cost less, and nothing of fits that ended badly."""

from collections.abc import Sequence
from dataclasses import replace

from crowdsweep.journal.shown import shown_trials
from crowdsweep.report.answer import Answer, answer_of, told_apart
from crowdsweep.report.compare import DatasetComparison
from crowdsweep.report.of_sweep import comparison_of
from crowdsweep.report.page_tables import scores_table
from crowdsweep.report.phrases import verdict
from crowdsweep.report.winners import winners_of
from crowdsweep.studies.redundancy import TEMPLATE
from crowdsweep.testing.journals import folded, made_up_sweep, made_up_trials
from crowdsweep.trial.events import Event, TrialFinished

BEST = [0.836, 0.839, 0.835, 0.838, 0.837, 0.836]
CLOSE = [0.837, 0.836, 0.836, 0.835, 0.838, 0.834]
FARTHER = [0.837, 0.836, 0.834, 0.833, 0.840, 0.830]


def trials(model: str, values: Sequence[float], wall_s: float = 1.0) -> list[Event]:
    return made_up_trials(model, "d", [{"test_accuracy": value} for value in values], wall_s=wall_s)


def flagged(events: Sequence[Event], number: int) -> list[Event]:
    """The first so many trials are flagged."""
    found: list[Event] = []
    for event in events:
        hit = isinstance(event, TrialFinished) and number > 0
        number -= hit
        found.append(replace(event, result=replace(event.result, flags=("permuted",))) if hit else event)
    return found


def answer(events: Sequence[Event]) -> tuple[Answer, DatasetComparison]:
    state = folded(made_up_sweep(events, models=[]))
    comparison = comparison_of(state)
    (block,) = comparison.datasets
    return answer_of(state, block, shown_trials(state)), block


def test_the_best_of_those_that_cost_less_is_named_with_what_it_gives_up() -> None:
    """The cheapest of all is 1,800 times cheaper and worse than the one that costs eighteen times less."""
    events = trials("a", BEST, 36.0) + trials("b", CLOSE, 2.0) + trials("c", FARTHER, 0.02) + trials("d", CLOSE, 30.0)
    found, _ = answer(events)
    assert "b, d and c cannot be told apart from it; b costs 18 times less for 0.1 points (at most 0.3)." in found.lead
    same, _ = answer(trials("a", BEST, 36.0) + trials("b", BEST, 2.0))
    assert same.lead.endswith("b gives the same numbers. b costs 18 times less.")


def test_a_flagged_model_is_not_as_good() -> None:
    events = trials("a", BEST) + flagged(trials("b", CLOSE), 2)
    found, block = answer(events)
    assert found.lead.endswith("b is not as good: 2 of 6 trials are flagged.")
    assert told_apart(block)[0] == []
    row = scores_table(block, comparison_of(folded(made_up_sweep(events, models=[])))).rows[1]
    assert "2 of 6 trials are flagged" in row.cells
    assert verdict(block).endswith("Of it 2 of 6 trials are flagged.")
    (strip,) = winners_of(comparison_of(folded(made_up_sweep(events, models=[]))), TEMPLATE)
    assert [setting.as_good for setting in strip.settings] == [[]]


def test_a_collapsed_model_is_not_as_good_and_a_flagged_winner_warns() -> None:
    collapsing = [*CLOSE[:5], 0.2]
    found, _ = answer(trials("a", BEST) + trials("b", collapsing))
    assert found.lead.endswith("b is not as good: 1 of 6 seeds collapsed.")
    found, _ = answer(flagged(trials("a", BEST), 1) + trials("b", CLOSE))
    assert found.warnings == ("a: 1 of 6 trials is flagged; see how sure this is, below.",)
