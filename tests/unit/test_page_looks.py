"""What the page of a report does in a window, in print, and before there is anything to report."""

import re
from pathlib import Path
from typing import Any

import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

import crowdsweep.views.page
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.study import study_report
from crowdsweep.record.events import Event, SweepStatus
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.views.page.table import WIDTH, PageRow, PageTable, in_parts
from crowdsweep.views.page.underway import search_so_far
from crowdsweep.views.report_files import write_report

MODELS: list[dict[str, Any]] = [
    {"name": "cmm", "label": "cmm", "params": {}, "search": {"groups": {"min": 1, "max": 5}}}
]
SEARCH = CellRecord(key="s", label="cmm", dataset="d", metric="dev_accuracy", goal="maximize", points=3)


def page(folder: Path, events: list[Event]) -> str:
    journal = Journal(folder)
    journal.handle_many(events)
    journal.close()
    return write_report(folder).read_text()


def young(values: list[float | None]) -> list[Event]:
    points = [{"groups": place} for place in range(1, len(values) + 1)]
    events = made_up_search("s", "cmm", "d", points, values, [])[:-1]
    return made_up_sweep(events, models=MODELS, searches=[SEARCH], status=None)


def wide(n_columns: int, cell: str) -> PageTable:
    rows = [PageRow(cells=[name, *[cell] * n_columns], kind="best") for name in ("a-model", "b")]
    columns = ["model", *(f"metric {n}" for n in range(n_columns))]
    return PageTable(columns=columns, rows=rows, title="title", note="note")


def test_a_wide_table_stands_in_parts_that_fit() -> None:
    parts = in_parts(wide(10, "0.042 (0.026 – 0.103)"))
    assert len(parts) == 3
    assert [column for part in parts for column in part.columns[1:]] == [f"metric {n}" for n in range(10)]
    for part in parts:
        assert [row.cells[0] for row in part.rows] == ["a-model", "b"]
        assert {row.kind for row in part.rows} == {"best"}
        assert all(sum(len(cell) + 2 for cell in row.cells) <= WIDTH for row in part.rows)
    assert [part.title for part in parts] == ["title", "", ""]
    assert [part.note for part in parts] == ["", "", "note"]
    even = in_parts(wide(12, "0.042 (0.026 – 0.103)"))
    assert [len(part.columns) for part in even] == [5, 5, 5]
    evener = in_parts(wide(5, "0.042 (0.026 – 0.103)"))
    assert [len(part.columns) for part in evener] == [4, 3]


def test_a_table_that_fits_stays_whole() -> None:
    for table in (wide(3, "0.5"), wide(0, ""), PageTable(columns=["a"], rows=[])):
        assert in_parts(table) == [table]


def test_columns_of_words_may_break_and_keep_their_side() -> None:
    rows = [PageRow(cells=["a", "word " * 40, "1"])]
    table = PageTable(columns=["model", "about", "n"], rows=rows, words=frozenset({0, 1}))
    assert in_parts(table) == [table]
    (_, second) = in_parts(
        PageTable(
            columns=["model", "long", "about"],
            rows=[PageRow(cells=["a", "x" * 95, "word"])],
            words=frozenset({0, 2}),
        )
    )
    assert second.words == {0, 1}


def test_a_young_page_shows_the_best_of_the_search(tmp_path: Path) -> None:
    shown = page(tmp_path, young([0.5, 0.75, None]))
    first = shown[: shown.index('<section id="search">')]
    assert "So far, in the search" in first
    assert "75.0" in first
    assert "groups 2" in first


def test_a_page_without_a_scored_point_says_nothing_of_a_search(tmp_path: Path) -> None:
    assert "So far, in the search" not in page(tmp_path, young([None]))


def test_what_a_search_saw_gives_way_to_fresh_seeds(tmp_path: Path) -> None:
    points = [{"groups": 1}, {"groups": 2}]
    events = made_up_search("s", "cmm", "d", points, [0.5, 0.75], [1])
    events += made_up_trials("cmm", "d", [{"dev_accuracy": 0.7}] * 2, point=points[1], search="s")
    sweep = made_up_sweep(events, models=MODELS, searches=[SEARCH], status=SweepStatus.INTERRUPTED)
    assert "So far, in the search" not in page(tmp_path, sweep)


@pytest.mark.parametrize(("goal", "order"), [("maximize", ["b", "a"]), ("minimize", ["a", "b"])])
def test_searches_of_a_dataset_stand_best_first(goal: str, order: list[str]) -> None:
    found = [
        SearchShown(
            model=model,
            place=("d", "{}"),
            metric="dev_kl",
            goal=goal,
            points={0: {}, 1: {}},
            values={0: value, 1: value},
            selected=[],
            fresh={},
        )
        for model, value in (("a", 0.1), ("b", 0.3))
    ]
    table = search_so_far(found)
    assert table is not None
    assert [row.cells[0] for row in table.rows] == order


def test_the_sweep_file_is_printed_in_columns(tmp_path: Path) -> None:
    shown = page(tmp_path, made_up_sweep(made_up_trials("a", "d", [{"test_accuracy": 0.5}] * 2), models=[]))
    assert '<pre class="columns">' in shown
    style = (Path(crowdsweep.views.page.__file__).parent / "page.css").read_text()
    printed = style[style.index("@media print") :]
    assert "pre.columns { columns:" in printed


def test_a_time_is_not_called_seconds(tmp_path: Path) -> None:
    """`seconds a trial: 379 ms`."""
    events = made_up_trials("a", "d", [{"test_accuracy": 0.5}] * 2, wall_s=0.379)
    shown = page(tmp_path, made_up_sweep(events, models=[]))
    assert '<td data-label="time per trial" class="r">379 ms</td>' in shown
    assert "seconds a trial" not in shown


def test_studies_call_folders_by_their_names() -> None:
    events: list[Event] = []
    for redundancy in ({"redundancy": 1}, {"redundancy": 2}, {}):
        for folder in ("/somewhere/long/birds", "/somewhere/else/birds", "/somewhere/fish"):
            metrics = [{"test_accuracy": 0.5 + 0.1 * seed} for seed in range(3)]
            events += made_up_trials("a", folder, metrics, dataset_params=redundancy)
    knobs = {"template": "redundancy", "labels_per_item": [1, 2]}
    study = study_report(folded(made_up_sweep(events, models=[], config={"study": knobs})))
    assert study is not None
    titles = [curve.title.partition(":")[0] for curve in study.curves]
    assert sorted(titles) == ["else/birds", "fish", "long/birds"]
    told = [*study.findings, *study.notes, *(table.title for table in study.tables), *study.next_steps]
    assert not any("/somewhere" in text for text in told)


@pytest.mark.parametrize("scored", [[], [None], [0.7, 0.8]])
def test_links_lead_to_what_is_there_however_little_that_is(tmp_path: Path, scored: list[float | None]) -> None:
    text = page(tmp_path, young(scored) if scored else made_up_sweep([], models=MODELS, status=None))
    there = set(re.findall(r'<section id="([^"]+)"', text))
    assert set(re.findall(r'<a href="#([^"]+)"', text)) <= there
    assert {"sure", "datasets", "cost"} & there == set(), "nothing has been reported yet"
    assert "covers the trials that have finished; run <code>crowdsweep run</code>" in text
