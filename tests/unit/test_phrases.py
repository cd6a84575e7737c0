"""What the report says in words where numbers alone would mislead."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.compare import DatasetComparison, compare
from crowdsweep.analysis.phrases import chosen_by_gold, intervals_over, optimism, verdict
from crowdsweep.analysis.phrases import tests_used as used_tests
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.record.events import Event
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord, DatasetRecord
from crowdsweep.views.report_files import write_report

GOOD = [0.93, 0.94, 0.92, 0.95, 0.93, 0.92, 0.94, 0.93, 0.95, 0.94]


def trials(model: str, values: Sequence[float], metric: str = "test_accuracy", **where: Any) -> list[Event]:
    return made_up_trials(model, "d", [{metric: value} for value in values], **where)


def block_of(events: Sequence[Event], *names: str, **settings: Any) -> DatasetComparison:
    models = [{"name": name, "label": name, "params": {}} for name in names]
    (block,) = compare(results_table(folded(made_up_sweep(events, models=models))), **settings).datasets
    return block


def test_seeds_that_collapsed_are_counted_in_words_and_their_points_shown(tmp_path: Path) -> None:
    events = trials("cmm", [*GOOD[:7], 0.24, 0.31, 0.28])
    said = "3 of 10 seeds collapsed: the interval does not cover where seeds split so"
    assert said in verdict(block_of(events, "cmm"))
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=[{"name": "cmm", "label": "cmm", "params": {}}]))
    journal.close()
    write_report(tmp_path)
    assert f"cmm: {said}." in (tmp_path / "report.html").read_text()
    assert "10 (3 collapsed)" in (tmp_path / "table.md").read_text()
    assert "collapsed" not in verdict(block_of(trials("cmm", GOOD), "cmm"))


def test_the_report_says_over_how_many_pairs_it_corrects() -> None:
    events = [event for n, name in enumerate("abc") for event in trials(name, [v - 0.1 * n for v in GOOD[:5]])]
    events += trials("d", [0.1, 0.13, 0.11, 0.15, 0.12])
    block = block_of(events, *"abcd")
    assert used_tests(block).startswith("Tested against the best at 5 %, after Holm's correction over all 6 pairs")
    pair = block_of([*trials("a", GOOD[:5]), *trials("d", [0.1, 0.13, 0.11, 0.15, 0.12])], "a", "d")
    assert "after Holm's correction: paired t" in used_tests(pair)


def test_what_held_out_intervals_vary_over_is_said() -> None:
    events = trials("a", [-0.5, -0.52, -0.55, -0.51, -0.53], "heldout_loglik")
    block = block_of(
        events, "a", references={("d", "{}"): DatasetRecord(dataset="d", gold={"train": False}, heldout=0.1)}
    )
    assert "which annotations are held out" in intervals_over(block)
    assert "1.25 times as wide as Student's" in intervals_over(block)


def test_the_page_shows_what_chose_a_point_beside_fresh_seeds(tmp_path: Path) -> None:
    points = [{"groups": 3}, {"groups": 5}]
    events = made_up_search("s", "cmm", "d", points, [-0.70, -0.58], [1, 0])
    events += trials("cmm", [-0.61, -0.61], "heldout_loglik", point={"groups": 5}, search="s")
    found = CellRecord(key="s", label="cmm", metric="heldout_loglik", goal="maximize", points=2)
    models = [{"name": "cmm", "label": "cmm", "params": {}, "search": {"groups": {}}}]
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=models, searches=[found]))
    journal.close()
    write_report(tmp_path)
    assert "Chosen at -0.580, fresh seeds -0.610." in (tmp_path / "report.html").read_text()


def test_no_flattery_where_fresh_seeds_are_not_scored_so() -> None:
    assert optimism(-0.5, None, "heldout_loglik") == ""
    assert optimism(None, Estimate(n=1, mean=0.5), "test_accuracy") == ""
    assert optimism(0.9, Estimate(n=1, mean=0.85), "dev_accuracy") == "Chosen at 90.0, fresh seeds 85.0."


@pytest.mark.parametrize(("metric", "said"), [("train_accuracy", True), ("heldout_loglik", False)])
def test_gold_that_chooses_and_ranks_is_told(metric: str, said: bool) -> None:
    events = trials("ds", [0.9, 0.9], "train_accuracy")
    models = [{"name": "ds", "label": "ds", "params": {}}]
    comparison = compare(results_table(folded(made_up_sweep(events, models=models))))
    search = CellRecord(key="s", label="ds", dataset="d", metric=metric, goal="maximize", points=2)
    sentences = chosen_by_gold(comparison, [search])
    assert sentences == (
        ["ds on d: its point was chosen by the gold that also ranks it, so the score is optimistic."] if said else []
    )
