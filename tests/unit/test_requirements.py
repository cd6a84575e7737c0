"""Which metrics a dataset allows, and how the rules that made a trial's data stand in its key."""

from pathlib import Path
from typing import Any

import pytest

from crowdsweep import app
from crowdsweep.errors import BadInput
from crowdsweep.sweep import replay
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

TOKENS = "item,sentence,position,gold\n" + "".join(f"t{i},{i // 3},{i},{'OBI'[i % 3]}\n" for i in range(6))


def tokens(path: Path, names: str = "O,B-x,I-x") -> str:
    """Two sentences of three tokens, each tagged by two annotators, with gold."""
    path.mkdir()
    rows = "".join(f"t{i},{who},{'OBI'[i % 3]}\n" for i in range(6) for who in "ab")
    (path / "annotations.csv").write_text("item,annotator,label\n" + rows)
    (path / "items.csv").write_text(TOKENS)
    labels = zip("OBI", names.split(","), strict=True)
    (path / "classes.csv").write_text("label,name\n" + "".join(f"{code},{name}\n" for code, name in labels))
    return str(path)


def config_of(dataset: Any, metric: str | None = None, model: Any = "majority-vote", **changes: Any) -> SweepConfig:
    given = {"name": "tiny", "datasets": [dataset], "models": [model], **changes}
    return parse_sweep(given if metric is None else {**given, "metric": metric}, "tiny.yaml")


def test_spans_are_asked_for_where_there_are_some(tmp_path: Path) -> None:
    make_plan(config_of(tokens(tmp_path / "tags"), "train_span_f1"))
    expected = r"'train_span_f1' is defined for tokens in sentences, and classes called O, B-… and I-…"
    with pytest.raises(BadInput, match=expected):
        make_plan(config_of(tokens(tmp_path / "words", names="one,two,three"), "train_span_f1"))
    with pytest.raises(BadInput, match=r"take train_accuracy"):
        make_plan(config_of({"name": "digits"}, "train_span_f1"))


def test_what_only_describes_is_refused_with_its_line() -> None:
    with pytest.raises(BadInput, match=r"tiny.yaml: metric.name: metric 'dev_entropy' .* does not say how good it is"):
        config_of("anesthesia", "dev_entropy")


def test_held_out_pairs_and_units_have_a_version_in_the_key(tmp_path: Path) -> None:
    searched = {"name": "majority-vote", "search": "default"}
    (search,) = make_plan(config_of("anesthesia", model=searched)).searches
    (spec,) = search.cell.specs([0], "search", heldout=search.heldout)
    assert (search.heldout, spec.data_version) == (0.1, 2)
    (spec,) = search.cell.specs([0], "report")
    assert spec.data_version == 1
    (search,) = make_plan(config_of("digits", model=searched)).searches
    assert search.cell.specs([0], "search", heldout=0.1)[0].data_version == 1
    cell = make_plan(config_of({"name": tokens(tmp_path / "tags"), "redundancy": 1})).cells[0]
    assert cell.specs([0], "report")[0].data_version == 2


def test_another_version_is_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = {"name": "majority-vote", "search": "default"}
    keys: set[str] = set()
    for version in (1, 2, 3):
        monkeypatch.setattr("crowdsweep.sweep.cells.data_version", lambda *_, version=version: version)
        keys.add(make_plan(config_of("anesthesia", model=searched)).searches[0].key)
    assert len(keys) == 3


def test_a_trial_of_other_rules_cannot_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("anesthesia", engine="inline", seeds={"report": 1}, tracking={"enabled": False})
    app.run(config, tmp_path / "store", quiet=True)
    key = make_plan(config).cells[0].specs([0], "report", heldout=0.1)[0].key
    assert replay.replay_trial(key, [tmp_path / "store"]).same
    monkeypatch.setattr(replay, "data_version", lambda *_: 3)
    with pytest.raises(BadInput, match=r"other rules \(version 2 then, 3 now\): its numbers cannot be repeated"):
        replay.replay_trial(key, [tmp_path / "store"])
