"""The two study templates: knobs, planned cells, and conclusions worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.study import study_report
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import SweepFileError, UnknownName
from crowdsweep.studies.axis import AxisPoint
from crowdsweep.studies.contract import (
    ScoredBy,
    StudyReport,
    StudyResults,
    StudyTable,
    check_settings,
    expand_study,
    find_template,
    template_names,
)
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import Match, cheaper_matches, need_of
from crowdsweep.studies.redundancy import TEMPLATE as REDUNDANCY
from crowdsweep.studies.sparsity import TEMPLATE as SPARSITY
from crowdsweep.sweepfile.records import DatasetEntry, ModelEntry, StudyEntry, SweepConfig


def _config(template: str, *datasets: DatasetEntry, **knobs: Any) -> SweepConfig:
    return SweepConfig(
        name="s",
        datasets=datasets,
        models=(ModelEntry(name="majority-vote", label="majority-vote"),),
        study=StudyEntry(template=template, knobs=knobs),
    )


def _table(
    rows: Mapping[tuple[str, int | None], Sequence[float]], axis: str, metric: str = "test_accuracy"
) -> pa.Table:
    names = sorted({model for model, _ in rows})
    events = []
    for (model, value), scores in rows.items():
        params = {} if value is None else {axis: value}
        events += made_up_trials(model, "d", [{metric: score} for score in scores], dataset_params=params)
    return results_table(folded(made_up_sweep(events, models=[{"name": n, "label": n, "params": {}} for n in names])))


def _point(*values: float, wall_s: float = 1.0) -> AxisPoint:
    return AxisPoint(by_seed={"m": dict(enumerate(values))}, wall_s=[wall_s] * len(values))


GROUP = Group(dataset="d", metric="m", models={}, all_labels=None, heldout=0.0, why="")


def _find(tables: Sequence[StudyTable], words: str) -> StudyTable:
    return next(table for table in tables if words in table.title)


def test_sparsity_plans_gaussians_by_default_once_a_size() -> None:
    planned = expand_study(_config("sparsity", annotators=[500, 100]))
    assert planned.study is None
    assert [(entry.name, dict(entry.params)) for entry in planned.datasets] == [
        ("gaussians", {"annotators": 100}),
        ("gaussians", {"annotators": 500}),
    ]


def test_redundancy_plans_each_number_and_the_full_set() -> None:
    dataset = DatasetEntry(name="anesthesia", params={"scenario": "individual"})
    planned = expand_study(_config("redundancy", dataset, labels_per_item=[1, 3]))
    assert [dict(entry.params) for entry in planned.datasets] == [
        {"scenario": "individual", "redundancy": 1},
        {"scenario": "individual", "redundancy": 3},
        {"scenario": "individual"},
    ]


def test_redundancy_takes_numbers_for_each_dataset() -> None:
    entries = (DatasetEntry(name="rte"), DatasetEntry(name="dog"), DatasetEntry(name="rte", params={"training": "all"}))
    config = replace(_config("redundancy", labels_per_item={"rte": [2], "dog": [3, 1]}), datasets=entries)
    assert [(entry.name, dict(entry.params)) for entry in expand_study(config).datasets] == [
        ("rte", {"redundancy": 2}),
        ("rte", {}),
        ("dog", {"redundancy": 1}),
        ("dog", {"redundancy": 3}),
        ("dog", {}),
        ("rte", {"training": "all", "redundancy": 2}),
        ("rte", {"training": "all"}),
    ]
    with pytest.raises(SweepFileError, match="a list for each of the datasets rte, dog, got lists for rte, dgo"):
        expand_study(replace(_config("redundancy", labels_per_item={"rte": [2], "dgo": [1]}), datasets=entries))


def test_a_sweep_without_a_study_stays_as_it_is() -> None:
    plain = SweepConfig(name="s", datasets=(DatasetEntry(name="gaussians"),), models=())
    assert expand_study(plain) is plain


@pytest.mark.parametrize(
    ("template", "dataset", "message"),
    [
        ("sparsity", DatasetEntry(name="gaussians", params={"annotators": 5}), "gaussians sets 'annotators'"),
        ("redundancy", DatasetEntry(name="d", params={"redundancy": 2}), "d sets 'redundancy'"),
    ],
)
def test_datasets_that_do_not_suit_are_refused(template: str, dataset: DatasetEntry, message: str) -> None:
    with pytest.raises(SweepFileError, match=message):
        expand_study(_config(template, dataset))


def test_redundancy_needs_a_dataset() -> None:
    with pytest.raises(SweepFileError, match="at least one dataset"):
        expand_study(_config("redundancy"))


@pytest.mark.parametrize(
    ("template", "knobs", "message"),
    [
        ("sparsity", {"annotators": []}, r"study.annotators \(numbers of annotators.*\): expected a list"),
        ("sparsity", {"annotators": [0, 5]}, "at least 1, got"),
        ("sparsity", {"annotators": [5, 5]}, "each number once"),
        ("sparsity", {"annotators": [True]}, "whole numbers"),
        ("sparsity", {"annotators": "many"}, "whole numbers"),
        ("redundancy", {"labels_per_item": [1.5]}, "whole numbers"),
        ("redundancy", {"labels_per_item": {"rte": [0]}}, "study.labels_per_item .*at least 1, got"),
        ("redundancy", {"tolerance": -1}, "study.tolerance .*expected a positive number, got -1"),
        ("redundancy", {"tolerance": float("nan")}, "positive number"),
        ("redundancy", {"tolerance": "1 %"}, "positive number"),
    ],
)
def test_bad_knobs_say_which_and_what_was_expected(template: str, knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepFileError, match=message):
        check_settings(find_template(template), knobs)


def test_an_unknown_knob_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'annotators'"):
        check_settings(SPARSITY, {"anotators": [5]})


def test_one_number_stands_for_a_list_of_one() -> None:
    assert check_settings(SPARSITY, {"annotators": 7})["annotators"] == (7,)


def test_labels_that_are_enough_by_hand() -> None:
    points = {
        1: _point(0.70, 0.72, 0.71),
        2: _point(0.787, 0.821, 0.798),  # .008 below on average, interval from -.014 to +.030
        5: _point(0.806, 0.814, 0.808),  # .0007 below, interval [-.0145, .0159] … wider than the tolerance
        9: _point(0.810, 0.8101, 0.8099),
        None: _point(0.81, 0.81, 0.81),
    }
    need = need_of(points, GROUP, tolerance=0.01)
    assert need is not None
    assert (need.enough, need.possibly, need.surely) == (2, 2, 9)
    assert need.full.mean == pytest.approx(0.81)


def test_possibly_enough_may_come_before_enough() -> None:
    points = {1: _point(0.70, 0.90), 2: _point(0.849, 0.851), None: _point(0.85, 0.85)}
    need = need_of(points, GROUP, tolerance=0.01)
    assert need is not None
    assert (need.possibly, need.enough) == (1, 2)


def test_need_without_the_full_set_or_without_enough() -> None:
    assert need_of({1: _point(0.5)}, GROUP, 0.01) is None
    need = need_of({1: _point(0.5, 0.51), None: _point(0.9, 0.91)}, GROUP, 0.01)
    assert need is not None
    assert (need.enough, need.possibly, need.surely) == (None, None, None)


def test_one_seed_is_never_sure() -> None:
    need = need_of({1: _point(0.9), None: _point(0.9)}, GROUP, 0.01)
    assert need is not None
    assert (need.enough, need.surely) == (1, None)


def test_cheaper_means_fewer_labels_and_then_fewer_seconds() -> None:
    models = {
        "slow": {1: _point(0.7, wall_s=5.0), 3: _point(0.96, wall_s=5.0), None: _point(0.97, wall_s=5.0)},
        "quick": {1: _point(0.5, wall_s=0.1), 3: _point(0.75, wall_s=0.2), None: _point(0.95, wall_s=0.3)},
        "slower": {1: _point(0.6, wall_s=9.0), 3: _point(0.96, wall_s=9.0), None: _point(0.96, wall_s=9.0)},
    }
    quick, slower = cheaper_matches(models, "m")
    assert quick == Match(
        model="quick", mean=0.95, wall_s=0.3, cheaper="slow", labels=3, cheaper_mean=0.96, cheaper_wall_s=5.0
    )
    assert (slower.model, slower.cheaper, slower.labels) == ("slower", "slow", 3)


def _redundancy(rows: Mapping[tuple[str, int | None], Sequence[Mapping[str, float]]], **knobs: Any) -> StudyReport:
    """The study's report on dataset d; `rows`: (model, labels) → the metrics of each seed."""
    events = []
    for (model, labels), metrics in rows.items():
        params = {} if labels is None else {"redundancy": labels}
        events += made_up_trials(model, "d", metrics, dataset_params=params)
    models = [{"name": name, "label": name, "params": {}} for name in dict.fromkeys(model for model, _ in rows)]
    table = results_table(folded(made_up_sweep(events, models=models)))
    by = {"d": ScoredBy(**knobs)} if knobs else {}
    return REDUNDANCY.summarise(StudyResults(table=table, datasets=by), check_settings(REDUNDANCY, {}))


