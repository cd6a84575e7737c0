"""Entries of a sweep file's lists, found by what people call them."""

from pathlib import Path

import pytest

from crowdsweep.errors import BadInput, SweepFileError
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.sweepfile.records import SweepConfig


@pytest.fixture
def sweep(tmp_path: Path):
    """Writes a sweep file and loads it with overrides."""

    def load(text: str, *overrides: str) -> SweepConfig:
        path = tmp_path / "sweep.yaml"
        path.write_text(text, encoding="utf-8")
        return load_sweep(path, overrides)

    return load


def test_an_override_names_what_it_changes(sweep) -> None:
    twice = """\
name: twice
datasets:
  - {name: digits, annotators: 50}
  - {name: gaussians, annotators: 50}
models:
  - {name: dawid-skene, label: ds.sharp, params: {smoothing: 0.1}}
  - dawid-skene
  - majority-vote
  - {name: dl-ds, label: one}
  - {name: dl-ds, label: other}
"""
    changes = [
        "models.ds.sharp.params.smoothing=0.2",  # a label, with a dot in it
        "models.dawid-skene.params.smoothing=0.3",  # a label before a name that two have
        "models.majority-vote.label=mv",  # an entry that is a name alone
        "models.other.params.epochs=3",
        "datasets.gaussians.annotators=60",
        "models.0.params.iterations=7",
    ]
    config = sweep(twice, *changes)
    assert [(entry.label, dict(entry.params)) for entry in config.models] == [
        ("ds.sharp", {"smoothing": 0.2, "iterations": 7}),
        ("dawid-skene", {"smoothing": 0.3}),
        ("mv", {}),
        ("one", {}),
        ("other", {"epochs": 3}),
    ]
    assert [entry.params["annotators"] for entry in config.datasets] == [50, 60]
    with pytest.raises(
        SweepFileError, match=r"several are called 'dl-ds'; give a label or a position: 3 \(one\), 4 \(oth"
    ):
        sweep(twice, "models.dl-ds.params.epochs=3")
    with pytest.raises(SweepFileError, match="there are digits, gaussians; did you mean 'digits'"):
        sweep(twice, "datasets.digit.annotators=60")
    with pytest.raises(BadInput, match=r"models\.1\.params\.smoothng"):
        sweep(twice, "models.dawid-skene.params.smoothng=0.3")
