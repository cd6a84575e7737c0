"""The scores of single items: which are kept, what the report makes of them, and what it says where there are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from one_trial import run_one

from crowdsweep import app
from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.phrases import intervals_over
from crowdsweep.analysis.sweep import analysed
from crowdsweep.metrics.shown import show_interval, show_score
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import TrialResult
from crowdsweep.record.store_files import ARTIFACTS
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.views.report_files import write_report


def write_votes(folder: Path, *, gold: bool = True, multilabel: bool = False) -> str:
    """Thirty items, five votes each, right three times in four."""
    rng = np.random.default_rng(1)
    true = rng.integers(2, size=30)
    flipped = rng.random((30, 5)) < 0.25
    rows = [f"i{i},w{w},{'ab'[true[i] ^ flipped[i, w]]}" for i in range(30) for w in range(5)]
    folder.mkdir()
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    (folder / "classes.csv").write_text("label,name\na,a\nb,b\n")
    if multilabel:
        (folder / "dataset.yaml").write_text("scale: multilabel\n")
    if gold:
        lines = [f"i{i},{'ab'[true[i]]}" for i in range(30)]
        (folder / "items.csv").write_text("\n".join(["item,gold", *lines]) + "\n")
    return str(folder)


def scores_of(result: TrialResult) -> dict[str, np.ndarray]:
    return {name: array for name, array in result.artifacts.items() if name.startswith("item")}


@pytest.mark.parametrize("multilabel", [False, True])
def test_scores_of_items_average_to_the_metrics(tmp_path: Path, multilabel: bool) -> None:
    result = run_one(write_votes(tmp_path / "votes", multilabel=multilabel))
    found = scores_of(result)
    assert found.keys() == {"item_scores.train", "items_scored.train"}
    scores = found["item_scores.train"]
    assert scores.shape == (30,)
    assert scores.dtype.names == (
        "accuracy", "macro_f1", "log_loss", "brier", "ece", "kl", "kl_reverse", "js", "manhattan"
    )  # fmt: skip
    for name in scores.dtype.names:
        assert scores[name].mean() == pytest.approx(result.metrics[f"train_{name}"], abs=1e-6)
    np.testing.assert_array_equal(found["items_scored.train"], np.arange(30))


def test_scores_of_items_are_kept_where_they_can_rank(tmp_path: Path) -> None:
    votes = write_votes(tmp_path / "votes")
    assert scores_of(run_one(votes)).keys() == {"item_scores.train", "items_scored.train"}
    assert not scores_of(run_one(votes, phase="search"))
    assert not scores_of(run_one(write_votes(tmp_path / "bare", gold=False)))  # own votes rank nobody


def sweep(tmp_path: Path, datasets: list[Any], **changes: Any) -> Path:
    given = {
        "name": "items",
        "datasets": datasets,
        "models": ["majority-vote", "dawid-skene"],
        "seeds": {"report": 3},
        "engine": "inline",
        "tracking": {"enabled": False},
        **changes,
    }
    app.run(parse_sweep(given), tmp_path / "store", quiet=True)
    return tmp_path / "store"


def block_of(store: Path) -> DatasetComparison:
    (block,) = analysed(store).comparison.datasets
    return block


def test_equal_seeds_are_kept_once_and_their_interval_is_over_items(tmp_path: Path) -> None:
    store = sweep(tmp_path, [write_votes(tmp_path / "votes")])
    kept = [artifact for result in read_journal(store).results.values() for artifact in result.kept.items()]
    assert len({artifact.digest for name, artifact in kept if name.startswith("items_scored")}) == 1
    assert len({artifact.digest for name, artifact in kept if name.startswith("item_scores")}) <= 2
    block = block_of(store)
    for score in block.ranked:
        found = score.metrics["train_accuracy"]
        assert (found.varies, found.constant, found.n_items) == ("items", True, 30)
        assert found.low is not None
    test = block.ranked[1].versus_best
    assert test is not None
    assert test.p is not None or test.reason == "the same on every item"
    assert intervals_over(block) == "Intervals and tests vary over the choice of the 30 items."


def test_without_the_scores_of_items_the_report_says_that_seeds_alone_vary(tmp_path: Path) -> None:
    """As in a record of before they were kept."""
    store = sweep(tmp_path, [{"name": write_votes(tmp_path / "votes"), "redundancy": 3}])
    assert block_of(store).varies == ["seeds and items"]
    for file in (store / ARTIFACTS).iterdir():
        file.unlink()
    block = block_of(store)
    assert block.varies == ["seeds"]
    assert "over seeds only" in intervals_over(block)
    assert "A collapse of up to 63 % of seeds can go unseen with 3 seeds." in intervals_over(block)
    write_report(store)
    assert "over seeds only" in (store / "report.html").read_text()


def test_another_metric_finds_the_scores_of_trials_that_ran_before(tmp_path: Path) -> None:
    votes = write_votes(tmp_path / "votes")
    sweep(tmp_path, [votes])
    store = sweep(tmp_path, [votes], metric={"name": "train_kl", "goal": "minimize"})
    assert len(read_journal(store).results) == 6
    block = block_of(store)
    assert (block.metric, block.varies) == ("train_kl", ["items"])


def test_held_out_splits_say_so_and_are_wider(tmp_path: Path) -> None:
    block = block_of(sweep(tmp_path, [write_votes(tmp_path / "votes", gold=False)]))
    assert (block.metric, block.varies) == ("heldout_loglik", ["held-out splits"])
    assert "1.15 times as wide as Student's (Nadeau and Bengio, 2003)" in intervals_over(block)


def test_the_table_says_what_each_interval_is_over(tmp_path: Path) -> None:
    store = sweep(tmp_path, [write_votes(tmp_path / "votes")])
    write_report(store)
    rows = pyarrow.csv.read_csv(store / "table.csv").to_pylist()
    assert [(row["interval_over"], row["collapsed"]) for row in rows] == [("items", 0), ("items", 0)]


def test_a_report_ranked_by_macro_f1_varies_over_items_everywhere(tmp_path: Path) -> None:
    store = sweep(
        tmp_path,
        [write_votes(tmp_path / "votes")],
        metric={"name": "train_macro_f1", "goal": "maximize"},
        seeds={"report": 2},
    )
    block = block_of(store)
    assert (block.metric, block.varies) == ("train_macro_f1", ["items"])
    write_report(store)
    page = (store / "report.html").read_text()
    rows = {row["model"]: row for row in pyarrow.csv.read_csv(store / "table.csv").to_pylist()}
    for score in block.ranked:
        found = score.metrics[block.metric]
        assert found.low is not None
        assert show_interval(found, block.metric) in page
        assert rows[score.model]["interval_over"] == "items"
    assert show_score(block.ranked[0].metrics[block.metric], block.metric) in page
    test = block.ranked[1].versus_best
    assert test is not None
    assert test.difference is not None
    assert intervals_over(block) == "Intervals and tests vary over the choice of the 30 items."
    assert rows.keys() == {"dawid-skene", "majority-vote"}