def test_the_largest_number_is_all_labels_and_what_is_not_saturated_says_so() -> None:
    """Ten labels an item: 10 and all are one point, and no model "needs 10"."""
    accuracy = {3: [0.70, 0.72], 7: [0.80, 0.81], 10: [0.8150, 0.8251], None: [0.8150, 0.8251]}
    report = _redundancy(
        {
            ("a", labels): [{"test_accuracy": one, "n_annotations": 10.0 * (labels or 10)} for one in values]
            for labels, values in accuracy.items()
        }
    )
    assert report.findings == ["d: a is not saturated: +1.5 points from 7 to all 10 labels."]
    chance = {labels: [values[0] + 0.02, values[1] - 0.02] for labels, values in accuracy.items() if labels == 7}
    unsure = _redundancy(
        {
            ("a", labels): [{"test_accuracy": one, "n_annotations": 10.0 * (labels or 10)} for one in values]
            for labels, values in {**accuracy, **chance}.items()
        }
    )
    assert unsure.findings == [
        "d: a: whether it is saturated is not settled: +1.5 points from 7 to all 10 labels, and may be chance."
    ]
    assert report.curves[0].x_ticks == {3.0: "3", 7.0: "7", 10.0: "all (10)"}
    assert report.curves[0].lines[0].x == [3.0, 7.0, 10.0]
    assert [row[0] for row in _find(report.tables, "d: test accuracy").rows] == ["3", "7", "all (10)"]


