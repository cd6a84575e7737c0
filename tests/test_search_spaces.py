"""The sweep files that come with the project: each one loads, fits its models, and can be planned."""

import json
import re
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest

import crowdsweep
from crowdsweep import app
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.sweep import analysed, comparison_of
from crowdsweep.models import registered
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.views.page.sections import soft_label_tables

FOLDER = Path(__file__).parents[1] / "search_spaces"
SWEEPS = sorted(FOLDER.glob("*.yaml"))
EMBEDDED = ("quickstart", "redundancy", "sparsity")


def planned(path: Path, *overrides: str) -> Plan:
    return make_plan(load_sweep(path, overrides))


def test_the_files_that_the_documentation_names_are_here() -> None:
    assert {path.stem for path in SWEEPS} >= {
        *EMBEDDED,
        "labelme",
        "jobs",
        "jobs-textfree",
        "soft-labels",
        "lia-redundancy",
        "redundancy-real",
        "medical",
        "polarity-and-genre",
        "leaderboard",
        "leaderboard-features",
        "leaderboard-searched",
        "leaderboard-features-searched",
    }


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_file_loads_and_is_named_as_its_file(path: Path) -> None:
    config = load_sweep(path)
    assert config.name == path.stem
    assert config.engine == "ray"


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_sweep_of_embedded_data_can_be_planned(name: str) -> None:
    assert planned(FOLDER / f"{name}.yaml").n_trials > 0


def test_the_quickstart_searches_with_tpe_and_by_held_out_answers() -> None:
    plan = planned(FOLDER / "quickstart.yaml")
    search = next(search for search in plan.searches if search.cell.label == "cmm")
    assert (search.sampler.kind, search.metric.name) == ("tpe", "heldout_loglik")
    assert {dataset.name for dataset in plan.datasets} == {"anesthesia", "digits", "gaussians"}
    assert plan.n_trials <= 150  # it is to take less than three minutes on two cores


