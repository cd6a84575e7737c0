"""Sentences on a terminal: no word is broken, and what is to be copied stays in one piece."""

import io
import logging
import re
from itertools import pairwise
from pathlib import Path

import pytest
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.status import sweep_status
from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.events import SweepFinished, SweepStatus
from crowdsweep.views.terminal.live import ConsoleMirror, Terminal
from crowdsweep.views.terminal.messages import Warnings, columns_of, print_message, wrapped
from crowdsweep.views.terminal.stores import describe_status


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [20, 37, 60, 80, 100, 160])
def test_lines_end_between_words(width: int) -> None:
    text = "error: --set budget.pints=3: budget.pints: unknown key 'pints'; did you mean 'points'? " * 3
    lines = wrapped(text.strip(), width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert " ".join(lines).split() == text.split()
    assert all(len(before) + 1 + len(after.split()[0]) > width for before, after in pairwise(lines))


def test_a_command_to_copy_has_no_end_of_a_line_in_it() -> None:
    command = "`crowdsweep mirror crowdsweep-runs/a-name-that-is-long --uri http://somewhere:5000`"
    lines = wrapped(f"MLflow: 140 runs to go; Ctrl-C leaves the rest to {command}, which may take long", 60).split("\n")
    assert lines == ["MLflow: 140 runs to go; Ctrl-C leaves the rest to", f"{command},", "which may take long"]


def test_lines_and_indents_stay() -> None:
    assert (
        wrapped("short\n\n  one two three four five six\nend", 20) == "short\n\n  one two three four\n  five six\nend"
    )
    assert wrapped("as it is " * 50, None) == "as it is " * 50
    assert wrapped("", 40) == ""


def test_a_word_that_is_longer_than_a_line_begins_one() -> None:
    assert wrapped("see " + "x" * 50 + " there", 20).split("\n") == ["see", "x" * 50, "there"]


def test_letters_that_take_two_columns_count_twice() -> None:
    assert wrapped("標籤 " * 10, 24).split("\n")[0] == " ".join(["標籤"] * 5)


def test_only_a_terminal_has_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert columns_of(Screen()) == 72
    assert columns_of(io.StringIO()) is None
    monkeypatch.delenv("COLUMNS")
    assert columns_of(Screen()) is None  # it has no file that could be asked
    closed = Screen()
    closed.close()
    assert columns_of(closed) is None


def test_what_is_told_moves_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = Screen()
    print_message("a name \x1b[2J with more words than there is room for", screen)
    assert screen.getvalue() == "a name \\x1b[2J with more words\nthan there is room for\n"


def test_warnings_are_told_as_messages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stderr", screen)
    record = logging.LogRecord("crowdsweep", logging.WARNING, "", 0, "%s is %s " * 4, ("a note", "long") * 4, None)
    Warnings().emit(record)
    assert screen.getvalue().split("\n")[0] == "a note is long a note is long"


def test_errors_of_commands_break_between_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", screen)
    assert run_command_line(["run", str(tmp_path / "no such file with a long name.yaml")]) == 2
    assert run_command_line(["run", "--engine", "no-engine-at-all", "somewhere"]) == 2
    told = screen.getvalue()
    assert "error: there is no file" in told.replace("\n", " ")
    assert "Usage: crowdsweep run [OPTIONS] SWEEP\n" in told
    assert all(len(line) <= 40 or " " not in line for line in told.split("\n"))


def test_errors_are_whole_lines_where_nobody_looks_at_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert run_command_line(["run", str(tmp_path / "no such file with a long name.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_status_breaks_between_words() -> None:
    failure = {"trial": "a on b, seed 3", "key": "k", "kind": "FitFailed", "message": "this went wrong " * 10}
    state = folded(made_up_sweep(made_up_trials("a", "b", [{"test_accuracy": 0.5}]), models=[]))
    found = {**sweep_status(state), "failed": 2, "left_out": 3, "failures": [failure]}
    lines = describe_status(found, "crashed", 50).split("\n")
    assert all(len(line) <= 50 for line in lines if "\x1b" not in line)
    one = describe_status(found, "crashed", None)
    assert ("this went wrong " * 10).strip() in one


def test_lines_of_a_run_break_between_words() -> None:
    screen = Screen()
    mirror = ConsoleMirror(
        console=Terminal(file=screen, force_terminal=True, width=40, soft_wrap=True, highlight=False)
    )
    name = "a sweep that has a name of very many words, as somebody may have called it"
    started = made_up_sweep([], models=[], name=name, status=None)[0]
    mirror.handle(started)
    mirror.handle(SweepFinished(status=SweepStatus.DONE, time=1.0))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").split("\n")
    told = lines[lines.index("a sweep that has a name of very many") :]
    assert all(len(line) <= 40 for line in told)
    assert "as somebody may have called it: finished;" in " ".join(told)
