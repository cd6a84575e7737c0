"""Models × datasets as papers print them: who is best, what is as good, and the same numbers in every form."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials
from published_sweeps import ODD, published_store

import crowdsweep as cs
from crowdsweep.analysis.compare import Comparison
from crowdsweep.analysis.pivot import Pivot, pivot_of, pivot_table
from crowdsweep.analysis.sweep import analysed
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import UnknownName
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import show_number
from crowdsweep.record.journal import Journal
from crowdsweep.views.tables.pivot import mean_and_rest, pivot_in_latex, pivot_in_markdown
from crowdsweep.views.terminal.pivot import pivot_text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_store(tmp_path_factory.mktemp("pivot"))


@pytest.fixture(scope="module")
def pivot(store: Path) -> Pivot:
    return analysed(store).pivot()


def stands(pivot: Pivot) -> dict[str, dict[str, str]]:
    return {column.title: {model: cell.stands for model, cell in column.cells.items()} for column in pivot.columns}


def test_who_is_best_and_who_as_good(pivot: Pivot) -> None:
    assert stands(pivot) == {
        "birds": {ODD: "best", "vote": "as good", "coin": "worse", "ideal": "saw gold"},
        "cats": {"vote": "best", "coin": "worse"},
    }
    assert pivot.metric == "test_accuracy"
    assert pivot.gold == ["ideal"]
    assert pivot.models == [ODD, "vote", "coin"], "by the mean of their ranks, those that saw gold apart"
    assert pivot.mean_ranks == {"vote": 1.0, "coin": 2.0}, "over the datasets on which all of these are ranked"
    assert pivot.seeds == (12, 12)
    assert list(pivot.unsound) == ["coin on cats"]


def test_a_pivot_is_the_comparison_of_the_report_and_tests_nothing_anew(store: Path) -> None:
    found = analysed(store)
    for column, block in zip(found.pivot().columns, found.comparison.datasets, strict=True):
        for score in [*block.ranked, *block.gold]:
            assert column.cells[score.model].estimate is score.metrics[block.metric]


def test_any_metric_of_the_table_ranks(store: Path) -> None:
    found = analysed(store)
    by_f1 = found.pivot("test_macro_f1")
    assert stands(by_f1)["birds"] == {"coin": "best", "vote": "worse", ODD: "worse", "ideal": "saw gold"}
    assert by_f1.columns[0].cells["coin"].printed == 0.8222
    assert by_f1.columns[0].cells["vote"].printed is None
    assert [score.model for score in found.comparison.datasets[0].ranked] == [ODD, "vote", "coin"], "the report's stays"
    with pytest.raises(UnknownName, match="test_macro_f1"):
        found.pivot("test_macro_f2")
    with pytest.raises(UnknownName, match="test_entropy"):
        found.pivot("test_entropy")  # it says of no model that it is better


def test_a_dataset_that_lacks_the_metric_ranks_nobody(tmp_path: Path) -> None:
    events = [
        *made_up_trials("a", "birds", [{"test_accuracy": 0.5, "test_kl": 0.3}, {"test_accuracy": 0.6, "test_kl": 0.2}]),
        *made_up_trials("a", "cats", [{"test_accuracy": 0.5}, {"test_accuracy": 0.6}]),
        *made_up_trials("a", "birds", [{"dev_kl": 0.5}], phase="search", first_seed=9, search="s"),
    ]
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=[]))
    journal.close()
    found = analysed(tmp_path)
    birds, cats = found.pivot("test_kl").columns
    assert (birds.goal, birds.cells["a"].estimate.mean, dict(cats.cells)) == ("minimize", 0.25, {})
    text = pivot_in_latex(found.pivot("test_kl"))
    assert "lower is better on birds" in text
    assert "& --" in text
    with pytest.raises(UnknownName):
        found.pivot("dev_kl")  # no trial of the report has it


def rows_of(latex: str) -> list[list[str]]:
    """The cells of the rows of a tabular; an escaped ampersand is none."""
    body = latex.partition("\\toprule\n")[2].partition("\\bottomrule")[0]
    rows = [line.removesuffix(" \\\\") for line in body.splitlines() if line.endswith(" \\\\")]
    return [re.split(r" (?<!\\)& ", row) for row in rows]


def test_latex_is_a_table_of_booktabs_in_which_names_are_text(pivot: Pivot) -> None:
    latex = pivot_in_latex(pivot)
    heads, below, *rows = rows_of(latex)
    assert heads == ["model", "\\multicolumn{2}{c}{birds}", "\\multicolumn{1}{c}{cats}", "mean rank"]
    assert below == ["", "ours", "published", "", ""]
    assert "\\begin{tabular}{@{}lrrrr@{}}" in latex
    assert "\\cmidrule(lr){2-3}" in latex
    assert {len(row) for row in rows} == {5}
    odd, vote, coin, ideal = rows
    assert odd[0] == "cmm\\_2 \\& 50\\% \\#1 \\{x\\} \\textbackslash{}input"
    assert re.fullmatch(r"\\textbf\{90\.\d+\} \{\\scriptsize \$\\pm\$ 0\.\d+\}", odd[1])
    assert odd[3:] == ["--", ""]
    assert vote[1].startswith("\\underline{")
    assert vote[2] == "81.23"
    assert vote[3].startswith("\\textbf{80.0")
    assert coin[1].startswith("70.")
    assert "$^\\dagger$" in coin[3]
    assert ideal[0] == "ideal (saw gold)"
    assert "\\textbf" not in "".join(ideal)
    assert latex.count("\\midrule") == 2, "those that saw gold stand apart"
    unescaped = latex.replace("\\{", "").replace("\\}", "")
    assert unescaped.count("{") == unescaped.count("}")
    assert "Table 3 of the paper" in latex
    assert "95 \\% interval" in latex


def test_markdown_csv_and_json_have_the_same_numbers(pivot: Pivot, store: Path) -> None:
    markdown = pivot_in_markdown(pivot, "none")
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in markdown.splitlines()[:6]]
    assert lines[0] == ["model", "birds", "birds, published", "cats", "mean rank"]
    shown = {
        column.title: {
            model: show_number(cell.estimate.mean, "test_accuracy", cell.estimate)
            for model, cell in column.cells.items()
        }
        for column in pivot.columns
    }
    assert lines[2][1:] == [f"**{shown['birds'][ODD]}**", "", "–", ""]
    assert lines[3][1:] == [f"*{shown['birds']['vote']}*", "81.23", f"**{shown['cats']['vote']}**", "1.0"]
    written = cs.results(store).pivot_text("csv")
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(written, newline=""))}
    told = {row["model"]: row for row in json.loads(cs.results(store).pivot_text("json"))}
    assert told.keys() == rows.keys() == {ODD, "vote", "coin", "ideal"}
    cell = pivot.columns[0].cells["vote"]
    assert float(rows["vote"]["birds"]) == told["vote"]["birds"] == pytest.approx(cell.estimate.mean)
    assert told["vote"]["birds: low"] == pytest.approx(cell.estimate.low)
    assert told["vote"]["birds: printed"] == 0.8123
    assert (told["vote"]["birds: stands"], told[ODD]["cats"], told["ideal"]["saw_gold"]) == ("as good", None, True)
    assert cs.results(store).pivot().to_pylist() == list(told.values())
    assert pivot_table(pivot).column_names == list(told["vote"])


def test_plus_minus_is_what_was_asked_for() -> None:
    even = Estimate(n=5, mean=0.822, sd=0.02, low=0.813, high=0.831)
    assert mean_and_rest(even, "test_accuracy", "interval") == ("82.2", "± 0.9")
    assert mean_and_rest(even, "test_accuracy", "sd") == ("82.2", "± 2.0")
    assert mean_and_rest(even, "test_accuracy", "none") == ("82.2", "")
    lopsided = Estimate(n=5, mean=0.95, sd=0.02, low=0.861, high=0.983)
    assert mean_and_rest(lopsided, "test_accuracy", "interval") == ("95.0", "(86.1 – 98.3)")
    alone = Estimate(n=1, mean=-0.5)
    assert mean_and_rest(alone, "heldout_loglik", "interval") == ("-0.500", "")
    assert mean_and_rest(alone, "heldout_loglik", "sd") == ("-0.500", "")


def test_commands_print_it_and_refuse_what_makes_no_sense(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["results", str(store), "--layout", "pivot"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["model", "birds", "cats", "mean rank"]
    assert first.split("\t")[0] == ODD
    assert run_command_line(["results", str(store), "--layout", "pivot", "--format", "latex"]) == 0
    assert "\\toprule" in capsys.readouterr().out
    f1 = ["--layout", "pivot", "--metric", "test_macro_f1", "--plus-minus", "none", "--format", "md"]
    assert run_command_line(["results", str(store), *f1]) == 0
    assert "**80.0" in capsys.readouterr().out
    for words, said in (
        (["--metric", "test_macro_f1"], "add --layout pivot"),
        (["--layout", "pivot", "--phase", "all"], "leave --phase"),
        (["--layout", "pivot", "--metric", "nothing"], "nothing"),
    ):
        assert run_command_line(["results", str(store), *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_a_terminal_shows_every_dataset_in_parts_that_fit(pivot: Pivot, width: int) -> None:
    table, _, note = re.sub(r"\x1b\[[0-9;]*m", "", pivot_text(pivot, width)).rpartition("\n\n")
    assert max(map(len, note.splitlines())) <= width
    assert max(map(len, table.splitlines())) <= max(width, len(ODD) + 30)
    assert all(title in table for title in ("birds", "cats", "mean rank"))
    assert table.count("vote") == len(table.split("\n\n"))


def test_nothing_to_show_is_an_empty_table() -> None:
    empty = pivot_of(Comparison(datasets=[], ranks=None, published=[]), sweep="x")
    assert pivot_table(empty).num_rows == 0
    assert "\\bottomrule" in pivot_in_latex(empty)
    assert pivot_in_markdown(empty).startswith("| model |")
    assert pivot_text(empty, None).startswith("model")
