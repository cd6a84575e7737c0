"""What models learned of items and clusters, as the report draws it from what trials kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_folders import swept_two_kinds

from crowdsweep.analysis.kept_arrays import KeptArrays, class_names
from crowdsweep.analysis.maps import Maps
from crowdsweep.analysis.sections.unseen_annotators import unseen_annotators
from crowdsweep.analysis.sweep import analysed
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.files.owned import replace_files
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.registered import build_model
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.kept_arrays import array_of
from crowdsweep.record.shown import shown_trials
from crowdsweep.record.store_files import STORE
from crowdsweep.seeds import SeedStream
from crowdsweep.views.figures.of_report import pictures
from crowdsweep.views.page.sections import unseen_table
from crowdsweep.views.report_files import write_report


def swept(tmp_path: Path, *models: Any) -> Maps:
    store = swept_two_kinds(tmp_path, *models, seeds=2)
    write_report(store)
    return analysed(store).maps


def test_clusters_are_drawn_largest_first_without_the_empty_ones(tmp_path: Path) -> None:
    clusters = {"restarts": 2, "iterations": 20}
    maps = swept(
        tmp_path,
        {"name": "pgm-bp", "params": {**clusters, "item_clusters": 6, "annotator_clusters": 3}},
        {"name": "fmm", "params": {**clusters, "item_clusters": 2}},
        "majority-vote",
    )
    (found,) = maps.clusters.values()
    by_model = {one.model: one for one in found}
    assert by_model.keys() == {"pgm-bp", "fmm"}
    graph, mixture = by_model["pgm-bp"], by_model["fmm"]
    assert (graph.seed, graph.n_item_clusters, graph.n_annotator_clusters) == (0, 6, 3)
    assert graph.labels.shape == (len(graph.item_sizes), len(graph.annotator_sizes), 3)
    assert (np.diff(graph.item_sizes) <= 0).all()
    assert graph.item_sizes.min() >= 0.5
    assert (graph.item_sizes.sum(), graph.annotator_sizes.sum()) == (40, 20)
    assert 1 <= graph.effective_items <= len(graph.item_sizes) <= 6
    assert mixture.labels.shape == (2, 1, 3)
    assert not len(mixture.annotator_sizes)
    assert mixture.class_names == ("calm", "angry", "other")
    assert mixture.summary.startswith("2 clusters of items, 2 in use (2.0 effective).")
    names = [name for name, _ in pictures(maps)]
    assert names == ["clusters-1.png", "clusters-2.png"]
    page = (tmp_path / "store" / "report.html").read_text()
    assert "Clusters, as pgm-bp finds them" in page
    assert (tmp_path / "store" / "clusters-2.png").is_file()


def test_classes_have_the_names_of_the_plan_where_the_trial_kept_none(tmp_path: Path) -> None:
    """As where the items that are scored have gold."""
    store = swept_two_kinds(tmp_path, {"name": "fmm", "params": {"item_clusters": 2}}, seeds=1)
    state = read_journal(store)
    (place,) = analysed(store).maps.clusters
    kept = KeptArrays(place=place, model="fmm", seed=0, arrays={})
    assert class_names(state, kept) == ("calm", "angry", "other")


def test_maps_that_are_not_drawn_any_more_go(tmp_path: Path) -> None:
    store = swept_two_kinds(tmp_path, {"name": "fmm", "params": {"item_clusters": 2}}, seeds=1)
    earlier = dict.fromkeys(("clusters-1.png", "clusters-2.png", "items-12.png"), b"of an earlier report")
    replace_files(store, STORE, earlier)
    for name in ("my-items-1.png", "items-a.png"):
        (store / name).write_bytes(b"somebody's own")
    write_report(store)
    assert sorted(file.name for file in store.glob("*.png")) == ["clusters-1.png", "items-a.png", "my-items-1.png"]
    assert (store / "clusters-1.png").read_bytes().startswith(b"\x89PNG")


def test_items_of_a_kind_stand_together(tmp_path: Path) -> None:
    maps = swept(tmp_path, {"name": "ldl-nm", "params": {"epochs": 30, "learning_rate": 0.01, "steps": 0}})
    ((drawn,),) = maps.items.values()
    assert (drawn.model, drawn.seed, drawn.points.shape) == ("ldl-nm", 0, (40, 2))
    assert drawn.classes.tolist() == [0, 1] * 20
    assert drawn.class_names == ("calm", "angry", "other")
    distance = np.linalg.norm(drawn.points[:, None] - drawn.points[None], axis=2) + 1e9 * np.eye(40)
    assert (drawn.classes[distance.argmin(axis=1)] == drawn.classes).mean() > 0.9
    page = (tmp_path / "store" / "report.html").read_text()
    assert "Items, as ldl-nm sees them" in page
    assert (tmp_path / "store" / "items-1.png").is_file()


def test_a_study_draws_its_whole_datasets_and_not_the_thinned_ones(tmp_path: Path) -> None:
    study = {"template": "redundancy", "labels_per_item": [1, 2]}
    store = swept_two_kinds(tmp_path, {"name": "fmm", "params": {"item_clusters": 2}}, seeds=1, study=study)
    state = read_journal(store)
    assert {trial.spec.dataset_params.get("redundancy") for trial in shown_trials(state)} == {1, 2, None}
    (place,) = analysed(store).maps.clusters
    assert "redundancy" not in place[1]


def test_annotators_left_out_of_training_stand_in_a_table(tmp_path: Path) -> None:
    left_out = {"name": "ldl-nm", "params": {"epochs": 30, "learning_rate": 0.01, "unseen_annotators": 0.5}}
    swept(tmp_path, left_out, {"name": "ldl-nm", "label": "ldl-nm of all", "params": {"epochs": 2, "steps": 0}})
    store = tmp_path / "store"
    state, rows = read_journal(store), open_rows(store)
    (models,) = unseen_annotators(state, shown_trials(state), rows).values()
    ((model, annotators, crowd, inferred, gain, between),) = (row.cells for row in unseen_table(models).rows)
    (key,) = [key for key, spec in state.specs.items() if spec.params["unseen_annotators"] and spec.seed == 0]
    loglik = array_of(rows, state.results[key].kept["unseen_loglik"])
    assert loglik is not None
    by_crowd, by_own = loglik.mean(axis=0)
    means = (models[0].as_mean.mean, models[0].inferred.mean, models[0].gain.mean)
    assert means == pytest.approx((by_crowd, by_own, by_own - by_crowd))
    assert (model, annotators) == ("ldl-nm", str(len(loglik)))
    assert (crowd, inferred) == (f"{100 * np.exp(by_crowd):.0f} %", f"{100 * np.exp(by_own):.0f} %")
    assert float(str(gain)) == pytest.approx(by_own - by_crowd, abs=5.001e-4)
    assert str(between).startswith("[")
    page = (store / "report.html").read_text()
    assert "Annotators that a model was not trained on" in page


def test_latent_vectors_of_many_items_are_thinned() -> None:
    rng = np.random.default_rng(0)
    sizes = {"n_items": 700, "n_annotators": 90, "n_classes": 2}
    annotations = Annotations.of(
        item=np.arange(700), annotator=rng.integers(90, size=700), label=rng.integers(2, size=700), **sizes
    )
    data = TrainingData(annotations=annotations, items=Items(n_items=700, features=np.ones((700, 3), np.float32)))
    model = build_model("ldl-nm", {"epochs": 1, "latent": 8})
    extras = fit_one(model, data, FitContext(seeds=SeedStream(0))).extras
    assert extras["item_latents"].shape == (512, 8)
    assert np.isfinite(extras["item_latents"]).all()
    picked = np.linspace(0, 699, 512).round().astype(int)
    assert extras["item_classes"].tolist() == annotations.label[picked].tolist()
