"""Comparing models: what ranks, what is tested, and what is left out and said so."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.compare import Comparison, compare
from crowdsweep.analysis.flat_tables import comparison_table
from crowdsweep.analysis.phrases import ranked_by_heldout, verdict
from crowdsweep.analysis.phrases import tests_used as used_tests
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.metrics.metric_table import Goal
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.result import Status
from crowdsweep.sweepfile.records import PublishedValue


def _scores(*values: float, metric: str = "test_accuracy") -> list[dict[str, float]]:
    return [{metric: value} for value in values]


def _compare(events: Sequence[Event], names: Sequence[str], **settings: Any) -> Comparison:
    models = [{"name": name, "label": name, "params": {}} for name in names]
    return compare(results_table(folded(made_up_sweep(events, models=models))), **settings)


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        (["dev_kl", "test_kl", "test_accuracy"], ("dev_kl", "minimize"), ("test_kl", "minimize")),
        (["train_accuracy", "train_kl"], None, ("train_accuracy", "maximize")),
        (["test_accuracy", "train_accuracy"], None, ("test_accuracy", "maximize")),
        (["train_accuracy"], ("heldout_loglik", "maximize"), ("train_accuracy", "maximize")),
        (["train_accuracy", "dev_accuracy"], None, ("dev_accuracy", "maximize")),
        (["train_accuracy", "heldout_loglik"], None, ("train_accuracy", "maximize")),
        (["test_accuracy", "test_kl"], ("train_kl", "minimize"), ("test_kl", "minimize")),
        (["test_kl"], None, ("test_kl", "minimize")),
        (["js_annotators"], ("js_annotators", "minimize"), ("js_annotators", "minimize")),
        ([], None, ("", "maximize")),
    ],
)
def test_what_ranks(present: list[str], wanted: tuple[str, Goal] | None, expected: tuple[str, str]) -> None:
    assert ranking_metric(present, wanted) == expected


@pytest.mark.parametrize(
    ("present", "gold", "wanted", "expected"),
    [
        (["test_accuracy", "test_kl"], {"test": False}, None, "test_kl"),
        (["dev_accuracy", "dev_kl"], {"dev": False, "train": True}, None, "dev_kl"),
        (["test_accuracy", "test_kl"], {"test": False}, ("dev_accuracy", "maximize"), "test_accuracy"),
        (["train_accuracy", "train_kl", "heldout_loglik"], {"train": False}, None, "heldout_loglik"),
        (["train_kl", "heldout_loglik"], {"train": False}, ("train_kl", "minimize"), "heldout_loglik"),
        (["train_accuracy", "train_kl", "n_annotations"], {"train": False}, None, ""),
        (["train_accuracy", "js_annotators"], {"train": False}, None, "js_annotators"),
        (["test_accuracy", "train_accuracy"], {"train": False, "test": True}, None, "test_accuracy"),
    ],
)
def test_what_ranks_where_not_everything_has_gold(
    present: list[str], gold: dict[str, bool], wanted: tuple[str, Goal] | None, expected: str
) -> None:
    assert ranking_metric(present, wanted, gold)[0] == expected


def test_models_are_ranked_by_held_out_annotations_where_there_is_nothing_else() -> None:
    """Majority vote agrees best with its own votes, and still is not best."""

    def cell(model: str, own: float, *heldout: float) -> list[Event]:
        return made_up_trials(model, "d", [{"train_accuracy": own, "heldout_loglik": value} for value in heldout])

    events = [*cell("mv", 1.0, -0.9, -0.8, -0.85), *cell("ds", 0.9, -0.5, -0.45, -0.52)]
    events += made_up_trials("mute", "d", _scores(0.95, metric="train_accuracy"))
    known = {("d", "{}"): DatasetRecord(dataset="d", gold={"train": False}, heldout=0.2)}
    comparison = _compare(events, ["mv", "ds", "mute"], references=known)
    (block,) = comparison.datasets
    assert (block.metric, [score.model for score in block.ranked]) == ("heldout_loglik", ["ds", "mv"])
    assert [score.model for score in block.unranked] == ["mute"]
    (sentence,) = ranked_by_heldout(comparison)
    assert sentence.startswith("d has neither gold nor")
    assert "20 % of the annotations" in sentence
    mute = _compare(events[-2:], ["mute"], references=known).datasets[0]
    assert (mute.metric, mute.ranked) == ("", [])
    assert "none gives a probability" in verdict(mute)
    assert ranked_by_heldout(_compare(events, ["mv", "ds", "mute"])) == []


def test_counts_never_rank() -> None:
    assert ranking_metric(["n_active_annotators", "n_annotations"], None)[0] == ""


def test_lower_is_better_for_divergences() -> None:
    events = made_up_trials("a", "d", _scores(0.3, 0.31, metric="test_kl"))
    events += made_up_trials("b", "d", _scores(0.2, 0.22, metric="test_kl"))
    block = _compare(events, ["a", "b"]).datasets[0]
    assert [score.model for score in block.ranked] == ["b", "a"]
    assert [score.rank for score in block.ranked] == [1, 2]


def test_models_that_saw_gold_are_apart_and_correct_nothing() -> None:
    events = made_up_trials("ideal", "d", _scores(0.99, 0.98, 0.97))
    events += made_up_trials("a", "d", _scores(0.8, 0.82, 0.81))
    events += made_up_trials("b", "d", _scores(0.7, 0.75, 0.71))
    block = _compare(events, ["ideal", "a", "b"], gold_models=frozenset({"ideal"})).datasets[0]
    assert [score.model for score in block.ranked] == ["a", "b"]
    assert [score.model for score in block.gold] == ["ideal"]
    test = block.ranked[1].versus_best
    assert test is not None
    assert test.p_holm == test.p  # one comparison: the model that saw gold is not one of them
    assert verdict(block).startswith("a is best")


def test_failed_seeds_are_missing_not_zero() -> None:
    events = made_up_trials("a", "d", [*_scores(0.8, 0.9), None])
    events += made_up_trials("b", "d", [None, None, None])
    block = _compare(events, ["a", "b"]).datasets[0]
    assert block.ranked[0].metrics["test_accuracy"].mean == pytest.approx(0.85)
    assert block.ranked[0].n_failed == 1
    assert [(score.model, score.n_failed) for score in block.unranked] == [("b", 3)]


def test_stopped_seeds_are_no_failures_and_count_in_no_mean() -> None:
    events = [
        TrialFinished(result=replace(event.result, status=Status.STOPPED))
        if isinstance(event, TrialFinished) and event.result.metrics == {"test_accuracy": 0.1}
        else event
        for event in [*made_up_trials("a", "d", _scores(0.8, 0.1, 0.9)), *made_up_trials("b", "d", _scores(0.1, 0.1))]
    ]
    block = _compare(events, ["a", "b"]).datasets[0]
    best = block.ranked[0]
    assert (best.metrics["test_accuracy"].mean, best.n_failed, best.n_stopped) == (pytest.approx(0.85), 0, 1)
    assert [(score.model, score.n_stopped) for score in block.unranked] == [("b", 2)]
    assert [row["stopped"] for row in comparison_table(_compare(events, ["a", "b"])).to_pylist()] == [1, 2]


def test_a_model_without_the_metric_is_listed_without_rank() -> None:
    events = made_up_trials("mv", "d", _scores(0.9, 0.9, metric="train_accuracy"))
    events += made_up_trials("net", "d", _scores(0.7, 0.8))
    block = _compare(events, ["mv", "net"]).datasets[0]
    assert block.metric == "test_accuracy"
    assert [score.model for score in block.unranked] == ["mv"]
    assert block.unranked[0].metrics["train_accuracy"].mean == 0.9


def test_the_selected_point_stands_for_its_model_not_the_luckier_one() -> None:
    events = made_up_search("s", "a", "d", [{"groups": 5}, {"groups": 3}], [0.1, 0.2], [1, 0])
    events += made_up_trials("a", "d", _scores(0.9, 0.92), point={"groups": 5}, search="s")
    events += made_up_trials("a", "d", _scores(0.8, 0.82), point={"groups": 3}, search="s")
    models = [{"name": "a", "label": "a", "params": {}, "search": {"groups": {}}}]
    table = results_table(folded(made_up_sweep(events, models=models)))
    chosen = compare(table).datasets[0]
    assert chosen.ranked[0].point == '{"groups":3}'
    assert [score.point for score in chosen.other_points] == ['{"groups":5}']


def test_search_trials_are_left_out() -> None:
    events = made_up_trials("a", "d", _scores(0.1, 0.1), phase="search", first_seed=1000)
    events += made_up_trials("a", "d", _scores(0.8, 0.82))
    models = [{"name": "a", "label": "a", "params": {}}]
    block = compare(results_table(folded(made_up_sweep(events, models=models)), "all")).datasets[0]
    assert block.ranked[0].metrics["test_accuracy"].n == 2


def test_mean_ranks_over_datasets_and_no_friedman_on_settings() -> None:
    events = []
    for setting, (a, b, c) in enumerate([(0.9, 0.8, 0.7), (0.9, 0.7, 0.8), (0.8, 0.9, 0.7)]):
        for model, value in (("a", a), ("b", b), ("c", c)):
            events += made_up_trials(model, "d", _scores(value, value + 0.01), dataset_params={"redundancy": setting})
    ranks = _compare(events, ["a", "b", "c"]).ranks
    assert ranks is not None
    assert ranks.ranks == pytest.approx({"a": 4 / 3, "b": 2.0, "c": 8 / 3})
    assert ranks.friedman is None
    assert ranks.critical is None
    assert "not independent" in ranks.reason


def test_printed_values_find_their_cell() -> None:
    events = made_up_trials("a", "d", _scores(0.80, 0.82, 0.84), dataset_params={"scenario": "global"})
    events += made_up_trials("a", "d", _scores(0.90, 0.92, 0.94))
    printed = [
        PublishedValue(
            model="a", dataset="d", metric="test_accuracy", value=0.81, dataset_params={"scenario": "global"}
        ),
        PublishedValue(
            model="a", dataset="d", metric="test_accuracy", value=0.5, dataset_params={"scenario": "individual"}
        ),
        PublishedValue(model="b", dataset="d", metric="test_accuracy", value=0.5),
    ]
    comparison = _compare(events, ["a"], published=printed)
    globally, individually, absent = comparison.published
    assert globally.difference == pytest.approx(0.01)
    assert globally.inside is True
    assert individually.difference == pytest.approx(0.42)
    assert individually.inside is False
    assert (absent.ours, absent.difference, absent.inside) == (None, None, None)
    flat = {row["dataset_params"]: row["printed"] for row in comparison_table(comparison).to_pylist()}
    assert flat == {'{"scenario":"global"}': 0.81, "{}": 0.5}


def test_the_verdict_says_when_nothing_can_be_told() -> None:
    close = made_up_trials("a", "d", _scores(0.80, 0.86, 0.81)) + made_up_trials("b", "d", _scores(0.82, 0.79, 0.83))
    assert "is not significantly different" in verdict(_compare(close, ["a", "b"]).datasets[0])
    far = made_up_trials("a", "d", _scores(0.90, 0.91, 0.92)) + made_up_trials("b", "d", _scores(0.10, 0.12, 0.11))
    block = _compare(far, ["a", "b"]).datasets[0]
    assert "is significantly different" in verdict(block)
    assert "paired t" in used_tests(block)
    fixed = made_up_trials("a", "d", _scores(0.9, 0.9)) + made_up_trials("b", "d", _scores(0.9, 0.9))
    said = verdict(_compare(fixed, ["a", "b"]).datasets[0])
    assert "no interval" in said
    assert "gives the same numbers" in said
