"""What a sweep found is read and computed once, whoever shows it, and nobody reads what another view has written."""

import re
from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials

from crowdsweep.analysis import sweep as sweep_of
from crowdsweep.analysis.compare import compare
from crowdsweep.analysis.flat_tables import comparison_table
from crowdsweep.analysis.sweep import analysed
from crowdsweep.record import journal
from crowdsweep.record.journal import Journal
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import WRITTEN, write_files
from crowdsweep.views.terminal.grid import Grid, render
from crowdsweep.views.terminal.results import _COLUMNS, label_line, shown_results

BEST, CLOSE = [0.9, 0.91, 0.92, 0.9], [0.89, 0.92, 0.9, 0.91]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    events = [
        *made_up_trials("a", "birds", [{"test_accuracy": score} for score in BEST]),
        *made_up_trials("b", "birds", [{"test_accuracy": score} for score in CLOSE]),
    ]
    record = Journal(tmp_path)
    record.handle_many(made_up_sweep(events, models=[]))
    record.close()
    return tmp_path


def test_every_view_shows_one_reading_and_one_comparison(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    compared: list[int] = []

    def open_rows(place: Path) -> object:
        opened.append(place)
        return open_as_before(place)

    def counting(*args: object, **settings: object) -> object:
        compared.append(1)
        return compare(*args, **settings)  # type: ignore[arg-type]

    open_as_before = journal.open_rows
    monkeypatch.setattr(journal, "open_rows", open_rows)
    monkeypatch.setattr(sweep_of, "open_rows", open_rows)
    monkeypatch.setattr(sweep_of, "compare", counting)
    found = analysed(store)
    page = write_files(found).read_text()
    told = shown_results(found, None)
    shown = sweep_page(found, {})
    (best, _) = comparison_table(found.comparison).to_pylist()
    assert (opened, compared) == ([store], [1])
    assert "Use a: 90.8 %" in page
    assert "test accuracy\t1\ta\t90.8 %" in told
    assert shown.metrics["Score"] == pytest.approx(0.9075, abs=1e-4)
    assert (best["model"], best["mean"]) == ("a", pytest.approx(0.9075))
    assert label_line(found) == f"crowdsweep label {store}"


def test_a_terminal_of_eighty_columns_says_what_stands_beside_the_best() -> None:
    cells = [
        "2",
        "hierarchical-dawid-skene",
        "-0.441 nats",
        "-0.460 – -0.422",
        "not significantly different",
        "9 s",
        "5",
    ]
    columns = [column for column in _COLUMNS if column.title != "published"]
    told = render(Grid(columns=columns, groups={"": [cells]}), 80)
    assert all(word in told for word in ("beside the best", "not significantly", "different", "-0.422"))
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in told.splitlines()) <= 80


def test_the_terminal_reads_no_file_of_the_report(store: Path) -> None:
    found = analysed(store)
    write_files(found)
    before = shown_results(found, 100)
    for name in WRITTEN:
        (store / name).unlink()
    assert shown_results(analysed(store), 100) == before


def test_a_model_beside_the_best_is_told_alike_everywhere(store: Path) -> None:
    found = analysed(store)
    first, second = found.comparison.datasets[0].ranked
    assert (first.beside_best, second.beside_best) == (None, "not significantly different")
    assert "b is not significantly different from it." in found.answers[0].lead
    assert "not significantly different" in shown_results(found, None)
    assert "not significantly different" in write_files(found).read_text()
