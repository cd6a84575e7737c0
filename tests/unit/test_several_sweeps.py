"""More than two sweeps beside each other: each beside the first, with one correction for all of them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from journals import made_up_sweep, made_up_trials
from published_sweeps import scores

import crowdsweep as cs
from crowdsweep.analysis.several_sweeps import compare_sweeps, pivot_of_all
from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.analysis.two_sweeps import differences, letter_of, pairs_of
from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.events import Event, TrialFinished, TrialPlanned
from crowdsweep.record.journal import Journal

MEANS = {"a": 0.8, "b": 0.81, "c": 0.80002, "d": 0.7}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four sweeps of one model on one dataset, whose means differ; the last has another model beside it."""
    folder = tmp_path_factory.mktemp("several")
    found: list[Path] = []
    for number, (name, mean) in enumerate(MEANS.items()):
        events = made_up_trials("majority-vote", "birds", scores(mean, shift=number))
        if name == "d":
            events += made_up_trials("one-coin", "birds", scores(0.6))
        journal = Journal(folder / name)
        config = {"seeds": {"report": 12}, "pack": 20 + (name == "c")}
        journal.handle_many(made_up_sweep(events, models=[], name=name, config=config))
        journal.close()
        found.append(folder / name)
    return found


@pytest.fixture(scope="module")
def sweeps(stores: list[Path]) -> list[AnalysedSweep]:
    return [analysed(store) for store in stores]


def test_each_is_beside_the_first_and_all_are_corrected_together(sweeps: list[AnalysedSweep]) -> None:
    first, *others = sweeps
    together = pairs_of(first, *others)
    assert [[pair.model for pair in pairs] for pairs in together] == [
        ["majority-vote"],
        ["majority-vote"],
        ["majority-vote", "one-coin"],
    ]
    assert [pairs[0].second_is for pairs in together] == ["better", "not significantly different", "worse"]
    assert together[2][1].why == "new"
    for pairs, other in zip(together, others, strict=True):
        ((alone, *_),) = pairs_of(first, other)
        assert alone.test is not None
        assert pairs[0].test is not None
        assert (pairs[0].first, pairs[0].second) == (alone.first, alone.second)
        assert pairs[0].test.p == alone.test.p
        assert pairs[0].test.p_holm is not None
        assert alone.test.p_holm == alone.test.p, "alone there is nothing to correct for"
        assert pairs[0].test.p_holm >= alone.test.p_holm
    least = min(pairs[0].test.p for pairs in together if pairs[0].test and pairs[0].test.p is not None)
    assert any(p[0].test and p[0].test.p_holm == pytest.approx(3 * least) for p in together), "three tests by Holm"


def test_what_sweep_files_say_otherwise_than_the_first() -> None:
    first = {"name": "x", "pack": 20, "seeds": {"report": 5}}
    second = {"name": "y", "pack": 20, "seeds": {"report": 6}}
    third = {"name": "z", "pack": 21, "seeds": {"report": 5}, "heldout": {"fraction": 0.2}}
    assert differences(first, second, third) == [
        ("seeds.report", [5, 6, 5]),
        ("pack", [20, 20, 21]),
        ("heldout", [None, None, {"fraction": 0.2}]),
    ]
    assert differences(first, {**first, "name": "q"}, first) == []


