"""What a redundancy study answers: labels for a target, what more would bring, and what it costs; read by hand."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from journals import folded, made_up_sweep, made_up_trials

import crowdsweep
from crowdsweep.analysis.flat_tables import study_table
from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import SweepFileError
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.record.journal import Journal
from crowdsweep.studies.axis import AxisPoint
from crowdsweep.studies.contract import StudyNumber, StudyReport, StudyResults, check_settings, expand_study
from crowdsweep.studies.groups import Group, labels_per_item, n_items_of
from crowdsweep.studies.labels_needed import match_of, need_of, reach_of
from crowdsweep.studies.more_labels import fitted_law
from crowdsweep.studies.need_words import need_sentence, worth_labelling
from crowdsweep.studies.prices import money
from crowdsweep.studies.redundancy import TEMPLATE, summarise
from crowdsweep.sweepfile.records import DatasetEntry, ModelEntry, StudyEntry, SweepConfig
from crowdsweep.views.report_files import write_files
from crowdsweep.views.terminal.results import shown_results

METRIC = "test_accuracy"
N_ITEMS = 1000
GROUP = Group(dataset="d", metric=METRIC, models={}, all_labels=10, heldout=0.0, why="")
CURVE = {1: 0.70, 2: 0.80, 3: 0.84, 5: 0.87, 7: 0.885, None: 0.895}


def right(share: float, n_seeds: int = 3, n_items: int = N_ITEMS) -> np.ndarray:
    """So many of the items are right, the same ones at every seed [seeds, items]."""
    return np.tile(np.arange(n_items) < round(share * n_items), (n_seeds, 1)).astype(np.float32)


def point(share: float) -> AxisPoint:
    scores = right(share)
    return AxisPoint(
        by_seed={METRIC: {s: float(row.mean()) for s, row in enumerate(scores)}},
        by_item={METRIC: dict(enumerate(scores))},
        wall_s=[1.0] * len(scores),
        flags=[""] * len(scores),
    )


def report(curves: Mapping[str, Mapping[int | None, float]], *, adaptive: bool = False, **knobs: Any) -> StudyReport:
    """The report on dataset d of a thousand items with ten labels each."""
    events, items = [], {}
    for model, curve in curves.items():
        for labels, share in curve.items():
            scores = right(share)
            params: dict[str, Any] = {} if labels is None else {"redundancy": labels}
            params |= {"allocation": "adaptive"} if adaptive and model.endswith("+") else {}
            metrics = [{METRIC: float(row.mean()), "n_annotations": N_ITEMS * (labels or 10.0)} for row in scores]
            events += made_up_trials(model.removesuffix("+"), "d", metrics, dataset_params=params)
            items[model.removesuffix("+"), json.dumps(params, sort_keys=True)] = scores[0]
    names = dict.fromkeys(name.removesuffix("+") for name in curves)
    models = [{"name": name, "label": name, "params": {}} for name in names]
    table = results_table(folded(made_up_sweep(events, models=models)))
    place = {
        row["key"]: (row["model"], json.dumps(json.loads(row["dataset_params"]), sort_keys=True))
        for row in table.to_pylist()
    }

    def known(keys: Sequence[str], metric: str) -> Mapping[str, np.ndarray]:
        return {key: items[place[key]] for key in keys} if metric == METRIC else {}

    return summarise(StudyResults(table=table, item_scores=known), check_settings(TEMPLATE, knobs))


def numbers(found: StudyReport, quantity: str, about: str, model: str = "a") -> list[StudyNumber]:
    return [n for n in found.numbers if (n.quantity, n.model) == (quantity, model) and about in n.about]


def test_labels_for_a_target_as_read_off_the_curve() -> None:
    points = {labels: point(share) for labels, share in CURVE.items()}
    reach = reach_of(points, GROUP, 0.865, "86.5 %")
    assert reach is not None
    # 3 labels: 84.0 % of 1,000 items, Wilson's interval 81.6 to 86.1; 5: 87.0, 84.8 to 88.9; all: 89.5, 87.4 to 91.2.
    assert (reach.enough, reach.possibly, reach.surely) == (5, 5, 10)
    assert reach_of(points, GROUP, 0.6, "").surely == 1  # type: ignore[union-attr]
    none = reach_of(points, GROUP, 0.99, "")
    assert none is not None
    assert (none.enough, none.possibly, none.surely) == (None, None, None)


def test_labels_to_match_another_model_are_paired_by_item() -> None:
    points = {labels: point(share) for labels, share in CURVE.items()}
    reach = match_of(points, GROUP, point(0.87), "b")
    assert reach is not None
    # Beside 87.0 % on the same items 84.0 is 30 of 1,000 items worse, and 88.5 is 15 better: by McNemar both are sure.
    assert (reach.enough, reach.possibly, reach.surely) == (5, 5, 7)
    near = match_of(points, GROUP, point(0.87), "b", tolerance=0.02)
    assert near is not None
    assert (near.enough, near.surely) == (5, 5)


def test_unsound_fits_reach_nothing() -> None:
    points = {labels: point(share) for labels, share in CURVE.items()}
    bad = point(0.95)
    bad.flags[0] = "permuted"
    reach = reach_of({**points, 2: bad}, GROUP, 0.9, "")
    assert reach is not None
    assert (reach.enough, reach.possibly) == (None, 7)


def test_a_report_says_labels_gain_and_money_as_one_would_read_them() -> None:
    found = report({"a": CURVE, "b": {r: s - 0.02 for r, s in CURVE.items()}}, target=0.865, price_per_label=0.05)
    told = "\n".join(found.findings)
    assert (
        "d: 86.5 % (test accuracy) is reached with the fewest labels by a: 5 labels per item (all (10) to be sure)."
        in told
    )
    # b ends at 87.5 %: a is above that from 7 labels on.
    assert "d: a is as good as b with all labels (87.5) from 7 labels per item on" in told
    # 5 labels of 1,000 items at .05: 250.
    assert (
        "d: the cheapest way to reach 86.5 % (test accuracy): a with 5 labels per item, for 250; to be sure a with "
        "all (10), for 500." in told
    )
    assert "d: a by its fitted curve, 10 → 14 labels per item: +" in told
    (step,) = numbers(found, "cost_of_a_point", "tried")[3:4]
    assert (step.at, step.until) == (5.0, 7.0)
    assert step.value == pytest.approx(100.0 / 1.5)  # 2,000 labels, 100 in all, for 1.5 points
    (gain, further) = numbers(found, "gain", "fitted curve")
    assert (gain.at, gain.until, further.until) == (10.0, 14.0, 20.0)
    assert gain.value is not None
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < gain.value < gain.high
    assert 0.0 < gain.value < 0.02
    assert all(number.value is None or np.isfinite(number.value) for number in found.numbers)
    step_text = found.next_steps["d"]
    assert "The cheapest way to reach 86.5 %" in step_text
    assert "By its fitted curve a would gain" in step_text


def test_no_price_of_a_point_where_nothing_is_gained_and_what_it_would_be_at_best() -> None:
    found = report({"a": {1: 0.7, 2: 0.699, 3: 0.66, None: 0.8}}, price_per_label=0.05)
    (table,) = [table for table in found.tables if "what labels cost" in table.title]
    cells = {str(row[1]): str(row[4]) for row in table.rows}
    assert cells["1 → 2"].startswith("no gain (at best ")  # one of 1,000 items is worse: that may be chance
    assert cells["2 → 3"] == "no gain"  # 39 are worse, none is better
    steps = numbers(found, "cost_of_a_point", "tried")
    assert [(step.value, step.note) for step in steps[:2]] == [(None, "nothing is gained")] * 2


def test_a_model_is_surely_as_good_as_itself() -> None:
    """Items leave open whether another model that is right on the same ones would be as good on others."""
    own, other = point(0.9), point(0.9)
    reach = match_of({None: other, 3: point(0.5)}, GROUP, own, "b", tolerance=0.001)
    assert reach is not None
    assert (reach.enough, reach.surely) == (10, None)
    reach = match_of({None: own, 3: point(0.5)}, GROUP, own, "a", tolerance=0.001)
    assert reach is not None
    assert (reach.enough, reach.possibly, reach.surely) == (10, 10, 10)
    found = report({"a": {1: 0.7, None: 0.9}}, price_per_label=0.05)
    assert (
        "d: the cheapest way to come within 1 point of a with all labels (test accuracy): a with all (10) labels per "
        "item, for 500, and that is sure."
    ) in found.findings


def test_a_curve_is_told_only_from_where_on_all_fits_are_sound() -> None:
    """Fits that collapse at three labels and recover at five have no curve through them, whatever one brings."""
    points = {labels: point(share) for labels, share in CURVE.items()}
    sizes: dict[int | None, float] = {labels: float(labels or 10) for labels in points}
    assert not isinstance(fitted_law(points, GROUP, sizes), str)
    points[1].flags[0] = "collapsed"
    law = fitted_law(points, GROUP, sizes)
    assert not isinstance(law, str)
    assert law.labels == (2.0, 3.0, 5.0, 7.0, 10.0)
    points[3].flags[0] = "collapsed"
    told = "from all labels down, fits are sound at 3 numbers only, and a curve takes 4"
    assert fitted_law(points, GROUP, sizes) == told


def test_a_gain_is_between_sound_fits_and_says_what_it_skips() -> None:
    points = {labels: point(share) for labels, share in {1: 0.7, 3: 0.6, 5: 0.65, None: 0.895}.items()}
    for labels in (3, 5):
        points[labels].flags[0] = "collapsed"
    need = need_of(points, GROUP, 0.01)
    assert need is not None
    assert need.last_gain is not None
    assert (need.most, need.unsound_above, need.last_gain.mean) == (1, True, pytest.approx(0.195))
    assert need_sentence(GROUP, "a", need, 0.01) == (
        "d: a is not saturated: +19.5 points from 1 to all 10 labels; its fits to numbers between are not sound."
    )
    assert worth_labelling(GROUP, {"a": need}, 0.01) == {}
    points[1].flags[0] = "collapsed"
    need = need_of(points, GROUP, 0.01)
    assert need is not None
    assert need_sentence(GROUP, "a", need, 0.01) == (
        "d: a: no fits to fewer labels are sound, so how many labels it needs is not known."
    )


def test_a_fixed_cost_is_paid_once() -> None:
    found = report({"a": CURVE}, target=0.865, price_per_label=0.05, fixed_cost=40)
    assert "a with 5 labels per item, for 290;" in "\n".join(found.findings)
    steps = numbers(found, "cost", "tried")
    assert [step.value for step in steps] == pytest.approx([50.0, 50.0, 100.0, 100.0, 150.0])


def test_without_prices_and_targets_nothing_is_said_of_them() -> None:
    found = report({"a": CURVE})
    assert not numbers(found, "cost", "")
    assert not any("cheapest" in finding or "reached with the fewest" in finding for finding in found.findings)


def test_few_numbers_of_labels_tell_nothing_beyond_and_say_why() -> None:
    found = report({"a": {1: 0.7, 3: 0.84, None: 0.89}})
    assert not any("fitted curve" in finding for finding in found.findings)
    (gain,) = numbers(found, "gain", "fitted curve")
    assert (gain.value, gain.note) == (None, "fewer than 4 numbers of labels were scored")


def test_a_curve_that_does_not_rise_says_so() -> None:
    found = report({"a": dict.fromkeys(CURVE, 0.9)})
    assert any("is not predicted: no rise with more labels" in finding for finding in found.findings)


def test_items_with_fewer_labels_count_with_what_they_have() -> None:
    """A thousand items, of which half have only 3 labels: at 5 they have 4 on average."""
    sizes = {1: 1000.0, 3: 3000.0, 5: 4000.0, None: 6500.0}
    points = {
        labels: AxisPoint(by_seed={METRIC: {0: 0.8}, "n_annotations": {0: size}}, wall_s=[1.0], flags=[""])
        for labels, size in sizes.items()
    }
    group = Group(dataset="d", metric=METRIC, models={"a": points}, all_labels=None, heldout=0.0, why="")
    assert n_items_of(group.models, group) == 1000
    assert labels_per_item(group.models, group) == {1: 1.0, 3: 3.0, 5: 4.0, None: 6.5}


@pytest.mark.parametrize(
    ("sizes", "words", "number"),
    [
        ({1: 1000.0, 5: 5000.0, None: 39_000.0}, "all (39)", 39),
        ({1: 1000.0, 5: 4600.0, None: 6000.0}, "all (about 6.0)", 6.0),  # a mean of items that differ
        ({1: 1000.0, 5: 5000.0, None: 7240.0}, "all (about 7.2)", 7.24),
    ],
)
def test_all_labels_are_called_by_their_number(sizes: Mapping[int | None, float], words: str, number: float) -> None:
    events = []
    for labels, size in sizes.items():
        metrics = [{METRIC: 0.6 if labels else 0.8, "n_annotations": size} for _ in range(3)]
        events += made_up_trials("a", "d", metrics, dataset_params={} if labels is None else {"redundancy": labels})
    table = results_table(folded(made_up_sweep(events, models=[{"name": "a", "label": "a", "params": {}}])))
    found = summarise(StudyResults(table=table), check_settings(TEMPLATE, {"target": 0.7, "price_per_label": 1}))
    (means,) = [table for table in found.tables if table.title == "d: test accuracy, %"]
    five = "5 (about 4.6)" if sizes[5] == 4600.0 else "5"
    assert [row[0] for row in means.rows] == ["1", five, words]
    assert f"a with {words} labels per item" in "\n".join(found.findings)
    (needed,) = numbers(found, "labels_needed", "to reach 70.0 %")
    assert needed.value == number
    assert numbers(found, "cost_of_a_point", "tried")[-1].until == number


def test_each_dataset_has_its_target_and_its_row() -> None:
    events = []
    for dataset, shares in {"d": {1: 0.6, None: 0.8}, "e": {1: 0.7, None: 0.9}}.items():
        for labels, share in shares.items():
            params: dict[str, Any] = {"annotators": 5} if dataset == "e" else {}
            params |= {} if labels is None else {"redundancy": labels}
            metrics = [{METRIC: share, "n_annotations": 100.0 * (labels or 3)} for _ in range(3)]
            events += made_up_trials("a", dataset, metrics, dataset_params=params)
    table = results_table(folded(made_up_sweep(events, models=[{"name": "a", "label": "a", "params": {}}])))
    found = summarise(
        StudyResults(table=table), check_settings(TEMPLATE, {"target": {"d": 0.5, "e": 0.85}, "price_per_label": 1})
    )
    reached = "(test accuracy) is reached with the fewest labels by a"
    assert found.findings[:2] == [  # the first of each dataset before the second of any
        f"d: 50.0 % {reached}: 1 label per item (none that was tried is sure).",
        f"e (annotators: 5): 85.0 % {reached}: all (3) labels per item (none that was tried is sure).",
    ]
    short = found.tables[0]
    assert short.title.startswith("In short")
    rows = [dict(zip(short.columns, row, strict=True)) for row in short.rows]
    assert [(row["dataset"], row["labels"], row["to reach the target"]) for row in rows] == [
        ("d", "all (3)", "50.0 %: 1 by a (none that was tried is sure), 100"),
        ("e (annotators: 5)", "all (3)", "85.0 %: all (3) by a (none that was tried is sure), 300"),
    ]
    assert {row["last step: cost of a point"] for row in rows} == {"1 → all (3): 10.00"}
    alone = table.filter(pyarrow.compute.field("dataset") == "d")
    found = summarise(StudyResults(table=alone), check_settings(TEMPLATE, {"target": {"d": 0.5}}))
    assert not any(one.title.startswith("In short") for one in found.tables)


def test_adaptive_labels_stand_beside_the_same_number_given_evenly() -> None:
    better = {2: 0.83, 3: 0.875, 5: 0.89}
    found = report({"a": CURVE, "a+": better}, adaptive=True, price_per_label=0.05)
    gains = numbers(found, "gain", "adaptive over even")
    assert [(gain.at, gain.value) for gain in gains] == [
        (2.0, pytest.approx(0.03)),
        (3.0, pytest.approx(0.035)),
        (5.0, pytest.approx(0.02)),
    ]
    (told,) = [finding for finding in found.findings if "on average" in finding]
    # 87.5 % is what 7 labels given evenly reach: 4,000 labels more, 200.
    assert "a with 3 labels per item on average, given where they are most informative, gains +3.5 points" in told
    assert told.endswith("as much as 7 given evenly for 200 less.")
    assert [curve.title for curve in found.curves] == ["d: test accuracy, % against labels per item"]


def test_a_target_is_reached_either_way_at_its_price() -> None:
    found = report({"a": CURVE, "a+": {2: 0.83, 3: 0.87, 5: 0.89}}, adaptive=True, target=0.865, price_per_label=0.05)
    assert (
        "d: to reach 86.5 % with labels given where they are most informative: a with 3 labels per item, 150; "
        "given evenly: a with 5 labels per item, 250."
    ) in found.findings


def test_page_file_terminal_and_python_tell_the_same(tmp_path: Path) -> None:
    events = []
    for labels, share in CURVE.items():
        metrics = [{METRIC: share + 0.001 * seed, "n_annotations": 1000.0 * (labels or 10)} for seed in range(3)]
        events += made_up_trials("a", "d", metrics, dataset_params={} if labels is None else {"redundancy": labels})
    study = {"template": "redundancy", "labels_per_item": [1, 2, 3, 5, 7], "target": 0.865, "price_per_label": 0.05}
    models = [{"name": "a", "label": "a", "params": {}}]
    journal = Journal(tmp_path / "s")
    journal.handle_many(made_up_sweep(events, models=models, config={"study": study}))
    journal.close()
    found = analysed(tmp_path / "s")
    page = write_files(found).read_text()
    sentence = "the cheapest way to reach 86.5 % (test accuracy): a with 5 labels per item, for 250"
    assert sentence in page
    assert sentence in " ".join(shown_results(found, 100).split())
    table = crowdsweep.results(tmp_path / "s").study
    assert table is not None
    rows = list(csv.DictReader(io.StringIO((tmp_path / "s" / "study.csv").read_text())))
    told = [(row["quantity"], row["note"], float(row["value"]) if row["value"] else None) for row in rows]
    assert told == [(row["quantity"], row["note"], row["value"]) for row in table.to_pylist()]


def test_a_sweep_without_a_study_has_no_table_and_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "s")
    journal.handle_many(made_up_sweep(made_up_trials("a", "d", [{METRIC: 0.8}]), models=[]))
    journal.close()
    write_files(analysed(tmp_path / "s"))
    assert crowdsweep.results(tmp_path / "s").study is None
    assert not (tmp_path / "s" / "study.csv").exists()


def test_without_gold_held_out_answers_stand_for_it_and_what_they_cannot_say_is_said() -> None:
    events = []
    for labels, value in {2: -0.6, 3: -0.55, 5: -0.52, None: -0.51}.items():
        metrics = [{HELDOUT: value + 0.001 * seed, "n_annotations": 90.0 * (labels or 10)} for seed in range(3)]
        events += made_up_trials("a", "d", metrics, dataset_params={} if labels is None else {"redundancy": labels})
    table = results_table(folded(made_up_sweep(events, models=[{"name": "a", "label": "a", "params": {}}])))
    found = summarise(StudyResults(table=table), check_settings(TEMPLATE, {"target": 0.9, "price_per_label": 1}))
    assert any("Where there is no gold, held-out answers take its place" in note for note in found.notes)
    assert any("cost of 0.01 nats" in column for table in found.tables for column in table.columns)
    assert not any("90.0 %" in finding for finding in found.findings)


def _sweep(**knobs: Any) -> SweepConfig:
    return SweepConfig(
        name="s",
        datasets=(DatasetEntry(name="d", params={"training": "all"}),),
        models=(ModelEntry(name="majority-vote", label="majority-vote"),),
        study=StudyEntry(template="redundancy", knobs=knobs),
    )


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"target": 90}, r"study.target .*expected a share, at most 1 \(0.9 for 90 %\), got 90"),
        ({"target": 0}, "study.target .*positive number"),
        ({"target": {"d": 90}}, r"study.target .*expected a share, at most 1"),
        ({"target": {"e": 0.9}}, "study redundancy.target: expected shares of the datasets d, got one of e"),
        ({"price_per_label": -1}, "study.price_per_label .*positive number, got -1"),
        ({"price_per_label": "5 cent"}, "study.price_per_label .*positive number"),
        ({"price_per_label": 1, "fixed_cost": -5}, "study.fixed_cost .*a number of at least 0"),
        ({"fixed_cost": 5}, "study redundancy.fixed_cost: expected study.price_per_label with it, got none"),
        ({"adaptive": "yes"}, "study.adaptive .*expected true or false, got 'yes'"),
    ],
)
def test_knobs_that_cannot_be_used_say_where_and_what_was_expected(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepFileError, match=message):
        expand_study(_sweep(**knobs))


def test_adaptive_labels_are_planned_beside_those_given_evenly() -> None:
    planned = expand_study(_sweep(labels_per_item=[1, 3], adaptive=True))
    assert [dict(entry.params) for entry in planned.datasets] == [
        {"training": "all", "redundancy": 1},
        {"training": "all", "redundancy": 3},
        {"training": "all"},
        {"training": "all", "allocation": "adaptive", "redundancy": 3},
    ]


def test_numbers_are_a_flat_table() -> None:
    table = study_table(report({"a": CURVE}, target=0.865))
    assert table.column_names[:4] == ["dataset", "model", "metric", "quantity"]
    assert table.schema.field("value").type == pa.float64()
    means = [row for row in table.to_pylist() if row["quantity"] == "mean"]
    assert [(row["at"], round(row["value"], 3)) for row in means] == [
        (1.0, 0.7), (2.0, 0.8), (3.0, 0.84), (5.0, 0.87), (7.0, 0.885), (10.0, 0.895),
    ]  # fmt: skip


@pytest.mark.parametrize(("amount", "words"), [(1234.4, "1,234"), (12.5, "12.50"), (0.004, "0.004")])
def test_money_has_the_digits_that_mean_something(amount: float, words: str) -> None:
    assert money(amount) == words
