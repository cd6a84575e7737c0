"""A command that loads for long says so first, where somebody started it as a process."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import click
import pytest

from crowdsweep.cli import loading_notice
from crowdsweep.cli.commands import commands, run_command_line
from crowdsweep.cli.loading_notice import LoadingNotice, cancel_loading_notice, set_loading_notice, start_loading_notice
from crowdsweep.cli.output import say

# What takes more than a tenth of a second to import: nothing of it may be imported before the notice.
HEAVY = (
    *("numpy", "pyarrow", "scipy", "pandas", "torch", "sklearn", "optuna", "mlflow", "ray", "matplotlib"),
    *("rich", "yaml", "obstore", "jinja2", "beartype", "pydantic", "sqlalchemy"),
)


@click.group()
@click.pass_context
def group(context: click.Context) -> None:
    start_loading_notice(context)


@group.command()
@click.option("--seconds", type=float)
@click.option("--begins", default="")
def slow(seconds: float, begins: str) -> None:
    if begins == "quiet":
        cancel_loading_notice()
    elif begins == "told":
        say("told")
    elif begins:
        set_loading_notice(begins)
    time.sleep(seconds)
    click.echo("done")


@pytest.mark.parametrize(
    ("waiting", "words", "said"),
    [
        (LoadingNotice, ["--seconds", "0.3"], "demo slow: loading…\n"),
        (LoadingNotice, ["--seconds", "0.3", "--begins", "a.csv: reading it"], "a.csv: reading it…\n"),
        (LoadingNotice, ["--seconds", "0.3", "--begins", "quiet"], ""),
        (LoadingNotice, ["--seconds", "0.3", "--begins", "told"], ""),
        (LoadingNotice, ["--seconds", "0"], ""),
        (None, ["--seconds", "0.3"], ""),
    ],
)
def test_the_notice_appears_where_loading_takes_long(monkeypatch, capsys, waiting, words, said) -> None:
    monkeypatch.setattr(loading_notice, "_PATIENCE_S", 0.05 if words[1] != "0" else 30.0)
    group.main(["slow", *words], prog_name="demo", standalone_mode=False, obj=waiting and waiting())
    printed = capsys.readouterr()
    assert printed.out.endswith("done\n")
    assert printed.err == said


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            yield from leaves(part, (*path, name))
    else:
        yield path, command


LEAVES = dict(leaves(commands))


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_can_show_the_notice_before_it_begins(monkeypatch, path: tuple[str, ...]) -> None:
    begun: list[str] = []
    monkeypatch.setattr(LoadingNotice, "begin", lambda self, words: begun.append(words))
    monkeypatch.setattr(LEAVES[path], "callback", lambda **_: begun.append("the command"))
    needed = [
        part.type.choices[0] if isinstance(part.type, click.Choice) else "1"
        for part in LEAVES[path].params
        if isinstance(part, click.Argument) and part.required
    ]
    assert run_command_line([*path, *needed], waiting=LoadingNotice()) == 0
    assert begun == [f"crowdsweep {path[0]}: loading", "the command"]


def test_nothing_heavy_is_imported_before_the_notice() -> None:
    program = (
        "import json, sys\n"
        "from crowdsweep import __main__\n"
        "from crowdsweep.cli.loading_notice import LoadingNotice\n"
        "def begin(self, words):\n"
        "    print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), flush=True)\n"
        "    sys.exit(0)\n"
        "LoadingNotice.begin = begin\n"
        "sys.argv = ['crowdsweep', 'plan', 'x.yaml']\n"
        "__main__.main()\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True).stdout
    loaded = json.loads(said.splitlines()[0])
    assert "click" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []
