"""A command that gets no more memory says so in one line, and what is no want of memory is left as it was."""

import errno
import os

import pyarrow as pa
import pytest

from crowdsweep.cli import commands
from crowdsweep.errors import is_out_of_memory

WANTS = [
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 128 failed"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    RuntimeError("can't start new thread"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 8"
    ),
]


def ends_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    def fails(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(commands.commands, "main", fails)
    return commands.run_command_line(["status"])


@pytest.mark.parametrize("error", WANTS, ids=lambda error: type(error).__name__)
def test_a_want_of_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends_with(error, monkeypatch) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("error: there is no more memory")
    assert told.endswith("then do the same again")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError(errno.ENOSPC, "full"), ValueError("memory")])
def test_another_error_is_raised(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)):
        ends_with(error, monkeypatch)