def test_label_only_models_have_a_curve_of_their_own() -> None:
    rows = {
        ("net", 2): [{"test_accuracy": 0.8, "train_accuracy": 0.9, "n_annotations": 20.0}] * 2,
        ("net", None): [{"test_accuracy": 0.8, "train_accuracy": 0.9, "n_annotations": 50.0}] * 2,
        ("mv", 2): [{"train_accuracy": 0.7, "n_annotations": 20.0}] * 2,
        ("mv", None): [{"train_accuracy": 0.7, "n_annotations": 50.0}] * 2,
    }
    report = _redundancy(rows)
    assert [curve.y_label for curve in report.curves] == ["test accuracy, %", "train accuracy, %"]
    assert [[line.label for line in curve.lines] for curve in report.curves] == [["net"], ["mv"]]
    net, mv = report.findings
    assert net.startswith("d: net needs 2 labels per item")
    assert "with all 5 labels (70.0) (train accuracy: training items against gold, as it labels no others)" in mv
    own_votes = _redundancy(rows, training_gold=False)
    assert [curve.y_label for curve in own_votes.curves] == ["test accuracy, %"]


def test_each_dataset_is_scored_by_what_it_has() -> None:
    events = made_up_trials("mv", "d", [{"train_accuracy": 0.7}])
    events += made_up_trials("mv", "e", [{"test_accuracy": 0.8}])
    table = results_table(folded(made_up_sweep(events, models=[{"name": "mv", "label": "mv", "params": {}}])))
    report = REDUNDANCY.summarise(StudyResults(table=table), check_settings(REDUNDANCY, {}))
    assert [curve.y_label for curve in report.curves] == ["train accuracy, %", "test accuracy, %"]


def test_held_out_scores_of_a_study_have_the_intervals_of_overlapping_splits() -> None:
    values = [{"heldout_loglik": one, "n_annotations": 9.0} for one in (-0.6, -0.62, -0.55, -0.58, -0.61)]
    plain, wide = (_redundancy({("mv", None): values}, **knobs).curves[0].lines[0] for knobs in ({}, {"heldout": 0.2}))
    assert plain.low[0] is not None
    assert wide.low[0] is not None
    assert (wide.y[0] - wide.low[0]) / (plain.y[0] - plain.low[0]) == pytest.approx((1 + 5 * 0.25) ** 0.5, rel=0.1)


def test_what_scores_a_dataset_is_found_by_its_name_and_its_settings() -> None:
    by = {"a": ScoredBy(heldout=0.1), "a (x": ScoredBy(heldout=0.2)}
    results = StudyResults(table=pa.table({"a": [1]}), datasets=by)
    assert results.scored_by("a (scenario: global)").heldout == 0.1
    assert results.scored_by("a (x (scenario: global)").heldout == 0.2
    assert results.scored_by("ab") == ScoredBy()


