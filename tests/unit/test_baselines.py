"""Predictions that take no fit: scored in every trial of a report of distributions, and shown whatever models run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_trial import run_one

from crowdsweep import app
from crowdsweep.record.array_names import BASELINES
from crowdsweep.record.result import TrialResult
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.views.report_files import write_report


def written(folder: Path, *, gold: bool = False, multilabel: bool = False) -> str:
    """Forty items of three classes, six votes each; ten items are dev items, ten test."""
    rng = np.random.default_rng(3)
    leaning = rng.dirichlet(np.ones(3), size=40)
    rows = [f"i{i},w{w},{'abc'[rng.choice(3, p=leaning[i])]}" for i in range(40) for w in range(6)]
    folder.mkdir()
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    splits = ["train"] * 20 + ["dev"] * 10 + ["test"] * 10
    lines = [f"i{i},{split}" + (",a" if gold else "") for i, split in enumerate(splits)]
    (folder / "items.csv").write_text("\n".join(["item,split" + (",gold" if gold else ""), *lines]) + "\n")
    if multilabel:
        (folder / "dataset.yaml").write_text("scale: multilabel\n")
    return str(folder)


def values_of(result: TrialResult) -> dict[tuple[str, str], float]:
    return {(name, metric): value for name, metric, value in result.artifacts[BASELINES].tolist()}


@pytest.mark.parametrize("multilabel", [False, True])
def test_baselines_have_the_scores_of_the_models_of_these_names(tmp_path: Path, multilabel: bool) -> None:
    folder = written(tmp_path / "votes", multilabel=multilabel)
    found = values_of(run_one(folder, "majority-vote"))
    for name in ("marginal", "uniform"):
        metrics = run_one(folder, name).metrics
        for split in ("train", "dev", "test"):
            of_votes = ("log_loss", "brier", "accuracy") if split != "train" else ()  # they trained
            for kind in ("kl", "kl_reverse", "js", *of_votes):
                assert found[name, f"{split}_{kind}"] == pytest.approx(metrics[f"{split}_{kind}"], abs=1e-12)
        assert not {f"train_{kind}" for kind in ("log_loss", "brier", "accuracy")} & {metric for _, metric in found}


def test_the_items_own_answers_are_those_that_trained(tmp_path: Path) -> None:
    folder = written(tmp_path / "votes")
    everything, few = (values_of(run_one(folder, "uniform", **params)) for params in ({}, {"redundancy": 2}))
    vote = run_one(folder, "majority-vote", redundancy=2)
    assert everything["histogram", "train_kl"] == pytest.approx(0.0, abs=1e-12)
    assert 0.1 < few["histogram", "train_kl"] == pytest.approx(vote.metrics["train_kl"])
    assert not {metric for name, metric in few if name == "histogram" and not metric.startswith("train_")}


def test_baselines_are_kept_for_the_report_where_distributions_are_compared(tmp_path: Path) -> None:
    assert BASELINES not in run_one(written(tmp_path / "votes"), "uniform", phase="search").artifacts
    assert BASELINES not in run_one(written(tmp_path / "gold", gold=True), "uniform").artifacts


def report_of(tmp_path: Path, dataset: Any, **changes: Any) -> tuple[str, str]:
    config = parse_sweep(
        {
            "name": "some",
            "datasets": [dataset],
            "models": ["majority-vote", "dawid-skene"],
            "seeds": {"report": 2},
            "engine": "inline",
            "tracking": {"enabled": False},
            **changes,
        }
    )
    app.run(config, tmp_path / "store", quiet=True)
    write_report(tmp_path / "store")
    return (tmp_path / "store" / "report.html").read_text(), (tmp_path / "store" / "table.md").read_text()


def test_reports_of_distributions_show_all_three_whatever_models_ran(tmp_path: Path) -> None:
    folder = written(tmp_path / "votes")
    page, table = report_of(tmp_path, {"name": folder, "redundancy": 2}, models=[{"name": "uniform", "label": "flat"}])
    for name in ("marginal", "uniform", "histogram"):
        assert f'<td data-label="without a fit">{name}</td>' in page
    lines = [line for line in table.splitlines() if "| uniform" in line or "| histogram" in line]
    assert [("test KL" in line, "train KL" in line) for line in lines] == [(True, False), (False, True)]
    values = {line.split("|")[-2].strip() for line in lines}
    assert all(float(value) > 0 for value in values)


def test_reports_against_gold_show_none(tmp_path: Path) -> None:
    page, table = report_of(tmp_path, written(tmp_path / "gold", gold=True))
    assert "without a fit" not in page + table