def test_labelme_can_be_planned_under_both_protocols(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    paper = planned(FOLDER / "labelme.yaml")
    equal = planned(FOLDER / "labelme.yaml", "protocol=equal_budget", "name=labelme-equal")
    assert len(paper.cells) == len(equal.cells) == 12
    assert paper.n_trials == 120
    assert all(cell.fixed["protocol"] == "paper" for cell in paper.cells)
    assert all(cell.fixed["protocol"] == "equal_budget" for cell in equal.cells)


def test_jobs_can_be_planned(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    plan = planned(FOLDER / "jobs.yaml")
    assert {search.cell.label for search in plan.searches} == {"pgm-bp", "pgm-annealing", "fmm", "pd", "ldl-nm"}
    pgm = next(search for search in plan.searches if search.cell.label == "pgm-bp")
    assert {"item_clusters", "annotator_clusters", "alpha", "gamma", "tau"} <= set(pgm.space.dimensions)
    assert {search.metric.name for search in plan.searches} == {"dev_kl"}


def test_the_leaderboards_page_is_of_their_files() -> None:
    """Every dataset heads a column, every model has a row: of accuracy, Brier score and time. The pictures are SVG.

    The page may be of the first sweep alone, until the second has run. Each searched model has a row of its own.
    """
    page = (FOLDER / "LEADERBOARD.md").read_text()
    *sections, last = page.split("\n## ")[1:]
    for name, part in zip(("", "features-"), last.split("\n### ")[1:], strict=True):
        for model in load_sweep(FOLDER / f"leaderboard-{name}searched.yaml").models:
            assert part.count(f"\n| {model.name} ") == 1
    assert 1 <= len(sections) <= 2
    for name, section in zip(("leaderboard", "leaderboard-features"), sections, strict=False):
        sweep = load_sweep(FOLDER / f"{name}.yaml")
        heads = [line for line in section.splitlines() if line.startswith("| model ")]
        rows = [
            line.split("|")[1].strip().removesuffix(" (saw gold)") for line in section.splitlines() if line[:2] == "| "
        ]
        assert len(heads) == 3
        for head in heads:
            assert {dataset.name for dataset in sweep.datasets} <= set(re.split(r"[ |,]+", head))
        assert {model.label: rows.count(model.label) for model in sweep.models} == {m.label: 3 for m in sweep.models}
        (picture,) = re.findall(r"!\[[^]]*\]\((.*)\)", section)
        assert ElementTree.parse(FOLDER / picture).getroot().tag.endswith("svg")


@pytest.mark.long
def test_soft_labels_runs_through_when_it_is_made_short(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One seed, one epoch, a small tagger: every cell has a result, print stands beside it, stl beside mtl."""
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    path = FOLDER / "soft-labels.yaml"
    assert planned(path).n_trials == 270
    short = ["seeds.report=1", "engine=inline", "tracking={enabled: false}"]
    for number, model in enumerate(load_sweep(path).models):
        if model.name in ("stl", "mtl"):
            short.append(f"models.{number}.params.epochs=1")
            if model.params["network"] == "tagger":
                short.append(f"models.{number}.params.state=8")
    app.run(load_sweep(path, short), tmp_path, quiet=True)
    state = read_journal(tmp_path)
    assert [result.status for result in state.results.values()] == ["ok"] * 27
    comparison = comparison_of(state, KeptScores(state, open_rows(tmp_path)))
    assert all(entry.ours is not None for entry in comparison.published)
    for block in comparison.datasets:
        assert {score.model.removeprefix("pos-") for score in block.gold} == {
            f"{name}-gold" for name in ("stl", "kl-regular", "kl-inverse", "cross-entropy")
        }
    tables = soft_label_tables(analysed(tmp_path).soft_labels)
    assert [len(table.rows) for table in tables] == [6] * 4  # three comparisons, and of the folds of tags the kurtosis


# Hyper-parameters that say how long a model trains.
BRIEF = {"epochs": 1, "iterations": 2, "em_iterations": 1, "restarts": 1, "steps": 0}


def brief(path: Path) -> list[str]:
    """Overrides that train every model of a sweep file as shortly as can be, without tracking, in this process."""
    overrides = ["seeds.report=1", "seeds.search=1", "engine=inline", "tracking={enabled: false}"]
    for number, model in enumerate(load_sweep(path).models):
        known = registered.full_params(model.name, model.params)
        for name in BRIEF.keys() & known.keys():
            value = BRIEF[name]
            searched = name in model.space.dimensions
            changed = f"search={{{name}: {{values: [{value}]}}}}" if searched else f"params.{name}={value}"
            overrides.append(f"models.{number}.{changed}")
    return overrides


@pytest.mark.parametrize(
    ("name", "more", "cells"),
    [
        ("lia-redundancy", ["study.labels_per_item={bluebirds: [5], word-similarity: [5], rte: [5]}"], 62),
        pytest.param("medical", [], 17, marks=pytest.mark.long),
        pytest.param("polarity-and-genre", ["budget.points=1"], 29, marks=pytest.mark.long),
    ],
)
def test_a_papers_sweep_runs_through_when_it_is_made_short(
    shared_data: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    more: list[str],
    cells: int,
) -> None:
    """One seed, one redundancy beside the whole crowd, few epochs: every cell has a result, and stands beside print."""
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    path = FOLDER / f"{name}.yaml"
    app.run(load_sweep(path, [*brief(path), *more]), tmp_path, quiet=True)
    state = read_journal(tmp_path)
    assert {result.status for result in state.results.values()} == {"ok"}
    comparison = comparison_of(state, KeptScores(state, open_rows(tmp_path)))
    assert sum(len(block.scores) for block in comparison.datasets) == cells
    thinned_otherwise = [entry for entry in comparison.published if entry.ours is None]
    assert all(entry.published.dataset_params.get("redundancy", 5) != 5 for entry in thinned_otherwise)


@pytest.mark.long
def test_a_study_of_real_sets_answers_what_one_reads_off_its_curves(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Labels needed, the cost of a point on every step and the cheapest way to the target, from the rows of trials
    alone: of Blue Birds, with 39 labels per item, and of entity links with 2 to 25."""
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    short = [
        "datasets=[bluebirds, zencrowd-us]",
        "study.labels_per_item={bluebirds: [1, 3, 7, 20], zencrowd-us: [1, 3, 5]}",
        "study.target={bluebirds: 0.8, zencrowd-us: 0.85}",
        "seeds.report=2", "engine=inline", "tracking={enabled: false}",
    ]  # fmt: skip
    app.run(load_sweep(FOLDER / "redundancy-real.yaml", short), tmp_path, quiet=True)
    results = crowdsweep.results(tmp_path)
    assert results.study is not None
    study = results.study.to_pylist()
    cells: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in results.table.to_pylist():
        labels = json.loads(row["dataset_params"]).get("redundancy", inf)
        cells.setdefault((row["dataset"], row["model"], labels), []).append(row)
    sound = sorted(key for key, rows in cells.items() if not any(row["flags"] for row in rows))
    mean = {key: fmean(row["train_accuracy"] for row in cells[key]) for key in sound}
    size = {key: fmean(row["n_annotations"] for row in cells[key]) for key in sound}

    def told(dataset: str, model: str, quantity: str, about: str) -> list[dict[str, Any]]:
        found = [row for row in study if (row["dataset"], row["quantity"]) == (dataset, quantity)]
        return [row for row in found if row["about"].startswith(about) and model in ("", row["model"])]

    for dataset, target, every in (("bluebirds", 0.8, 39.0), ("zencrowd-us", 0.85, 12_190 / 2040)):
        of = {model: [k for k in sound if k[:2] == (dataset, model)] for model in {k[1] for k in sound}}
        for model, keys in of.items():
            for about, least in (("to reach 8", target), ("within 1 point", mean[keys[-1]] - 0.01)):
                enough = next((k[2] for k in keys if mean[k] >= least - 1e-12), None)
                (number,) = told(dataset, model, "labels_needed", about)
                assert number["value"] == (pytest.approx(every) if enough == inf else enough)
            steps = told(dataset, model, "cost_of_a_point", "tried")
            assert len(steps) == len(keys) - 1
            for step, (before, after) in zip(steps, pairwise(keys), strict=True):
                gain, cost = 100 * (mean[after] - mean[before]), 0.02 * (size[after] - size[before])
                assert step["value"] == (pytest.approx(cost / gain) if gain > 0 else None)
        (cheapest,) = told(dataset, "", "cost", "cheapest way to reach")
        assert cheapest["value"] == pytest.approx(
            min(0.02 * size[key] for key in sound if key[0] == dataset and mean[key] >= target)
        )


@pytest.mark.long
@pytest.mark.parametrize(("name", "n_trials"), [("jobs", 51), ("jobs-textfree", 39)])
def test_label_distributions_run_through_when_they_are_made_short(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, n_trials: int
) -> None:
    """One point a search, one seed, few steps: every cell has a result, print stands beside it."""
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    path = FOLDER / f"{name}.yaml"
    app.run(load_sweep(path, [*brief(path), "budget.points=1"]), tmp_path, quiet=True)
    state = read_journal(tmp_path)
    assert [result.status for result in state.results.values()] == ["ok"] * n_trials
    comparison = comparison_of(state, KeptScores(state, open_rows(tmp_path)))
    assert all(entry.ours is not None for entry in comparison.published)
    for block in comparison.datasets:
        assert {score.model for score in block.ranked} >= {
            "marginal", "uniform", "pd", "ldl-nm", "fmm", "pgm-bp", "pgm-annealing"
        }  # fmt: skip
    marginal = [entry for entry in comparison.published if entry.published.model == "marginal"]
    assert len(marginal) == 3 * (name == "jobs-textfree")
    assert all(abs(entry.difference) <= 0.0005 for entry in marginal if entry.difference is not None)


@pytest.mark.parametrize(
    ("name", "metric", "value"),
    [
        ("labelme", "test_accuracy", 0.8307),
        ("leaderboard", "train_accuracy", 0.796),
        ("leaderboard-features", "test_accuracy", 0.585),
        ("jobs", "train_kl", 1.190),
        ("jobs-textfree", "test_kl.soft", 0.819),
        ("soft-labels", "test_macro_f1", 0.6059),
    ],
)
def test_printed_values_stand_in_the_metrics_own_units(name: str, metric: str, value: float) -> None:
    published = load_sweep(FOLDER / f"{name}.yaml").published
    assert value in [printed.value for printed in published.values if printed.metric == metric]
    assert all(0 <= printed.value <= 1.5 for printed in published.values)
