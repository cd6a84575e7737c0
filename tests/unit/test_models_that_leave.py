"""A model that changes the folder of its process takes no plug-in from the trials after it."""

import os
from pathlib import Path

import pytest

from crowdsweep.engine import worker
from crowdsweep.engine.work import DONE, Call
from crowdsweep.registry import discovery


def found() -> str:
    return str(discovery.locate("model", "stays").origin)


def test_a_relative_search_path_is_meant_from_where_the_worker_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugins").mkdir()
    plugin = tmp_path / "plugins" / "stays.py"
    plugin.write_text("MODEL = None\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(discovery.SEARCH_PATH, "plugins")
    forkserver = worker.Forkserver()
    try:
        for call in (Call(function=os.chdir, arguments=("/",)), Call(function=found, arguments=())):
            forkserver.worker().send(call)
            kind, answer = forkserver.receive(60.0)
            assert kind == DONE
        assert answer == str(plugin)
    finally:
        forkserver.close()
