"""A command that loads for long says a word first, where somebody started it as a process."""

import time

import click
import pytest

from crowdsweep.cli import first_word
from crowdsweep.cli.first_word import Waiting, say_first


@click.command()
@click.option("--seconds", type=float)
def slow(seconds: float) -> None:
    say_first("a.csv: reading it")
    time.sleep(seconds)
    click.echo("done")


@pytest.mark.parametrize(
    ("waiting", "seconds", "said"), [(Waiting(), 0.3, True), (Waiting(), 0, False), (None, 0.3, False)]
)
def test_the_first_word_is_said_where_it_takes_long(monkeypatch, capsys, waiting, seconds, said) -> None:
    monkeypatch.setattr(first_word, "_PATIENCE_S", 0.05 if seconds else 30.0)
    slow.main(["--seconds", str(seconds)], standalone_mode=False, obj=waiting)
    printed = capsys.readouterr()
    assert printed.out == "done\n"
    assert printed.err == ("a.csv: reading it…\n" if said else "")