def test_redundancy_report_states_the_need_and_draws_all_labels_last() -> None:
    table = _table({("a", 1): [0.6, 0.62], ("a", 3): [0.798, 0.802], ("a", None): [0.80, 0.80]}, axis="redundancy")
    report = REDUNDANCY.summarise(StudyResults(table=table), check_settings(REDUNDANCY, {"labels_per_item": [1, 3]}))
    assert "a needs 3 labels per item" in report.findings[0]
    drawn = report.curves[0]
    assert list(drawn.x_ticks.values()) == ["1", "3", "all"]
    assert drawn.lines[0].y == pytest.approx([0.61, 0.80, 0.80])
    assert [row[0] for row in _find(report.tables, "d: test accuracy").rows] == ["1", "3", "all"]


def test_sparsity_report_names_winners_moves_and_active_annotators() -> None:
    rows = {
        ("cmm", 100): [0.90, 0.92],
        ("cmm", 10000): [0.89, 0.91],
        ("dl-em", 100): [0.94, 0.96],
        ("dl-em", 10000): [0.66, 0.68],
    }
    events = []
    for (model, size), scores in rows.items():
        metrics = [{"test_accuracy": s, "js_annotators": 0.1, "n_active_annotators": 0.98 * size} for s in scores]
        events += made_up_trials(model, "gaussians", metrics, dataset_params={"annotators": size})
    models = [{"name": name, "label": name, "params": {}} for name in ("cmm", "dl-em")]
    table = results_table(folded(made_up_sweep(events, models=models)))
    report = SPARSITY.summarise(StudyResults(table=table), check_settings(SPARSITY, {"annotators": [100, 10000]}))
    best, moves, overtaken = report.findings
    assert overtaken == "gaussians: cmm overtakes dl-em at about 200 annotators."
    assert "dl-em with 100 (95.0" in best
    assert "cmm with 10,000 (90.0" in best
    assert "dl-em -28.0 points" in moves
    assert "cmm -1.0 points" in moves
    assert [curve.y_label for curve in report.curves] == ["test accuracy, %", "JS of annotators, bits"]
    assert all(curve.log_x for curve in report.curves)
    shown = _find(report.tables, "test accuracy")
    assert shown.columns == ["annotators", "active", "cmm", "dl-em"]
    assert [row[:2] for row in shown.rows] == [["100", "98"], ["10,000", "9,800"]]


def test_models_that_saw_gold_win_nothing() -> None:
    rows = {("ideal", 100): [0.99, 0.98], ("cmm", 100): [0.9, 0.91]}
    results = StudyResults(table=_table(rows, axis="annotators"), gold_models=frozenset({"ideal"}))
    report = SPARSITY.summarise(results, check_settings(SPARSITY, {"annotators": [100]}))
    assert "cmm with 100" in report.findings[0]
    assert not any("ideal" in finding for finding in report.findings)
    assert {line.label: line.reference for line in report.curves[0].lines} == {"cmm": False, "ideal (saw gold)": True}


_OWN_TEMPLATE = '''
"""Whether features help."""

from dataclasses import replace

from crowdsweep.studies.contract import StudyReport, StudyTemplate


def plans(knobs, config):
    return replace(config, datasets=tuple(config.datasets))


def summarise(results, knobs):
    table = results.table
    models = ", ".join(sorted(set(table["model"].to_pylist())))
    return StudyReport(title="Mine", findings=[f"{table.num_rows} trials of {models}"])


TEMPLATE = StudyTemplate(name="own-study", title="Mine", knobs={}, plans=plans, summarise=summarise)
'''


def test_a_template_of_ones_own_is_one_file_and_answers_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_study.py").write_text(_OWN_TEMPLATE)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    assert "own-study" in template_names()
    assert expand_study(_config("own-study", DatasetEntry(name="anesthesia"))).study is None
    events = made_up_trials("majority-vote", "d", [{"train_accuracy": 0.8}, {"train_accuracy": 0.9}])
    entry = {"name": "majority-vote", "label": "majority-vote", "params": {}}
    state = folded(made_up_sweep(events, models=[entry], config={"study": {"template": "own-study"}}))
    report = study_report(state)
    assert report is not None
    assert report.findings == ["2 trials of majority-vote"]
