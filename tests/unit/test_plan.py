"""What a sweep file becomes, and what is refused before anything runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, SweepFileError, UnknownName
from crowdsweep.models import registered
from crowdsweep.models.contract import DataShape
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.plan_summary import plan_summary
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.views.terminal.plan import describe_plan


def config_of(datasets: list[Any], models: list[Any], **changes: Any) -> SweepConfig:
    return parse_sweep({"name": "tiny", "datasets": datasets, "models": models, **changes}, "tiny.yaml")


def folder_of(path: Path, rows: str, items: str = "") -> str:
    """A dataset folder; with `items`, its items have features."""
    path.mkdir()
    (path / "annotations.csv").write_text("item,annotator,label\n" + rows)
    if items:
        (path / "items.csv").write_text(items)
        features = np.array([[0.5], [1.5], [0.1]], dtype=np.float32)
        np.savez(path / "features-made_up.npz", features=features, item=np.array(["a", "b", "c"]))
    return str(path)


VOTED = "a,1,x\na,2,x\nb,1,y\nb,3,y\nc,2,x\nc,3,y\n"


def test_fixed_points_get_the_report_seeds() -> None:
    plan = make_plan(config_of(["anesthesia"], ["uniform", "majority-vote"], seeds={"report": 7}))
    assert [cell.info.name for cell in plan.cells] == ["uniform", "majority-vote"]
    assert [spec.seed for spec in plan.cells[0].report_specs()] == list(range(7))
    assert (plan.n_report, plan.n_search, plan.n_trials) == (14, 0, 14)


def test_search_and_report_seeds_never_meet() -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 0.1, 1]}}}
    (search,) = make_plan(config_of(["anesthesia"], [model], seeds={"search": 50, "report": 5000})).searches
    assert (len(search.seeds), len(search.cell.report_seeds)) == (50, 5000)
    assert not {*search.seeds} & {*search.cell.report_seeds}


def test_a_search_counts_at_most_its_points_and_rescored_ones() -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 0.1, 1]}}}
    plan = make_plan(config_of(["anesthesia"], [model], seeds={"search": 2, "report": 4, "rescored": 2}))
    (search,) = plan.searches
    assert search.limit == 3
    assert not search.sampler.learns
    assert (plan.n_search, plan.n_report) == (3 * 2, 2 * 4)


def test_base_datasets_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    original = catalogue.load

    def counted(name: str, params: Any) -> Any:
        loads.append(name)
        return original(name, params)

    monkeypatch.setattr(catalogue, "load", counted)
    plan = make_plan(
        config_of([{"name": "anesthesia", "scenario": ["individual", "global"], "redundancy": [1, 3]}], ["uniform"])
    )
    assert loads == ["anesthesia"]
    assert len(plan.datasets) == 4
    assert len({id(dataset.base) for dataset in plan.datasets}) == len(plan.bases) == 1
    assert plan.datasets[0].offer.shape.n_annotations < plan.datasets[1].offer.shape.n_annotations


def test_trials_differ_in_key_by_everything_that_decides_them() -> None:
    plan = make_plan(
        config_of(
            [{"name": "anesthesia", "scenario": ["individual", "global"]}],
            ["majority-vote", {"name": "majority-vote", "label": "hard", "params": {"votes": "hard"}}],
        )
    )
    keys = [spec.key for cell in plan.cells for spec in cell.report_specs()]
    assert len(set(keys)) == len(keys) == 2 * 2 * 5


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"budget": {"points": 30}}, True),
        ({"seeds": {"report": 9}}, True),
        ({"pack": 1}, True),
        ({"sampler": {"seed": 1}}, False),
        ({"sampler": {"kind": "random"}}, False),
        ({"sampler": {"parallel": 5}}, False),
        ({"early_stop": {"kind": "wilcoxon"}}, True),
        ({"engine": "inline", "resources": {"cpu": 4}}, True),
        ({"seeds": {"search": 2}}, False),
        ({"metric": {"name": "train_kl"}}, False),
        ({"heldout": {"fraction": 0.2}}, False),
    ],
)
def test_a_search_is_the_same_as_long_as_its_proposals_and_values_are(change: dict[str, Any], same: bool) -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}}
    (before,) = make_plan(config_of(["anesthesia"], [model])).searches
    (after,) = make_plan(config_of(["anesthesia"], [model], **change)).searches
    assert (before.key == after.key) is same


def test_racing_decides_what_a_search_is_only_where_it_can_happen() -> None:
    def key(**changes: Any) -> str:
        model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 0.1, 1]}}}
        (search,) = make_plan(config_of(["anesthesia"], [model], **changes)).searches
        return search.key

    eight, racing = {"seeds": {"search": 8}}, {"early_stop": {"kind": "wilcoxon"}}
    assert key(**eight, **racing) != key(**eight)
    assert key(**eight, sampler={"parallel": 9}) == key(**eight)
    assert key(**eight, **racing, sampler={"parallel": 9}) != key(**eight, **racing)


@pytest.mark.parametrize(("n_seeds", "raced"), [(3, None), (5, None), (6, 4), (8, 4), (9, 4), (10, 5), (20, 10)])
def test_racing_takes_six_seeds_and_says_so_where_there_are_fewer(n_seeds: int, raced: int | None) -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 0.1, 1]}}}
    changes: dict[str, Any] = {"seeds": {"search": n_seeds}, "early_stop": {"kind": "wilcoxon"}}
    plan = make_plan(config_of(["digits"], [model], **changes))
    assert plan.searches[0].raced == raced
    why = f"it needs at least 6 search seeds, and seeds.search is {n_seeds}"
    assert plan.notes == ([] if raced else [f"early_stop: wilcoxon does nothing in this sweep: {why}"])
    assert all(f"note: {note}" in describe_plan(plan) for note in plan.notes)
    unsearched = make_plan(config_of(["digits"], ["uniform"], **changes))
    assert unsearched.notes == ["early_stop: wilcoxon does nothing in this sweep: nothing is searched"]


def test_report_trials_give_up_annotations_only_where_there_is_nothing_else_to_score_by(tmp_path: Path) -> None:
    paths = {
        "bare": folder_of(tmp_path / "bare", VOTED),
        "one gold": folder_of(tmp_path / "one", VOTED, "item,gold\na,x\nb,\nc,\n"),
        "dev votes": folder_of(tmp_path / "dev", VOTED, "item,split\na,train\nb,train\nc,dev\n"),
        "test votes": folder_of(tmp_path / "test", VOTED, "item,split\na,train\nb,train\nc,test\n"),
    }
    heldout: dict[str, float] = {}
    for name, path in paths.items():
        searched = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 1]}}}
        plan = make_plan(config_of([path], ["uniform", searched], heldout={"fraction": 0.3}))
        (heldout[name],) = {spec.heldout_fraction for spec in plan.cells[0].report_specs()}
        assert bool(plan.notes) is bool(heldout[name])
    assert heldout == {"bare": 0.3, "one gold": 0.0, "dev votes": 0.0, "test votes": 0.0}


def test_the_metric_is_checked_on_every_dataset_that_a_model_runs_on() -> None:
    with pytest.raises(BadInput, match=r"anesthesia.*'dev_accuracy' needs dev items"):
        make_plan(config_of(["digits", "anesthesia"], ["uniform"], metric="dev_accuracy"))
    unused = [{"name": "uniform", "datasets": ["digits"]}]
    assert make_plan(config_of(["digits", "anesthesia"], unused, metric="dev_accuracy")).cells


def test_default_metric_follows_the_data(tmp_path: Path) -> None:
    searched = [{"name": "soft-mv", "search": {"dropout": {"values": [0.0, 0.5]}}}]
    gold = folder_of(tmp_path / "gold", VOTED, "item,split,gold\na,train,\nb,train,\nc,dev,x\n")
    annotated = folder_of(tmp_path / "annotated", VOTED, "item,split\na,train\nb,train\nc,dev\n")
    bare = folder_of(tmp_path / "bare", VOTED, "item\na\nb\nc\n")
    metrics = [make_plan(config_of([path], searched)).searches[0] for path in (gold, annotated, bare)]
    assert [search.metric.name for search in metrics] == ["dev_accuracy", "dev_kl", "heldout_loglik"]
    assert [search.metric.goal for search in metrics] == ["maximize", "minimize", "maximize"]
    assert [search.heldout for search in metrics] == [0.0, 0.0, 0.1]


def test_a_model_that_cannot_label_unseen_items_is_searched_by_held_out_answers() -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 1]}}}
    (search,) = make_plan(config_of(["digits"], [model])).searches
    assert search.metric.name == "heldout_loglik"


def test_protocol_reaches_the_models_that_have_it_and_did_not_say() -> None:
    models = ["majority-vote", "dl-em", {"name": "dl-em", "label": "own", "params": {"protocol": "equal_budget"}}]
    plan = make_plan(config_of(["digits"], models, protocol="paper"))
    assert [cell.fixed.get("protocol") for cell in plan.cells] == [None, "paper", "equal_budget"]


def test_a_model_may_be_limited_to_some_datasets() -> None:
    plan = make_plan(config_of(["anesthesia", "digits"], ["uniform", {"name": "soft-mv", "datasets": ["digits"]}]))
    assert [(cell.info.name, cell.dataset.name) for cell in plan.cells] == [
        ("uniform", "anesthesia"),
        ("uniform", "digits"),
        ("soft-mv", "digits"),
    ]


def test_refusals_say_what_is_missing(tmp_path: Path) -> None:
    votes = folder_of(tmp_path / "plain", VOTED)
    lone = folder_of(tmp_path / "lone", "a,1,x\nb,1,x\n")
    searched = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 1]}}}
    cases: list[tuple[SweepConfig, str]] = [
        (config_of(["anesthesia"], ["soft-mv"]), r"'soft-mv' needs features.*anesthesia"),
        (config_of([{"name": "digits", "scenario": "global"}], ["speelfc-d"]), r"'speelfc-d' needs known annotators"),
        (config_of([votes], ["ideal"]), r"'ideal' needs (features|gold)"),
        (config_of([lone], ["uniform"]), r"at least two classes, got only 'x'"),
        (config_of([votes], [searched], metric="dev_accuracy"), r"'dev_accuracy' needs dev items.*heldout_loglik"),
        (config_of([votes], [searched], metric="js_annotators"), r"'js_annotators'.*takes gold.*heldout_loglik"),
    ]
    for config, message in cases:
        with pytest.raises(BadInput, match=message):
            make_plan(config)


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'anesthesia'"):
        make_plan(config_of(["anesthesa"], ["uniform"]))
    with pytest.raises(UnknownName, match="dataset parameter 'redundansy'; did you mean 'redundancy'"):
        make_plan(config_of([{"name": "anesthesia", "redundansy": 3}], ["uniform"]))


def test_a_study_template_is_laid_out_and_the_sweep_file_kept_as_written() -> None:
    study = {"template": "redundancy", "labels_per_item": [1, 3]}
    config = config_of([{"name": "anesthesia", "scenario": "global"}], ["uniform"], study=study)
    plan = make_plan(config)
    assert plan.config is config
    assert [dict(dataset.params) for dataset in plan.datasets] == [
        {"scenario": "global", "redundancy": 1},
        {"scenario": "global", "redundancy": 3},
        {"scenario": "global"},
    ]
    assert len(plan.bases) == 1
    assert len(plan.cells) == 3


def test_summary_is_json_and_words_agree_with_it() -> None:
    model = {"name": "dawid-skene", "search": {"smoothing": {"values": [0, 0.1, 1]}}}
    plan = make_plan(config_of(["anesthesia"], ["uniform", model]))
    summary = json.loads(json.dumps(plan_summary(plan)))
    assert summary["trials"] == {"search": 9, "report": 10, "total": 19}
    assert summary["estimated_slot_seconds"] > 0
    words = describe_plan(plan)
    assert "45 training items, 5 annotators, 315 annotations, 4 classes" in words
    assert "dawid-skene\t14\t~1 s\t3 points by held-out log-likelihood" in words
    assert "19 trials (9 search, 10 report)" in words


def test_where_nobody_knows_who_answered_no_annotators_are_counted() -> None:
    plan = make_plan(config_of([{"name": "anesthesia", "scenario": "global"}], ["majority-vote"]))
    assert plan_summary(plan)["datasets"][0]["annotators"] is None
    assert "45 training items, annotators unknown, 315 annotations" in describe_plan(plan)


def test_a_slip_of_the_finger_is_told_before_anything_is_laid_out() -> None:
    models = ["majority-vote", "uniform", "wawa", "dawid-skene", "one-coin", "mace"]
    many = {"name": "many", "datasets": ["anesthesia"], "models": models, "seeds": {"report": 1_000_000}}
    assert make_plan(parse_sweep(many)).n_trials == 6_000_000
    searched = [{"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}}]
    budget = {"points": 1_000_000}
    with pytest.raises(SweepFileError, match=r"many: expected at most 10,000,000 trials, this sweep has 20,000,005 \("):
        make_plan(parse_sweep({**many, "models": searched, "budget": budget, "seeds": {"search": 20}}))


@pytest.mark.parametrize(("epochs", "least", "most"), [(8, 1.0, 1.0), (12, 0.85, 0.95), (100, 0.3, 0.45)])
def test_early_stopping_is_foreseen_to_run_its_patience_out(epochs: int, least: float, most: float) -> None:
    shape = DataShape(n_items=1000, n_annotators=5, n_classes=12, n_annotations=5000, n_features=0)
    given = {"network": "tagger", "epochs": epochs, "labels": "silver"}

    def cost(patience: int | None) -> float:
        params = registered.full_params("stl", {**given, "patience": patience})
        priced = registered.model_info("stl").cost
        assert priced is not None
        return priced(shape, params)

    assert least <= cost(10) / cost(None) <= most
