"""Tables on terminals of several widths, and tab-separated where there is no terminal."""

import re

import pytest

from crowdsweep.metrics.shown import number_words, score_words
from crowdsweep.record.naming import dataset_words
from crowdsweep.views.terminal.grid import Column, Grid, render

GRID = Grid(
    columns=(
        Column(title="rank", right=True),
        Column(title="model"),
        Column(title="score", right=True),
        Column(title="interval", right=True, drop=1),
        Column(title="seconds", right=True, drop=2),
        Column(title="never", drop=3),
    ),
    groups={
        "one": [
            ["1", "a-model-with-a-long-name", "83.7 %", "80.1 – 85.2", "0.01", ""],
            ["2", "b", "7.0 %", "", "3", ""],
        ],
        "other [red]": [["1", "\x1b[31mb\ttab", "99.9 %", "99.0 – 99.9", "12", ""]],
    },
    group="dataset",
)


def bare(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


@pytest.mark.parametrize("columns", [55, 60, 100, 160, 200])
def test_a_table_fits_its_terminal_and_keeps_what_matters(columns: int) -> None:
    lines = bare(render(GRID, columns))
    assert max(map(len, lines)) <= columns
    assert ("interval" in lines[1], "seconds" in lines[1], "never" in lines[1]) == (True, columns >= 60, False)
    assert [line for line in lines if line.startswith(("one", "other"))] == ["one", "other [red]"]
    assert any("a-model-with-a-long-name" in line and "83.7 %" in line for line in lines)
    ends = {line.index("%") for line in lines if "%" in line}
    assert len(ends) == 1, "the columns of all groups stand below each other"
    assert "\x1b[31m" not in render(GRID, columns)


@pytest.mark.parametrize("columns", [20, 30, 40])
def test_a_terminal_too_narrow_for_anything_gets_no_longer_line(columns: int) -> None:
    lines = bare(render(GRID, columns))
    assert max(map(len, lines)) <= columns
    assert any("83.7" in line or "…" in line for line in lines)


def test_long_text_goes_on_below_where_its_column_says_so() -> None:
    words = "a sentence of quite some length that no narrow terminal has room for on a single line"
    grid = Grid(columns=(Column(title="name"), Column(title="what", wraps=True)), groups={"": [["n", words]]})
    lines = bare(render(grid, 40))
    assert " ".join(" ".join(lines[1:]).split()) == f"n {words}"
    assert bare(render(grid, 200)) == ["name  what", f"n     {words}"]


def test_what_has_no_column_any_more_stands_below_where_its_column_says_so() -> None:
    columns = (
        Column(title="model"),
        Column(title="interval", right=True, drop=1, below="it is"),
        Column(title="it is", wraps=True),
    )
    rows = [["a-model-with-a-long-name", "-12.1 … +14.2", "not told apart"], ["b", "", "the same"]]
    grid = Grid(columns=columns, groups={"": rows})
    assert bare(render(grid, 60))[1] == "a-model-with-a-long-name  -12.1 … +14.2  not told apart"
    below = " " * 26
    assert bare(render(grid, 45)) == [
        f"{below}it is",
        "model                     interval",
        "a-model-with-a-long-name  not told apart",
        f"{below}-12.1 … +14.2",
        "b                         the same",
    ]
    assert render(grid, None).split("\n")[0] == "model\tinterval\tit is"


def test_tabs_where_there_is_no_terminal() -> None:
    lines = render(GRID, None).split("\n")
    assert lines[0] == "dataset\trank\tmodel\tscore\tinterval\tseconds\tnever"
    assert lines[1] == "one\t1\ta-model-with-a-long-name\t83.7 %\t80.1 – 85.2\t0.01\t"
    assert lines[3].startswith("other [red]\t1\t\\x1b[31mb tab\t99.9 %")
    assert {line.count("\t") for line in lines} == {6}


def test_a_dumb_terminal_gets_no_colours_and_all_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in render(GRID, 160)
    assert "seconds" in render(GRID, 160)


def test_scores_have_as_many_digits_as_are_read() -> None:
    assert score_words(0.83694, "test_accuracy") == "test accuracy 83.7 %"
    assert score_words(-0.69921, "heldout_loglik") == "held-out log-likelihood -0.699 nats"
    assert number_words(0.5, "unheard") == "0.500"


def test_datasets_are_called_as_in_the_sweep_file() -> None:
    assert dataset_words("labelme", {"scenario": "individual"}) == "labelme individual"
    assert dataset_words("digits", {"annotators": 50, "thinned": True}) == "digits (annotators 50, thinned yes)"
    assert dataset_words("rte", {"redundancy": 3, "scenario": "global"}) == "rte global (redundancy 3)"
    first, second = "/home/me/first/votes", "/home/me/second/votes"
    assert dataset_words(first, {}) == dataset_words(first, {}, ["digits", first]) == "votes"
    assert dataset_words(first, {}, [first, second]) == "first/votes"
    assert dataset_words("votes", {}, ["votes", second]) == "votes"
