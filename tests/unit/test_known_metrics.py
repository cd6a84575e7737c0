"""The table of metrics: names that sweep files may say, goals, words and units, and what applies where."""

from pathlib import Path

import numpy as np
import pytest

from crowdsweep.data.dataset import Scale
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.metrics.metric_table import (
    CROWD_METRICS,
    ITEM_METRICS,
    METRICS,
    NAMES_WITH_A_GOAL,
    check_metric_name,
    info_of,
    metric_kind,
)
from crowdsweep.metrics.wording import goal_of, is_count, is_share, readable, words

NAMED = {  # that scripts rely on
    "accuracy", "macro_f1", "log_loss", "brier", "ece", "kl", "kl_reverse", "js", "manhattan", "span_f1",
    "entropy", "error_rate", "error_rate_annotators", "absolute_distance", "absolute_distance_annotators",
    "mae", "weighted_kappa", "wasserstein",
    "heldout_loglik", "js_annotators", "js_annotators_crowd",
    "js_global", "js_global_weighted", "n_annotations", "n_active_annotators", "seconds", "memory",
}  # fmt: skip
ON_SCALES = {"mae", "weighted_kappa", "wasserstein"}


def test_every_metric_stands_in_the_table_once() -> None:
    assert set(METRICS) == NAMED


@pytest.mark.parametrize("name", NAMES_WITH_A_GOAL)
def test_every_name_with_a_goal_can_be_asked_for(name: str) -> None:
    check_metric_name(name)
    assert goal_of(name) in ("maximize", "minimize")
    assert words(name).partition(" ")[0] in ("train", "dev", "test", "held-out", "JS")


@pytest.mark.parametrize(
    ("name", "goal", "said"),
    [
        ("test_accuracy", "maximize", "test accuracy, %"),
        ("dev_macro_f1.crowd", "maximize", "dev macro-F1 (crowd), %"),
        ("test_span_f1", "maximize", "test span-F1, %"),
        ("train_log_loss", "minimize", "train log-loss, nats"),
        ("test_kl_reverse", "minimize", "test reverse KL, nats"),
        ("dev_brier", "minimize", "dev Brier score"),
        ("test_mae", "minimize", "test mean absolute error, steps"),
        ("train_weighted_kappa", "maximize", "train weighted kappa"),
        ("dev_wasserstein.snap", "minimize", "dev Wasserstein distance (snap), steps"),
        ("dev_entropy", None, "dev entropy of predictions, nats"),
        ("heldout_loglik", "maximize", "held-out log-likelihood, nats"),
        ("dev_manhattan", "minimize", "dev Manhattan distance"),
        ("test_error_rate", "minimize", "test error rate of single answers, %"),
        ("heldout_error_rate_annotators", "minimize", "held-out error rate of annotators, %"),
        ("heldout_absolute_distance", "minimize", "held-out absolute distance of single answers"),
        ("js_global_weighted", "minimize", "JS of the crowd, weighted, bits"),
        ("n_annotations", None, "annotations"),
        ("something_else", None, "something else"),
    ],
)
def test_what_a_name_says(name: str, goal: str | None, said: str) -> None:
    assert goal_of(name) == goal
    assert readable(name) == said
    assert is_share(name) == said.endswith("%")
    assert is_count(name) == name.startswith("n_")


@pytest.mark.parametrize(
    "name",
    [
        "test_accurracy",
        "accuracy",
        "heldout_loglik.crowd",
        "js_global.x",
        "dev_kl.",
        "x",
        "train_error_rate",
        "heldout_accuracy",
        "error_rate",
        "dev_error_rate.snap",
    ],
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnknownName, match="unknown metric"):
        check_metric_name(name)


@pytest.mark.parametrize("name", ["dev_entropy", "n_annotations"])
def test_what_only_describes_cannot_be_optimised(name: str) -> None:
    with pytest.raises(BadInput, match=f"sweep.yaml:3: metric '{name}' .* describes a result"):
        check_metric_name(name, "sweep.yaml:3")


def test_the_reference_of_sweep_files_lists_them_all() -> None:
    lines = (Path(__file__).parents[2] / "search_spaces" / "README.md").read_text().splitlines()
    start = lines.index("| metric | better | unit | what it is |") + 2
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start : start + len(METRICS) - 2]]
    better = {"maximize": "higher", "minimize": "lower", None: "neither"}
    named = [info for info in METRICS.values() if not is_count(info.name)]
    assert table == [[f"`{info.name}`", better[info.goal], info.unit, info.about] for info in named]
    assert all(info.about for info in METRICS.values())


def test_names_are_read_without_split_and_use() -> None:
    assert metric_kind("test_accuracy.crowd") == "accuracy"
    assert metric_kind("heldout_loglik") == "heldout_loglik"
    assert metric_kind("js_global") == "js_global"
    assert metric_kind("heldout_error_rate") == "error_rate"
    assert info_of("dev_js") is METRICS["js"]
    assert info_of("js") is METRICS["js"]
    assert {metric.name for metric in CROWD_METRICS} == {
        "js_annotators",
        "js_annotators_crowd",
        "js_global",
        "js_global_weighted",
    }


def test_distances_apply_to_ordinal_classes_alone() -> None:
    def applying(scale: Scale) -> set[str]:
        return {metric.name for metric in ITEM_METRICS if metric.applies(scale, None, ("1", "2", "3"))}

    assert applying("ordinal") - applying("nominal") == ON_SCALES
    assert not applying("multilabel") & ON_SCALES


def test_spans_apply_to_tokens_with_tags_alone() -> None:
    tags, unit = ("O", "B-x"), np.zeros(1, dtype=np.int32)
    others: list[tuple[Scale, np.ndarray | None, tuple[str, ...]]] = [
        ("nominal", None, tags),
        ("multilabel", unit, tags),
        ("nominal", unit, ("a", "b")),
    ]
    applying = {
        metric.name for metric in ITEM_METRICS for scale, units, names in others if metric.applies(scale, units, names)
    }
    assert applying == {metric.name for metric in ITEM_METRICS} - {"span_f1"} - ON_SCALES
    assert METRICS["span_f1"].applies("nominal", unit, tags)  # type: ignore[attr-defined]
