"""Help of commands: whole sentences at every width."""

import pytest
from click.testing import CliRunner

from crowdsweep.cli.commands import commands


@pytest.mark.parametrize("columns", [40, 60, 100, 200])
@pytest.mark.parametrize("words", [["--help"], ["data", "--help"]])
def test_commands_are_listed_with_whole_sentences(columns: int, words: list[str]) -> None:
    shown = CliRunner().invoke(commands, words, terminal_width=columns).output
    assert "..." not in shown.partition("Commands:")[2]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    group = commands if len(words) == 1 else commands.commands["data"]
    said = "".join(shown.split())
    for name, command in group.commands.items():
        if command.hidden:
            continue
        sentence = " ".join((command.help or "").split("\n\n")[0].split()).partition(". ")[0]
        assert "".join(f"{name}{sentence.rstrip('.')}".split()) in said
