"""The first screen: what to use, what is as good, what limits it, what to do next."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.answer import Answer, answer_of
from crowdsweep.analysis.compare import compare
from crowdsweep.analysis.next_steps import next_steps
from crowdsweep.analysis.phrases import flagged_notes, worth_of_heldout
from crowdsweep.analysis.searches import searches
from crowdsweep.analysis.sections.confusions import CrowdMatrix
from crowdsweep.analysis.study import study_report, template_of
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.analysis.winners import winners_of
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import show_number, show_with_interval
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord, DatasetRecord
from crowdsweep.record.shown import shown_trials
from crowdsweep.units import listed, show_seconds, show_times
from crowdsweep.views.report_files import write_report

BEST = [0.836, 0.839, 0.835, 0.838, 0.837, 0.836]
CLOSE = [0.837, 0.836, 0.836, 0.835, 0.838, 0.834]
WORSE = [0.736, 0.739, 0.735, 0.738, 0.737, 0.731]


def trials(model: str, values: Sequence[float], metric: str = "test_accuracy", **where: Any) -> list[Event]:
    return made_up_trials(model, "d", [{metric: value} for value in values], **where)


def sweep(events: Sequence[Event], **settings: Any) -> list[Event]:
    models: list[Mapping[str, Any]] = [{"name": "ideal", "label": "ideal", "params": {}}]
    return made_up_sweep(events, models=settings.pop("models", models), **settings)


def answer(events: Sequence[Event], **settings: Any) -> Answer:
    state = folded(sweep(events, **settings))
    (block,) = comparison_of(state).datasets
    return answer_of(state, block, shown_trials(state))


def test_the_answer_names_the_best_what_is_as_good_what_it_costs_and_what_is_worse() -> None:
    events = trials("dl-em", BEST, wall_s=36.0) + trials("dl-ds", CLOSE, wall_s=2.0) + trials("cmm", CLOSE, wall_s=30.0)
    events += trials("soft-mv", WORSE) + trials("hard-mv", WORSE)
    assert answer(events).lead == (
        "Use dl-em: 83.7 % ± 0.2 on test items. dl-ds and cmm are not significantly different from it; dl-ds "
        "costs 18 times less for 0.1 points (at most 0.3). "
        "soft-mv and hard-mv are worse."
    )


def test_one_as_good_that_costs_less_is_said_in_one_breath() -> None:
    events = trials("a", BEST, wall_s=36.0) + trials("b", CLOSE, wall_s=2.0)
    assert answer(events).lead.endswith(
        "b is not significantly different from it and costs 18 times less for 0.1 points (at most 0.3)."
    )
    cheap = trials("a", BEST, wall_s=0.036) + trials("b", CLOSE, wall_s=0.002)  # nobody minds either
    assert answer(cheap).lead.endswith("b is not significantly different from it.")


def test_many_others_are_counted() -> None:
    events = trials("a", BEST)
    for name in "bcdefg":
        events += trials(name, [value - 0.3 for value in BEST[:-1]] + [0.4])
    assert answer(events).lead.endswith("The 6 others are worse.")
    assert listed(list("abcde")) == "a, b, c and 2 others"


def test_the_same_numbers_and_one_seed_are_said() -> None:
    same = answer(trials("a", [0.8] * 3) + trials("b", [0.8] * 3))
    assert same.lead == "Use a: 80.0 % on test items. b gives the same numbers."
    by_brier = [
        event
        for model, brier in (("a", 0.4), ("b", 0.2), ("c", 0.3))
        for event in made_up_trials(model, "d", [{"test_accuracy": 0.8, "test_brier": brier}] * 3)
    ]
    assert [score.model for score in answer(by_brier).block.ranked] == ["b", "c", "a"], "not as listed"
    lone = answer(trials("a", [0.8]) + trials("b", [0.7]))
    assert lone.lead == "Use a: 80.0 % on test items. b was not tested against it (one seed only)."
    assert lone.warnings == ("One seed: the variation between seeds is not known. Raise seeds.report.",)
    assert answer(trials("a", BEST)).lead.endswith("No other model was ranked.")


@pytest.mark.parametrize(
    ("metric", "value", "said"),
    [
        (
            "heldout_loglik",
            -0.4943,
            "Use a: it gives held-out answers a probability of 61 % (log-likelihood -0.494), not an accuracy.",
        ),
        ("test_kl", 0.01234, "Use a: test KL 0.012 nats."),
        ("test_macro_f1", 0.512, "Use a: test macro-F1 51.2 %."),
        ("train_accuracy", 0.512, "Use a: 51.2 % on training items."),
    ],
)
def test_every_metric_is_said_as_people_say_it(metric: str, value: float, said: str) -> None:
    assert answer(trials("a", [value] * 2, metric)).lead.startswith(said)


def test_the_ceiling_says_how_far_above_gold_is() -> None:
    found = answer(trials("ideal", [0.9, 0.91, 0.92]) + trials("a", [0.8, 0.81, 0.82]))
    assert found.ceiling == "ideal, which learns from gold, reaches 91.0 % ± 2.6 on test items: 10.0 points better."
    below = answer(trials("ideal", [0.7, 0.71, 0.72]) + trials("a", [0.8, 0.81, 0.82]))
    assert below.ceiling.endswith("no more than a.")
    assert answer(trials("a", BEST)).ceiling == ""


def test_the_settings_say_where_they_come_from() -> None:
    found = CellRecord(
        key="s", label="cmm", dataset="d", params={"hidden": [16]}, metric="dev_accuracy", goal="maximize", points=9
    )
    events = made_up_search("s", "cmm", "d", [{"groups": 3}], [0.8], [0])
    events += trials("cmm", BEST, params={"hidden": [16]}, point={"groups": 3}, search="s")
    assert answer(events, searches=[found]).settings == (
        "groups 3 (found by a search for dev accuracy, of 9 points); hidden [16] (as the sweep file sets it)"
    )
    assert answer(trials("a", BEST)).settings == "its defaults"


def steps(events: Sequence[Event], crowds: Sequence[CrowdMatrix] = (), **settings: Any) -> list[str]:
    state = folded(sweep(events, **settings))
    comparison = comparison_of(state)
    answers = [answer_of(state, block, shown_trials(state)) for block in comparison.datasets]
    found = list(searches(state, comparison))
    made = next_steps(answers, study_report(state), found, crowds, Path("crowdsweep-runs/my run"))
    return [step.command or step.text for step in made]


def test_labels_come_first_and_their_command_works_when_pasted() -> None:
    first, *_ = steps(trials("a", BEST))
    assert shlex.split(first) == ["crowdsweep", "label", "crowdsweep-runs/my run"]
    two = trials("a", BEST) + made_up_trials("a", "e f", [{"test_accuracy": 0.5}] * 2)
    assert shlex.split(steps(two)[0])[3:] == ["--dataset", "d"]


def cut_short(events: Sequence[Event]) -> list[Event]:
    """The same trials, whose objectives still rose when they ended."""
    rose = {"converged": False, "objective": [float(step) for step in range(20)]}
    return [
        replace(event, result=replace(event.result, **rose)) if isinstance(event, TrialFinished) else event
        for event in events
    ]


def test_a_ceiling_that_was_cut_short_is_none() -> None:
    (told,) = steps(trials("a", BEST) + cut_short(trials("ideal", CLOSE)))[1:]
    assert told.startswith("ideal, which learns from gold, is not clearly better than a, and ended while its objective")
    state = folded(sweep(trials("a", BEST) + cut_short(trials("ideal", CLOSE))))
    (note,) = flagged_notes(state, shown_trials(state))
    assert note.startswith(f"{len(CLOSE)} of {len(CLOSE)} fits of ideal on d ended while the objective still clearly")
    sound = folded(sweep(trials("a", BEST)))
    assert flagged_notes(sound, shown_trials(sound)) == []


def test_what_to_do_next_is_what_was_measured() -> None:
    (only,) = steps(trials("a", BEST) + trials("ideal", [0.936, 0.935, 0.937]))[1:]
    assert only == "Better labels, or more, could bring up to about 9.9 points: ideal is that much better."
    (no_gap,) = steps(trials("a", BEST) + trials("ideal", CLOSE))[1:]
    assert no_gap.startswith("More labels would hardly help a")
    assert no_gap.endswith("ideal has settings that were not searched: to rely on this, search them first.")
    found = CellRecord(key="i", label="ideal", dataset="d", metric="dev_accuracy", goal="maximize", points=2)
    searched = made_up_search("i", "ideal", "d", [{"epochs": 9}], [0.8], [0])
    searched += trials("a", BEST) + trials("ideal", CLOSE, point={"epochs": 9}, search="i")
    assert not [step for step in steps(searched, searches=[found]) if "not searched" in step]
    (no_ceiling,) = steps(trials("a", BEST) + trials("ideal", [0.6, 0.601, 0.599]))[1:]
    assert no_ceiling.startswith(
        "ideal, though it learns from gold, is below a: with these settings it is not a ceiling"
    )
    weak = CrowdMatrix(place=("d", "{}"), model="ds", matrix=[[0.6, 0.4], [0.5, 0.5]])
    (crowd,) = steps(trials("a", BEST), [weak])[1:]
    assert "an answer is right in 55 % of cases (chance: 50 %)" in crowd
    strong = CrowdMatrix(place=("d", "{}"), model="ds", matrix=[[0.9, 0.1], [0.2, 0.8]])
    assert steps(trials("a", BEST), [strong])[1:] == []
    (tie,) = steps(trials("a", BEST) + trials("b", CLOSE))[1:]
    assert tie == (
        "To rank a above b takes about 48 seeds (`seeds.report`, now 6), if the observed difference is the true one."
    )


def test_a_best_value_at_the_end_of_its_range_is_told() -> None:
    models = [{"name": "cmm", "label": "cmm", "params": {}, "search": {"groups": {"min": 1, "max": 3}}}]
    found = CellRecord(key="s", label="cmm", dataset="d", metric="dev_accuracy", goal="maximize", points=2)

    def told(groups: int, inside: float = 0.7) -> list[str]:
        events = made_up_search("s", "cmm", "d", [{"groups": groups}, {"groups": 2}], [0.8, inside], [0])
        events += trials("cmm", BEST, point={"groups": groups}, search="s")
        return steps(events, models=models, searches=[found])[1:]

    assert told(3) == ["Widen the search of cmm: groups 3 was best at the edge of the space."]
    assert told(3, inside=0.799) == [], "a tenth of a point is no reason"
    assert told(2) == []


def redundancy(values: Mapping[int | None, Mapping[str, Sequence[float]]], **settings: Any) -> list[Event]:
    events: list[Event] = []
    for labels, models in values.items():
        params = {} if labels is None else {"redundancy": labels}
        for model, scores in models.items():
            events += trials(model, scores, dataset_params=params)
    config = {"study": {"template": "redundancy", "labels_per_item": [n for n in values if n is not None]}}
    return sweep(events, config=config, **settings)


def test_a_study_has_one_sentence_and_a_strip_of_winners(tmp_path: Path) -> None:
    first, last = {"a": BEST, "b": WORSE}, {"a": WORSE, "b": BEST}
    state = folded(redundancy({1: first, 2: last, None: last}))
    template = template_of(state)
    assert template is not None
    (winners,) = winners_of(comparison_of(state), template)
    assert winners.sentence == "Best by the number of labels per item: a with 1, b from 2 on."
    strip = [(one.value, one.winner, one.score, list(one.as_good)) for one in winners.settings]
    assert strip == [("1", "a", "83.7 % ± 0.2", []), ("2", "b", "83.7 % ± 0.2", []), ("all", "b", "83.7 % ± 0.2", [])]
    page = page_of(tmp_path, redundancy({1: first, 2: last, None: last})).read_text()
    first_screen = page[page.index('<section id="answer">') : page.index('<section id="sure">')]
    assert first_screen.count("<h3>d</h3>") == 1
    assert first_screen.count("<li class=") == 3


def test_one_winner_everywhere_is_said_with_who_is_as_good() -> None:
    both = {"a": BEST, "b": CLOSE, "c": WORSE}
    state = folded(redundancy({1: both, None: both}))
    template = template_of(state)
    assert template is not None
    (winners,) = winners_of(comparison_of(state), template)
    assert (
        winners.sentence
        == "a is best at every number of labels per item; b is not significantly different from it anywhere."
    )


@pytest.mark.parametrize(
    ("fewer", "said"),
    [
        (WORSE, "More labels still help on these items: a gains +10.1 points from 1 labels per item to all labels."),
        (BEST, "Whether more labels would help a is not settled: +0.0 points"),  # of other items nothing is known
        ([0.6, 0.99, 0.9, 0.7, 0.8, 0.75], "Whether more labels would help a is not settled"),
    ],
)
def test_a_redundancy_study_says_whether_more_labels_would_help(fewer: Sequence[float], said: str) -> None:
    report = study_report(folded(redundancy({1: {"a": fewer}, None: {"a": BEST}})))
    assert report is not None
    assert report.next_steps["d"].startswith(said)


def page_of(folder: Path, events: Sequence[Event]) -> Path:
    journal = Journal(folder)
    journal.handle_many(events)
    journal.close()
    return write_report(folder)


def test_the_page_answers_first_and_leaves_out_what_is_empty(tmp_path: Path) -> None:
    html = page_of(tmp_path / "my run", sweep(trials("a", BEST) + trials("b", WORSE))).read_text()
    assert html.index("Use a: 83.7 % ± 0.2 on test items. b is worse.") < html.index("<svg") < html.index('id="sure"')
    assert "p (Holm)" in html[html.index('id="sure"') :]
    assert "p (Holm)" not in html[: html.index('id="sure"')]
    for empty in ("failed", "search", "printed", "guidance", "soft-labels", "study"):
        assert f'<section id="{empty}">' not in html
        assert f'href="#{empty}"' not in html
    links = set(re.findall(r'href="#([a-z-]+)"', html[: html.index("</nav>")]))
    assert links == set(re.findall(r'<section id="([a-z-]+)"', html)) - {"answer"}
    commands = [line.replace("&#39;", "'") for line in re.findall(r"<pre>(crowdsweep [^<]*)</pre>", html)]
    assert [shlex.split(line)[1] for line in commands] == ["label", "results", "replay", "report"]
    assert all(str(tmp_path / "my run") in shlex.split(line) for line in commands)


def test_every_cell_says_its_column_so_that_a_phone_can_stack_them(tmp_path: Path) -> None:
    html = page_of(tmp_path, sweep(trials("a", BEST) + trials("b", WORSE))).read_text()
    assert "<td" in html
    assert not re.search(r"<td(?! data-label=)", html)


def test_a_sweep_without_gold_says_what_its_ranking_is_worth() -> None:
    table = results_table(folded(sweep(trials("a", [-0.5, -0.6], "heldout_loglik"))))
    without = compare(table, references={("d", "{}"): DatasetRecord(dataset="d", gold={"train": False}, heldout=0.1)})
    (said,) = worth_of_heldout(without)
    assert said.startswith("There is no gold.")
    assert worth_of_heldout(compare(table)) == []


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0.0, "< 1 ms"),
        (0.0123, "12 ms"),
        (0.0042, "4.2 ms"),
        (1.26, "1.3 s"),
        (59.8, "60 s"),
        (150.0, "2.5 min"),
        (9000.0, "2.5 h"),
    ],
)
def test_times_are_said_in_their_unit(seconds: float | None, said: str) -> None:
    assert show_seconds(seconds) == said


def test_numbers_have_the_digits_that_mean_something() -> None:
    assert show_number(0.83742, "test_accuracy") == "83.7"
    assert show_number(-0.0000001, "test_accuracy") == "0.0"
    assert [show_number(value, "test_kl") for value in (0.57321, 0.00123, 0.0)] == ["0.573", "0.0012", "0.000"]
    sharp = Estimate(n=9, mean=0.837423, low=0.837303, high=0.837543)
    assert show_with_interval(sharp, "test_accuracy") == "83.74 ± 0.01"
    lopsided = Estimate(n=2, mean=0.95, low=0.861, high=0.983)
    assert show_with_interval(lopsided, "test_accuracy") == "95.0 (86.1 – 98.3)"
    assert [show_times(value) for value in (2.44, 18.3, 1834.0)] == ["2.4 times", "18 times", "1,800 times"]
