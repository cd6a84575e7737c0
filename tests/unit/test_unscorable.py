"""A metric that a model cannot have is said at plan, before a search fails on every trial."""

from typing import Any

import pytest
from driven import config_of

from crowdsweep.errors import BadInput
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.metrics.wording import goal_of
from crowdsweep.models.registered import model_info
from crowdsweep.sweep.pilot import Outputs
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.requirements import why_not_by_metric
from crowdsweep.sweepfile.records import Metric
from crowdsweep.views.terminal.plan import describe_plan

SEARCHED = {"name": "dawid-skene", "search": {"smoothing": {"values": [0.01, 1.0]}}}


def metric(name: str) -> Metric:
    goal = goal_of(name)
    assert goal is not None
    return Metric(name=name, goal=goal)


def test_a_model_that_labels_no_unseen_items_is_not_searched_by_them() -> None:
    """It passed `plan`, and every search trial failed by MissingMetric until the sweep was over its budget."""
    others = config_of(datasets=["digits"], models=[SEARCHED, "majority-vote"], metric="dev_macro_f1")
    planned = make_plan(others)
    assert (planned.searches, [cell.label for cell in planned.cells]) == ([], ["majority-vote"])
    assert "dawid-skene on digits is not searched: dawid-skene labels no unseen items" in " ".join(
        describe_plan(planned, None).split()
    )
    with pytest.raises(BadInput, match=r"dev_macro_f1 scores dev items; give it parameters, .* by heldout_loglik"):
        make_plan(config_of(datasets=["digits"], models=[SEARCHED], metric="dev_macro_f1"))


@pytest.mark.parametrize(
    ("model", "name", "found", "said"),
    [
        ("dawid-skene", "test_kl", Outputs(label_probs=True, uses=(), annotators=True), "labels no unseen items"),
        ("dawid-skene", "train_macro_f1", Outputs(label_probs=True, uses=(), annotators=True), ""),
        ("dawid-skene", "js_annotators", Outputs(label_probs=True, uses=(), annotators=True), ""),
        (
            "majority-vote",
            "js_annotators",
            Outputs(label_probs=True, uses=(), annotators=False),
            "not model annotators",
        ),
        (
            "cmm",
            "dev_kl.crowd",
            Outputs(label_probs=True, uses=("items",), annotators=True),
            "by items, and not by crowd",
        ),
        ("cmm", "dev_kl.items", Outputs(label_probs=True, uses=("items",), annotators=True), ""),
        ("dawid-skene", "dev_kl", None, ""),  # nobody knows: its trials will say
    ],
)
def test_what_a_fit_lacks_is_named(model: str, name: str, found: Outputs | None, said: str) -> None:
    told = why_not_by_metric(model_info(model), metric(name), lambda: found)
    assert said in told
    assert bool(told) == bool(said)


@pytest.mark.parametrize("name", ["dev_accuracy", "test_macro_f1", "train_log_loss", HELDOUT])
def test_no_model_with_features_is_fitted_only_to_ask(name: str) -> None:
    def never() -> Any:
        pytest.fail("it was fitted")

    assert why_not_by_metric(model_info("cmm"), metric(name), never) == ""
