"""What a model needs may depend on its settings: a network on texts needs texts, gold labels need gold."""

from pathlib import Path
from typing import Any

import pytest

from crowdsweep import app
from crowdsweep.analysis.sweep import analysed
from crowdsweep.errors import BadInput
from crowdsweep.models import registered
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig


def needs(name: str, **params: Any) -> set[str]:
    return set(registered.model_info(name).needs_of(registered.build_model(name, params)))


def test_needs_follow_the_settings() -> None:
    assert needs("soft-mv") == {"features"}
    assert needs("soft-mv", network="text_cnn") == needs("soft-mv", network="tagger") == {"text"}
    assert needs("dl-em", network="text_cnn") == needs("dl-em") - {"features"} | {"text"}
    assert needs("ideal", network="text_cnn") == {"gold", "text"}
    assert needs("fmm-guided") == {"features"}
    assert needs("fmm-guided", network="text_cnn") == {"text"}
    assert needs("stl") == {"features"}
    assert needs("mtl", labels="gold", network="text_cnn") == {"gold", "text"}


def dataset(path: Path, *, text: bool = True, gold: bool = True) -> str:
    path.mkdir()
    rows = [(i, who) for i in range(12) for who in "abc"]
    (path / "annotations.csv").write_text(
        "item,annotator,label\n" + "".join(f"i{i},{who},{i % 2}\n" for i, who in rows)
    )
    columns = ["item", "split", *(["gold"] if gold else []), *(["text"] if text else [])]
    lines = [
        {
            "item": f"i{i}",
            "split": "test" if i > 8 else "train",
            "gold": str(i % 2),
            "text": "no no" if i % 2 else "yes",
        }
        for i in range(12)
    ]
    content = "".join(",".join(line[column] for column in columns) + "\n" for line in lines)
    (path / "items.csv").write_text(",".join(columns) + "\n" + content)
    return str(path)


def config_of(data: str, *models: Any) -> SweepConfig:
    given = {"name": "needs", "datasets": [data], "models": list(models), "seeds": {"search": 1, "report": 2}}
    return parse_sweep({**given, "engine": "inline", "tracking": {"enabled": False}}, "needs.yaml")


def test_a_plan_refuses_what_the_settings_lack_and_nothing_else(tmp_path: Path) -> None:
    words, bare = dataset(tmp_path / "words"), dataset(tmp_path / "bare", text=False, gold=False)
    reading = {"name": "soft-mv", "params": {"network": "text_cnn"}}
    make_plan(config_of(words, reading))
    with pytest.raises(BadInput, match=r"model 'soft-mv' needs features of the training items"):
        make_plan(config_of(words, {"name": "soft-mv", "params": {"network": "mlp"}}))
    make_plan(config_of(words, "soft-mv"))  # reads what there is
    with pytest.raises(BadInput, match=r"model 'soft-mv' needs text of the training items"):
        make_plan(config_of(bare, reading))
    ungolden = dataset(tmp_path / "ungolden", gold=False)
    make_plan(config_of(ungolden, {"name": "stl", "params": {"network": "text_cnn"}}))
    with pytest.raises(BadInput, match=r"model 'stl' needs gold of the training items"):
        make_plan(config_of(ungolden, {"name": "stl", "params": {"network": "text_cnn", "labels": "gold"}}))
    searched = {
        "name": "stl",
        "search": {"network": {"values": ["text_cnn"]}, "labels": {"values": ["silver", "gold"]}},
    }
    (search,) = make_plan(config_of(words, searched)).searches
    assert search.cell.needs == {"text", "gold"}
    with pytest.raises(BadInput, match=r"model 'stl' needs gold of the training items"):
        make_plan(config_of(bare, searched))


def test_what_saw_gold_is_marked_and_ranked_apart(tmp_path: Path) -> None:
    small = {"network": "text_cnn", "embedding": 4, "filters": 4, "epochs": 2, "steps": 0}
    models = [
        {"name": name, "label": f"{name}-{labels}", "params": {**small, "labels": labels}}
        for name in ("stl", "mtl")
        for labels in ("gold", "silver")
    ]
    store = tmp_path / "store"
    app.run(config_of(dataset(tmp_path / "words"), *models), store, quiet=True)
    (block,) = analysed(store).comparison.datasets
    assert {score.model for score in block.gold} == {"stl-gold", "mtl-gold"}
    assert {score.model for score in block.ranked} == {"stl-silver", "mtl-silver"}
    assert block.metric == "test_accuracy"
    assert ["test_kl.soft" in score.metrics for score in block.ranked if score.model == "mtl-silver"] == [True]
