"""Names and messages, wherever they come from, are text wherever they go."""

import csv
import io

import matplotlib as mpl
import pyarrow as pa
import pytest
from mirror_checks import started
from rich.console import Console

from crowdsweep.errors import UnknownName, plain
from crowdsweep.files.csv_files import to_csv
from crowdsweep.metrics.intervals import estimate
from crowdsweep.views.figures.bars import Bar, means_with_intervals
from crowdsweep.views.figures.drawing import to_svg
from crowdsweep.views.tables.texts import to_latex, to_markdown
from crowdsweep.views.terminal.live import ConsoleMirror

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_spreadsheet_gets_no_formula(name: str) -> None:
    text = to_csv(pa.table({"model": [name, "plain", None], "accuracy": [-0.5, 1.0, None]}))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows[0]["model"] == f"'{name}"
    assert [row["model"] for row in rows[1:]] == ["plain", ""]
    assert [row["accuracy"] for row in rows] == ["-0.5", "1", ""]
    assert next(csv.reader(io.StringIO(to_csv(pa.table({name: [1]})), newline=""))) == [f"'{name}"]


def test_a_markdown_cell_stays_one_cell_of_text() -> None:
    names = ["a|b", "a\nb\r\nc\u2028d", "`code`", "<b>", "\\", "![x](http://host)", "\x1b[31m"]
    lines = to_markdown(pa.table({"model": names})).splitlines()
    assert len(lines) == 2 + len(names)
    cells = [line.removeprefix("| ").removesuffix(" |").strip() for line in lines[2:]]
    assert cells == ["a\\|b", "a b c d", "\\`code\\`", "\\<b>", "\\\\", "![x]\\(http://host)", "\\\\x1b[31m"]


def test_latex_has_no_command_and_no_line_of_a_name() -> None:
    text = to_latex(pa.table({"model": ["\\input{x}\n%&$#_^~"]}))
    assert "\\textbackslash{}input\\{x\\} \\%\\&\\$\\#\\_\\textasciicircum{}\\textasciitilde{} \\\\" in text


@pytest.mark.parametrize("label", ["$x^2$", "$\\frac{", "$", "a$b$c\\", "\\$", "$" * 7])
def test_dollars_in_a_figure_are_dollars(label: str) -> None:
    bars = [Bar(label=label, estimate=estimate([0.4, 0.5, 0.6]))]
    assert to_svg(means_with_intervals(bars, "test_accuracy"), "x", label).startswith("<svg")


def test_settings_of_others_change_no_figure() -> None:
    bars = [Bar(label="x", estimate=estimate([0.4, 0.5, 0.6]))]
    before = to_svg(means_with_intervals(bars, "test_accuracy"), "x", "x")
    with mpl.rc_context({"text.usetex": True, "font.size": 3, "lines.linewidth": 9}):
        assert to_svg(means_with_intervals(bars, "test_accuracy"), "x", "x") == before


def test_what_moves_hides_or_breaks_is_written_out() -> None:
    given = "a\x1b]0;t\x07b\x00\r\x9b1m\u202ec\ud800\u2028é\n\t語"
    assert plain(given) == "a\\x1b]0;t\\x07b\\x00\\r\\x9b1m\\u202ec\\ud800\\u2028é\n\t語"
    plain(given).encode()


def test_the_terminal_gets_no_escapes_of_a_name() -> None:
    out = io.StringIO()
    mirror = ConsoleMirror(console=Console(file=out, force_terminal=False, width=200))
    mirror.handle(started("\x1b[2Jname [red]x[/red]"))
    mirror.close()
    assert "\\x1b[2Jname [red]x[/red]: " in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_messages_are_short_whatever_was_named() -> None:
    assert len(str(UnknownName("model", "x" * 100_000, ["cmm"]))) < 1000
