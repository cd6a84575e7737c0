"""Training items without gold are never scored by the answers that trained them: majority vote would win."""

from pathlib import Path

import pytest
from driven import config_of
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.compare import compare
from crowdsweep.analysis.trial_table import comparison_rows
from crowdsweep.errors import BadInput
from crowdsweep.metrics.metric_table import repeats_votes
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.replay import Replay
from crowdsweep.views.page.tables import metrics_tables


@pytest.mark.parametrize(
    ("metric", "gold", "expected"),
    [
        ("train_accuracy", False, True),
        ("train_brier", False, True),
        ("train_log_loss", False, True),
        ("train_ece", False, True),
        ("train_macro_f1", False, True),
        ("train_accuracy", True, False),
        ("train_kl", False, False),  # how far a fit moves from its answers, as papers of distributions print it
        ("train_entropy", False, False),
        ("dev_accuracy", False, False),  # these answers did not train
        ("heldout_loglik", False, False),
    ],
)
def test_which_metrics_would_repeat_the_vote(metric: str, gold: bool, expected: bool) -> None:
    assert repeats_votes(metric, {"train": gold, "dev": False}) is expected
    assert not repeats_votes(metric, {})  # scored by gold, unless said otherwise


def write_votes(folder: Path, *, gold: bool) -> str:
    folder.mkdir()
    rows = [f"i{i},w{w},{'ab'[(i + (w == i % 3)) % 2]}" for i in range(12) for w in range(3)]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    if gold:
        (folder / "items.csv").write_text("item,gold\ni0,a\n")
    return str(folder)


def test_a_sweep_cannot_ask_for_them(tmp_path: Path) -> None:
    without, with_gold = (write_votes(tmp_path / name, gold=name == "gold") for name in ("none", "gold"))
    make_plan(config_of(datasets=[with_gold], metric="train_macro_f1"))
    with pytest.raises(BadInput, match=r"'train_macro_f1' needs training items with gold.*take heldout_loglik"):
        make_plan(config_of(datasets=[without], metric="train_macro_f1"))


def test_records_of_earlier_versions_are_shown_without_them() -> None:
    scores = [{"train_accuracy": 1.0, "train_kl": 0.0, "heldout_loglik": -0.5 - 0.01 * seed} for seed in range(3)]
    table = comparison_rows(folded(made_up_sweep(made_up_trials("mv", "d", scores), models=[{"name": "mv"}])))
    (block,) = compare(
        table, references={("d", "{}"): DatasetRecord(dataset="d", gold={"train": False}, heldout=0.1)}
    ).datasets
    assert set(block.ranked[0].metrics) == {"train_kl", "heldout_loglik"}
    assert next(one.title for one in metrics_tables(block)) == "On train items, against the answers that trained"
    (block,) = compare(table, references={("d", "{}"): DatasetRecord(dataset="d", gold={"train": True})}).datasets
    assert "train_accuracy" in block.ranked[0].metrics
    assert next(one.title for one in metrics_tables(block)) == "On train items"


def test_a_replay_does_not_miss_them() -> None:
    spec = TrialSpec(model="mv", params={}, model_version=1, dataset="d", fingerprint="f", seed=0)
    now = TrialResult(key=spec.key, status=Status.OK, metrics={"train_kl": 0.0})
    recorded = TrialResult(key=spec.key, status=Status.OK, metrics={"train_kl": 0.0, "train_accuracy": 0.95})
    assert Replay(spec=spec, recorded=recorded, now=now).same
    assert not Replay(spec=spec, recorded=recorded, now=TrialResult(key=spec.key, status=Status.OK)).same
