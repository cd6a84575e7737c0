"""Which models `init` proposes: the default of labels alone among them; what can fall far below the vote says so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import crowdsweep as cs
from crowdsweep.data import bounds
from crowdsweep.data.dataset import CrowdDataset, Gold
from crowdsweep.errors import DataError
from crowdsweep.metrics.power_law import FEWEST_NUMBERS
from crowdsweep.models.default_model import DEFAULT_MODEL
from crowdsweep.sweep.starter import choices
from crowdsweep.sweep.starter.choices import Facts, choose, facts_of
from crowdsweep.sweep.starter.sweep_text import redundancy_text, sweep_text

FOLDER = Path("here")


def crowd(n_annotators: int, labels_per_item: int = 4) -> CrowdDataset:
    """Sixty items of three classes."""
    random = np.random.default_rng(n_annotators)
    item = np.repeat(np.arange(60), labels_per_item)
    annotator = np.concatenate([random.permutation(n_annotators)[:labels_per_item] for _ in range(60)])
    label = np.where(random.random(len(item)) < 0.8, item, item + 1) % 3
    columns = {"item": item, "annotator": annotator, "label": label}
    return cs.load({name: list(map(str, column)) for name, column in columns.items()}).dataset


def proposed(facts: Facts) -> list[str]:
    return [one.candidate.name for one in choose(facts, "here") if not one.left_out]


@pytest.mark.parametrize("n_annotators", [6, 200])  # forty labels each, and one
def test_whoever_gave_the_labels_the_same_models_are_tried(n_annotators: int) -> None:
    names = proposed(facts_of(crowd(n_annotators), {}))
    assert {"majority-vote", "wawa", "one-coin", "dawid-skene", "mace", "glad", DEFAULT_MODEL} == {*names}


def test_of_annotators_that_nobody_knows_there_is_one_matrix() -> None:
    names = proposed(facts_of(crowd(6), {"scenario": "global"}))
    assert {"majority-vote", "multinomial"} <= set(names)
    assert not {"mace", "dawid-skene"} & set(names)


@pytest.mark.parametrize("gold", [False, True])
def test_where_the_distribution_of_answers_is_the_goal_there_are_a_floor_and_a_model_of_it(gold: bool) -> None:
    answers = crowd(6)
    items = replace(answers.items, features=np.eye(60, 3, dtype=np.float32))
    split = np.repeat(np.array([1, 2, 3], np.int8), 20)
    every = np.arange(60, dtype=np.int32)
    known = Gold(item=every, label=every % 3) if gold else answers.gold
    names = proposed(facts_of(replace(answers, items=items, split=split, gold=known), {}))
    assert {"soft-mv", "dl-ds"} <= {*names}
    assert ({"marginal", "pd"} <= {*names}) != gold


def test_what_takes_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(crowd(6), {})
    assert "- {name: glad, search: default}" in sweep_text(FOLDER, facts, choose(facts, "here"))
    cost = {one.candidate.name: choices._seconds(one.candidate, facts) for one in choose(facts, "here")}
    longest = list(cost)[-1]
    monkeypatch.setattr(choices, "SECONDS", choices.REPORT_SEEDS * (sum(cost.values()) - cost[longest] / 2))
    assert longest not in proposed(facts)
    assert f"# - {longest}" in sweep_text(FOLDER, facts, choose(facts, "here"))


def test_classes_that_no_fit_could_hold_are_named_before_a_sweep_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_FIT_NUMBERS", 100)
    monkeypatch.setattr(bounds, "_NUMBERS_PER_LABEL", 0)
    with pytest.raises(DataError, match=r"60 items, 3 classes and 240 labels.* merge rare classes"):
        facts_of(crowd(6), {})


def test_how_many_labels_are_needed_is_asked_of_the_default_too() -> None:
    facts = facts_of(crowd(8, labels_per_item=6), {})
    text = redundancy_text(FOLDER, facts, choose(facts, "here"))
    assert text is not None
    models = yaml.safe_load(text)["models"]
    assert (len(models), models[0]) == (4, "majority-vote")
    assert "hierarchical-dawid-skene" in models


def test_enough_numbers_of_labels_are_tried_to_fit_a_curve_and_what_else_may_be_asked_is_there() -> None:
    for each, levels in ((5, [2, 3, 4]), (12, [2, 3, 4, 5, 7, 10])):  # without gold one label is held out
        facts = facts_of(crowd(16, labels_per_item=each), {})
        text = redundancy_text(FOLDER, facts, choose(facts, "here"))
        assert text is not None
        assert yaml.safe_load(text)["study"] == {"template": "redundancy", "labels_per_item": levels}
        assert len(levels) + 1 >= FEWEST_NUMBERS  # the full set is run as well
        assert "target" not in text  # which needs gold
        asked = yaml.safe_load(text.replace("  # price", "  price").replace("  # fixed", "  fixed"))["study"]
        assert asked["price_per_label"] > 0
