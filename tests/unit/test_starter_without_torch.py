"""Of labels alone nothing is imported that only reads features: torch would double the time to the first trial."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import crowdsweep as cs
from crowdsweep.models import registered
from crowdsweep.sweep.starter.choices import CANDIDATES, choose, facts_of


def test_candidates_say_whether_they_read_items() -> None:
    for one in CANDIDATES:
        assert one.reads == bool(registered.model_info(one.name).needs & {"features", "text"}), one.name


@pytest.mark.parametrize("params", [{}, {"scenario": "global"}])
def test_of_labels_alone_no_model_that_reads_items_is_looked_at(monkeypatch, params) -> None:
    real, asked = registered.model_info, set[str]()

    def looked_up(name: str):
        asked.add(name)
        return real(name)

    monkeypatch.setattr(registered, "model_info", looked_up)
    answers = [(item, annotator, (item + (annotator == 2)) % 2) for item in range(12) for annotator in range(3)]
    columns = dict(
        zip(("item", "annotator", "label"), ([*map(str, one)] for one in zip(*answers, strict=True)), strict=True)
    )
    choose(facts_of(cs.load(columns).dataset, params), "here")
    assert "majority-vote" in asked
    assert not asked & {one.name for one in CANDIDATES if one.reads}


@pytest.mark.long
def test_a_run_of_labels_alone_imports_no_torch(tmp_path: Path) -> None:
    folder = tmp_path / "pets"
    folder.mkdir()
    rows = [f"i{item},a{annotator},{(item + (annotator == 2)) % 2}" for item in range(12) for annotator in range(3)]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    program = (
        "import json, sys\n"
        "from crowdsweep.cli.commands import run_command_line\n"
        "code = run_command_line(sys.argv[1:])\n"
        "print('\\n' + json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    command = ["run", str(folder), "--engine", "inline", "--store", str(tmp_path / "store")]
    command += ["--set", "seeds.report=1", "--set", "tracking.enabled=false"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert not {"torch", "sklearn"} & set(modules)
