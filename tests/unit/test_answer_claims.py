"""What an answer may claim: the best of those that cost less, and nothing of fits that ended badly."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.answer import Answer, answer_of, by_test
from crowdsweep.analysis.compare import Comparison, DatasetComparison
from crowdsweep.analysis.phrases import verdict, worth_of_heldout
from crowdsweep.analysis.study import study_report
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.analysis.winners import winners_of
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.shown import shown_trials
from crowdsweep.studies.redundancy import TEMPLATE
from crowdsweep.views.page.tables import scores_table
from crowdsweep.views.report_files import write_report

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
    assert (
        "b, d and c are not significantly different from it; b costs 18 times less for 0.1 points (at most 0.3)."
        in found.lead
    )
    same, _ = answer(trials("a", BEST, 36.0) + trials("b", BEST, 2.0))
    assert same.lead.endswith("b gives the same numbers. b costs 18 times less.")


def test_a_flagged_model_is_not_as_good() -> None:
    events = trials("a", BEST) + flagged(trials("b", CLOSE), 2)
    found, block = answer(events)
    assert found.lead.endswith("b is not as good: 2 of 6 trials are flagged.")
    assert by_test(block)[0] == []
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


def test_advice_of_a_study_reaches_the_first_screen_of_folders_too(tmp_path: Path) -> None:
    """A folder's whole path is its name in the record, the end of it everywhere on the page."""
    folder = str(tmp_path / "data" / "birds")
    events: list[Event] = []
    for labels, scores in ((1, [value - 0.1 for value in CLOSE]), (None, BEST)):
        params = {"training": "all"} if labels is None else {"redundancy": labels, "training": "all"}
        metrics = [{"test_accuracy": value} for value in scores]
        events += made_up_trials("a", folder, metrics, dataset_params=params)
    config = {"study": {"template": "redundancy", "labels_per_item": [1]}}
    journal = Journal(tmp_path / "s")
    journal.handle_many(made_up_sweep(events, models=[], config=config))
    journal.close()
    report = study_report(read_journal(tmp_path / "s"))
    assert report is not None
    assert list(report.next_steps) == ["birds (training: all)"]
    page = write_report(tmp_path / "s").read_text()
    assert "More labels still help on these items: a gains +10." in page[: page.index('id="sure"')]
    assert str(tmp_path / "data") not in page[: page.index('id="reproduce"')]


def test_without_gold_nobody_is_called_worse() -> None:
    """Held-out answers rank who describes the crowd, not who labels more items right."""
    values = ([-0.5, -0.51, -0.49, -0.5, -0.52], [-0.7, -0.71, -0.7, -0.69, -0.73])
    events = [
        event
        for model, scores in zip("ab", values, strict=True)
        for event in made_up_trials(model, "d", [{"heldout_loglik": value} for value in scores])
    ]
    found, block = answer(events)
    assert found.lead.endswith(
        "b predicts held-out answers less well, which does not show which of them labels more items correctly."
    )
    rows = scores_table(block, comparison_of(folded(made_up_sweep(events, models=[])))).rows
    assert "predicts answers less well" in rows[1].cells
    without = replace(block, references=DatasetRecord(dataset="d", gold={"train": False}, heldout=0.1))
    (said,) = worth_of_heldout(Comparison(datasets=[without], ranks=None, published=[]))
    assert "It does not show which of two close models labels more items correctly" in said