def test_the_command_takes_any_number(stores: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(store) for store in stores]
    assert run_command_line(["compare", *names]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"{letter}: {store.name} ({store})" for letter, store in zip("ABCD", stores, strict=True)]
    assert "sweep file\tA\tB\tC\tD" in lines
    assert "pack\t20\t20\t21\t20" in lines
    rows = [line.split("\t") for line in lines if "\tmajority-vote\t" in line]
    assert [row[2] for row in rows] == ["B", "C", "D"]
    assert [row[7] for row in rows] == ["better", "not significantly different", "worse"]
    assert run_command_line(["compare", *names[:3], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["sweep"] for one in told["sweeps"]] == ["A", "B", "C"]
    assert told["differences"] == [{"key": "pack", "values": {"A": 20, "B": 20, "C": 21}}]
    assert [(row["sweep"], row["second_is"]) for row in told["scores"]] == [
        ("B", "better"),
        ("C", "not significantly different"),
    ]
    assert run_command_line(["compare", names[0]]) == 2
    assert "two sweeps or more, got 1" in capsys.readouterr().err


def test_letters_never_end() -> None:
    assert [letter_of(number) for number in (0, 1, 25, 26, 27, 701, 702)] == ["A", "B", "Z", "AA", "AB", "ZZ", "AAA"]


RIGHT = {"majority-vote": 0.8, "dawid-skene": 0.85, "one-coin": 0.5}
"""Model → share of items that it labels right."""


def trials_with_items(journal: Journal, model: str) -> Iterator[Event]:
    """Yields six trials whose scores of sixty items are kept; of one model the same ones in every record."""
    for seed in range(6):
        draws = np.random.default_rng([seed, *model.encode()]).random(60)
        right = (draws < RIGHT[model]).astype(np.float32)
        kept = journal.keep(
            {
                "item_scores.test": np.array(
                    [(one, one / 2) for one in right], dtype=[("accuracy", "f4"), ("brier", "f4")]
                ),
                "items_scored.test": np.arange(60, dtype=np.int32),
            }
        )
        metrics = {"test_accuracy": float(right.mean()), "test_brier": float(right.mean() / 2)}
        for event in made_up_trials(model, "birds", [metrics], first_seed=seed):
            is_end = isinstance(event, TrialFinished)
            yield replace(event, result=replace(event.result, kept=kept)) if is_end else event


@pytest.fixture(scope="module")
def run_apart(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three models in one sweep, and the same in two that share one of them."""
    folder = tmp_path_factory.mktemp("apart")
    models = list(RIGHT)
    for name, own in (("whole", models), ("first", models[:2]), ("second", models[1:])):
        journal = Journal(folder / name)
        events = [event for model in own for event in trials_with_items(journal, model)]
        journal.handle_many(made_up_sweep(events, models=[], name=name))
        journal.close()
    return [folder / name for name in ("whole", "first", "second")]


def test_sweeps_together_are_the_sweep_that_had_run_all(run_apart: list[Path]) -> None:
    whole, first, second = (analysed(store) for store in run_apart)
    (expected,) = whole.comparison.datasets
    (found,) = compare_sweeps([first, second]).datasets
    assert (found.metric, found.title, found.references) == (expected.metric, expected.title, expected.references)
    for ours, theirs in zip(found.ranked, expected.ranked, strict=True):
        assert (ours.model, ours.rank, ours.metrics, ours.versus_best) == (
            theirs.model,
            theirs.rank,
            theirs.metrics,
            theirs.versus_best,
        )
    assert all(score.metrics[found.metric].n_items == 60 for score in found.ranked), "the items' scores are found"
    own, together = whole.pivot("test_brier"), pivot_of_all([first, second], "test_brier")
    assert (own.columns, own.models) == (together.columns, together.models)


def test_one_table_for_several_sweeps(run_apart: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, first, second = map(str, run_apart)
    assert run_command_line(["results", first, second, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["sweep"] for row in rows} == {"first", "second"}
    assert len(rows) == 24, "six of four"
    assert run_command_line(["results", first, second, "--layout", "pivot", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in told} == {"majority-vote", "dawid-skene", "one-coin"}
    assert cs.results(first).pivot(beside=[cs.results(second)]).to_pylist() == told


def test_what_is_called_the_same_and_is_not_stands_apart(sweeps: list[AnalysedSweep], tmp_path: Path) -> None:
    """Another point of one label, and other data of one name."""
    other = made_up_trials("one-coin", "birds", scores(0.75), label="majority-vote")
    strange = [
        replace(event, spec=replace(event.spec, fingerprint="another")) if isinstance(event, TrialPlanned) else event
        for event in made_up_trials("fmm", "cats", scores(0.5))
    ]
    cats = made_up_trials("fmm", "cats", scores(0.6))
    kept: list[AnalysedSweep] = []
    for name, events in (("e", other + cats), ("f", _with_own_keys(strange))):
        journal = Journal(tmp_path / name)
        journal.handle_many(made_up_sweep(events, models=[], name=name))
        journal.close()
        kept.append(analysed(tmp_path / name))
    pivot = pivot_of_all([sweeps[0], *kept])
    assert [column.title for column in pivot.columns] == ["birds", "cats", "cats [f]"]
    assert set(pivot.models) == {"majority-vote (a)", "majority-vote (e)", "fmm"}
    twice = pivot_of_all([sweeps[0], sweeps[0]])
    assert twice.models == ["majority-vote"], "the same cell counts once"
    assert twice.seeds == (12, 12)


def _with_own_keys(events: list[Event]) -> list[Event]:
    """Trials of other data have other keys; their results go with them."""
    found: list[Event] = []
    key = ""
    for event in events:
        if isinstance(event, TrialPlanned):
            key = event.spec.key
        found.append(
            replace(event, result=replace(event.result, key=key)) if isinstance(event, TrialFinished) else event
        )
    return found
