"""Datasets and models that nothing could score: said before anything runs, and other cells go on."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from crowdsweep import app
from crowdsweep.analysis.sweep import analysed
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.views.report_files import write_report
from crowdsweep.views.terminal.plan import describe_plan

SEARCHED = {"name": "dawid-skene", "search": {"smoothing": {"values": [0.01, 1.0]}}}
MUTE = """
\"\"\"Says nothing of answers that it has not seen.\"\"\"
from dataclasses import dataclass

from crowdsweep.models.contract import FitResult, ModelInfo


@dataclass(frozen=True)
class Mute:
    \"\"\"Vote shares.

    Attributes:
        unused: changes nothing.
    \"\"\"

    unused: float = 0.0

    def fit(self, data, context):
        return FitResult(item_probs=data.annotations.label_distribution())


MODEL = ModelInfo(
    name="mute",
    title="Mute",
    model=Mute,
    source="here",
    space={"unused": {"values": [0.0, 1.0]}},
    deterministic=True,
)
"""


def write_votes(folder: Path, *, votes: int, gold: bool) -> str:
    """Thirty items; the votes of three in four are right."""
    rows = [f"i{i},w{(i + v) % 7},{'ab'[(i + ((i * 5 + v) % 4 == 0)) % 2]}" for i in range(30) for v in range(votes)]
    folder.mkdir()
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    if gold:
        (folder / "items.csv").write_text("item,gold\n" + "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(30)))
    return str(folder)


def config_of(datasets: list[Any], models: list[Any], **changes: Any) -> SweepConfig:
    given = {
        "name": "unscored",
        "datasets": datasets,
        "models": models,
        "seeds": {"report": 2, "search": 2},
        "engine": "inline",
        "tracking": {"enabled": False},
        **changes,
    }
    return parse_sweep(given, "unscored.yaml")


@pytest.fixture
def mute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model without `label_probs`, like the one in the README."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "mute.py").write_text(MUTE)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(folder))
    return "mute"


def test_one_dataset_without_a_score_does_not_stop_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One label an item: without gold nothing can choose a point; with gold, the gold does."""
    bare, good = (write_votes(tmp_path / name, votes=1, gold=name == "good") for name in ("bare", "good"))
    sweep = {
        "name": "two",
        "datasets": [bare, good],
        "models": [SEARCHED, "majority-vote"],
        "seeds": {"report": 2},
        "engine": "inline",
        "tracking": {"enabled": False},
    }
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(sweep))
    assert run_command_line(["plan", str(tmp_path / "two.yaml")]) == 0
    planned = capsys.readouterr().out
    assert "dawid-skene on bare is not searched: no annotation can be held out" in planned
    assert "dawid-skene on good is searched by train_accuracy, since no annotation can be held out" in planned
    store = tmp_path / "store"
    assert run_command_line(["run", str(tmp_path / "two.yaml"), "--store", str(store), "--quiet"]) == 3
    told = capsys.readouterr()
    assert "1 search could not be made; the report says why" in told.err
    assert "dawid-skene on bare was not searched: no annotation can be held out" in told.out
    assert "bare: No model is ranked: there is neither gold nor a dev or test item" in told.out
    assert "log-likelihood" not in told.out  # a metric that it could not compute
    blocks = {block.dataset: block for block in analysed(store).comparison.datasets}
    assert {score.model for score in blocks[good].ranked} == {"dawid-skene", "majority-vote"}
    assert (blocks[bare].metric, blocks[bare].ranked) == ("", [])
    page = (store / "report.html").read_text()
    assert "was not searched" in page
    assert "chosen by the gold that also ranks" in page


def test_a_search_that_nothing_can_score_is_refused_where_it_is_all_that_is_asked(tmp_path: Path) -> None:
    bare = write_votes(tmp_path / "bare", votes=1, gold=False)
    with pytest.raises(BadInput, match=r"unscored.yaml: dawid-skene on .* is not searched: no annotation can be"):
        make_plan(config_of([bare], [SEARCHED]))


def test_fixed_cells_run_without_a_score_and_give_nothing_up_for_it(tmp_path: Path) -> None:
    plan = make_plan(config_of([write_votes(tmp_path / "bare", votes=1, gold=False)], ["majority-vote"]))
    assert plan.cells[0].report_specs()[0].heldout_fraction == 0
    assert "nothing can rank the models" in describe_plan(plan)
    assert "log-likelihood" not in describe_plan(plan)


def test_a_metric_that_the_file_names_is_not_replaced(tmp_path: Path) -> None:
    good = write_votes(tmp_path / "good", votes=1, gold=True)
    wanted = {"name": "heldout_loglik", "goal": "maximize"}
    with pytest.raises(BadInput, match=r"leave `metric` out, or take train_accuracy"):
        make_plan(config_of([good], [SEARCHED], metric=wanted))


def test_a_model_that_predicts_nothing_is_refused_or_searched_by_gold(tmp_path: Path, mute: str) -> None:
    searched = {"name": mute, "search": "default"}
    bare = write_votes(tmp_path / "bare", votes=3, gold=False)
    with pytest.raises(BadInput, match=r"mute gives no probabilities to answers that it has not seen"):
        make_plan(config_of([bare], [searched]))
    both = make_plan(config_of([bare], [searched, SEARCHED]))
    assert ([search.cell.label for search in both.searches], len(both.refused)) == (["dawid-skene"], 1)
    good = write_votes(tmp_path / "good", votes=3, gold=True)
    by_gold = make_plan(config_of([good], [searched, SEARCHED]))
    assert [search.metric.name for search in by_gold.searches] == ["train_accuracy", "heldout_loglik"]


def test_one_label_an_item_of_a_study_is_only_one_of_its_settings(tmp_path: Path) -> None:
    bare = write_votes(tmp_path / "bare", votes=4, gold=False)
    study = {"template": "redundancy", "labels_per_item": [1, 2]}
    config = config_of([bare], [SEARCHED, "majority-vote"], study=study)
    plan = make_plan(config)
    assert [one.dataset.params for one in plan.refused] == [{"redundancy": 1}]
    assert len(plan.searches) == 2
    app.run(config, tmp_path / "store", quiet=True)
    write_report(tmp_path / "store")
    blocks = analysed(tmp_path / "store").comparison.datasets
    assert {block.dataset_params: block.metric for block in blocks} == {
        '{"redundancy":1}': "",
        '{"redundancy":2}': "heldout_loglik",
        "{}": "heldout_loglik",
    }
