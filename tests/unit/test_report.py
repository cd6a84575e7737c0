"""The tidy table, its text forms, and the page."""

import csv
import io
import json
import os
import re
import resource
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.trial_table import comparison_rows, results_table
from crowdsweep.errors import JournalError, WriteFailed
from crowdsweep.files.manifest import LIST_FILE
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import show_interval
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.journal import Journal
from crowdsweep.record.naming import show_point
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.record.result import Status
from crowdsweep.record.spec import canonical_json
from crowdsweep.units import show_p
from crowdsweep.views.report_files import write_report
from crowdsweep.views.tables.texts import render_table

_COLUMNS = [
    *("sweep", "phase", "chosen", "model", "dataset", "dataset_params", "point", "seed", "status", "key"),
    *("wall_s", "batch_wall_s", "batch_size", "peak_bytes", "iterations", "flags", "device", "host", "unfinished"),
]
_MODELS = [
    {"name": "cmm", "label": "cmm", "params": {}, "search": {"groups": {"min": 1, "max": 9}}},
    {"name": "cmm", "label": "cmm-equal", "params": {"protocol": "equal_budget"}},
    {"name": "majority-vote", "label": "majority-vote", "params": {}},
]


def _events() -> list[Event]:
    events = made_up_search("s", "cmm", "labelme", [{"groups": 2}, {"groups": 3}], [None, 0.8], [1])
    events += made_up_trials(
        "cmm", "labelme", [{"dev_accuracy": 0.8}], point={"groups": 3}, phase="search", search="s", first_seed=9
    )
    events += made_up_trials(
        "cmm", "labelme", [{"test_accuracy": 0.8}, {"test_accuracy": 0.84}, None], point={"groups": 3}, search="s"
    )
    equal = [{"test_accuracy": 0.79}, {"test_accuracy": 0.80}, {"test_accuracy": 0.75}]
    params, confusion = {"protocol": "equal_budget"}, [[0.9, 0.1], [0.0, 1.0]]
    events += made_up_trials("cmm", "labelme", equal, label="cmm-equal", params=params, confusion=confusion)
    return events + made_up_trials("majority-vote", "labelme", [{"train_accuracy": 0.7}] * 3)


def _sweep(**settings: Any) -> list[Event]:
    searches = [CellRecord(key="s", label="cmm", metric="dev_accuracy", goal="maximize")]
    return made_up_sweep(_events(), models=_MODELS, searches=searches, **settings)


def _store(folder: Path, events: Sequence[Event]) -> Path:
    journal = Journal(folder)
    journal.handle_many(events)
    journal.close()
    return folder


FILES = ("report.html", "table.md", "table.csv", "table.tex", "results.parquet")


def test_a_full_disk_leaves_the_old_report_whole(tmp_path: Path) -> None:
    store = _store(tmp_path, _sweep())
    page = write_report(store)
    before = {name: (store / name).read_bytes() for name in FILES}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before["report.html"]) // 2, limit[1]))
    try:
        with pytest.raises(
            WriteFailed, match=r"report.html: could not be written \(File too large\).*crowdsweep report"
        ):
            write_report(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert page.read_bytes() == before["report.html"]
    assert sorted(path.name for path in store.iterdir()) == sorted([*FILES, "journal.jsonl", "journal.lock", LIST_FILE])


def test_a_folder_that_takes_no_files_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path, _sweep())
    write_report(store)
    before = {name: (store / name).read_bytes() for name in FILES}

    opened = os.open

    def refuse(path: str, flags: int, *mode: int, **how: Any) -> Any:
        if flags & os.O_CREAT and path in FILES:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *mode, **how)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteFailed, match=r"results.parquet: could not be written \(Permission denied\)"):
        write_report(store)
    monkeypatch.undo()
    assert {name: (store / name).read_bytes() for name in FILES} == before


def test_a_report_follows_no_link(tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("mine")
    store = _store(tmp_path / "store", _sweep())
    (store / "report.html").symlink_to(other)
    assert write_report(store).is_file()
    assert other.read_text() == "mine"
    assert not (store / "report.html").is_symlink()


def test_half_a_character_in_a_message_is_spelled_out(tmp_path: Path) -> None:
    events = made_up_trials("cmm", "labelme", [{"train_accuracy": 0.7}, None])
    last = events[-1]
    assert isinstance(last, TrialFinished)
    assert last.result.failure is not None
    failure = replace(last.result.failure, message="bad \ud800 text")
    events[-1] = TrialFinished(result=replace(last.result, failure=failure))
    page = write_report(_store(tmp_path, made_up_sweep(events, models=_MODELS)))
    assert r"bad \ud800 text" in page.read_text()
    assert r"bad \ud800 text" in pyarrow.parquet.read_table(tmp_path / "results.parquet")["failure_message"].to_pylist()


def test_columns_are_as_promised_to_scripts() -> None:
    table = results_table(folded(_sweep()))
    metrics = ["test_accuracy", "train_accuracy"]
    assert table.column_names == [*_COLUMNS, *metrics, "failure_kind", "failure_message"]
    first = table.to_pylist()[6]
    assert first["point"] == '{"groups":3}'
    assert first["sweep"] == "made-up"
    assert first["train_accuracy"] is None


def test_phases_and_labels() -> None:
    state = folded(_sweep())
    assert [row["model"] for row in results_table(state).to_pylist()] == (
        ["cmm-equal"] * 3 + ["majority-vote"] * 3 + ["cmm"] * 3
    )
    assert results_table(state, "search").num_rows == 1
    assert results_table(state, "all").num_rows == 10
    assert results_table(state, "search")["dev_accuracy"].to_pylist() == [0.8]


def test_a_trial_of_both_phases_has_a_row_in_each() -> None:
    events = made_up_search("s", "majority-vote", "d", [{}], [0.7], [0])
    events += made_up_trials("majority-vote", "d", [{"train_accuracy": 0.7}], phase="search", search="s")
    events += made_up_trials("majority-vote", "d", [{"train_accuracy": 0.7}], phase="report")
    state = folded(made_up_sweep(events, models=_MODELS))
    for phase in ("search", "report"):
        assert results_table(state, phase)["phase"].to_pylist() == [phase]
    assert results_table(state, "all").num_rows == 1


def test_a_trial_that_answers_for_two_models_stands_for_both(tmp_path: Path) -> None:
    # The search selects the very smoothing that the other entry fixes: one trial, two models.
    point = {"smoothing": 0.5}
    scores = [{"train_accuracy": 0.8}, {"train_accuracy": 0.9}]
    events = made_up_search("s", "dawid-skene", "d", [{"smoothing": 9.0}, point], [0.1, 0.8], [1])
    events += made_up_trials("dawid-skene", "d", scores, params=point, label="fixed")
    events += made_up_trials("dawid-skene", "d", scores, point=point, label="tuned", search="s")
    sweep = made_up_sweep(events, models=[])
    assert results_table(folded(sweep))["model"].to_pylist() == ["fixed", "fixed"]
    shared = comparison_rows(folded(sweep)).to_pylist()
    assert [(row["model"], row["point"]) for row in shared] == [
        *[("fixed", "{}")] * 2,
        *[("tuned", canonical_json(point))] * 2,
    ]
    assert "tuned gives the same numbers" in _read(write_report(_store(tmp_path, sweep))).text


def test_of_many_searches_the_best_models_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' tables stand, and how to have their figures."""
    events: list[Event] = []
    for model, score in (("mace", 0.7), ("dawid-skene", 0.9)):
        events += made_up_search(model, model, "d", [{"smoothing": 1.0}, {"smoothing": 2.0}], [0.1, score], [1])
        scores = [{"test_accuracy": score}, {"test_accuracy": score + 0.001}]
        events += made_up_trials(model, "d", scores, point={"smoothing": 2.0}, search=model)
    store = _store(tmp_path, made_up_sweep(events, models=[]))
    everything = write_report(store).read_text()
    monkeypatch.setattr("crowdsweep.views.page.page._MOST_SEARCHES_DRAWN", 1)
    page = write_report(store).read_text()
    told = "Of so many searches the figures of 1 are drawn here"
    assert told not in everything
    before, after = page.partition(told)[::2]
    first = before.rindex("on d</h3>")
    assert before[:first].endswith("mace ")
    assert "<svg" not in before[first:]
    assert "dawid-skene on d</h3>" in after or "dawid-skene on d</h3>" in before[:first]
    assert page.count("<svg") < everything.count("<svg")


def test_a_failed_trial_has_its_reason_and_no_number() -> None:
    (failed,) = (row for row in results_table(folded(_sweep())).to_pylist() if row["status"] == "failed")
    assert (failed["seed"], failed["failure_kind"], failed["test_accuracy"]) == (2, "FitFailed", None)


def test_an_empty_sweep_gives_an_empty_table_with_its_columns() -> None:
    table = results_table(folded(made_up_sweep([], models=_MODELS)))
    assert table.num_rows == 0
    assert table.column_names == [*_COLUMNS, "failure_kind", "failure_message"]
    assert render_table(table, "csv").count("\n") == 1


def test_csv_and_json_say_what_the_table_says() -> None:
    table = results_table(folded(_sweep()))
    rows = list(csv.DictReader(io.StringIO(render_table(table, "csv"))))
    assert [json.loads(row["point"]) for row in rows[6:]] == [{"groups": 3}] * 3
    assert [row["test_accuracy"] for row in rows[6:]] == ["0.8", "0.84", ""]
    assert json.loads(render_table(table, "json")) == table.to_pylist()


def test_markdown_and_latex_escape_what_they_would_take_for_their_own() -> None:
    table = pyarrow.table({"a_b": ["x|y", "50 % & {more}\n~"], "number": [1.5, None]})
    lines = render_table(table, "md").splitlines()
    assert len({len(line) for line in lines}) == 1  # padded
    assert lines[2].startswith("| x\\|y")
    assert lines[1].endswith(":|") or lines[1].rstrip(" |").endswith(":")
    latex = render_table(table, "latex")
    assert "a\\_b & number" in latex
    assert "50 \\% \\& \\{more\\} \\textasciitilde{}" in latex
    assert latex.startswith("\\begin{tabular}{lr}")


def test_the_report_keeps_every_trial(tmp_path: Path) -> None:
    write_report(_store(tmp_path, _sweep()))
    assert pyarrow.parquet.read_table(tmp_path / "results.parquet").num_rows == 10


def test_the_report_writes_all_its_files(tmp_path: Path) -> None:
    page = write_report(_store(tmp_path, _sweep()))
    assert page == tmp_path / "report.html"
    assert {path.name for path in tmp_path.iterdir()} >= {
        "report.html",
        "table.md",
        "table.csv",
        "table.tex",
        "results.parquet",
    }
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    best = rows[0]
    assert (best["model"], best["rank"], best["n"], best["failed"]) == ("cmm", "1", "2", "1")
    assert float(best["mean"]) == pytest.approx(0.82)
    assert "| cmm " in (tmp_path / "table.md").read_text()


class _Page(HTMLParser):
    """Collects what a browser would fetch, ids, and whether tags close."""

    _VOID = ("meta", "path", "use", "br", "image", "img", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._VOID:
            self.open.append(tag)
        given = dict(attrs)
        if tag in ("link", "iframe", "object", "embed"):
            self.fetched.append(tag)
        for name in ("src", "href", "xlink:href"):
            value = given.get(name)
            if value is not None and not value.startswith(("#", "data:")):
                self.fetched.append(value)
        if given.get("id"):
            self.ids.append(str(given["id"]))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed(page.read_text())
    return parsed


def test_the_page_stands_alone_and_is_well_formed(tmp_path: Path) -> None:
    page = write_report(_store(tmp_path, _sweep()))
    parsed = _read(page)
    assert parsed.fetched == []
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert not re.search(r"@import|url\((?!#)", page.read_text())


def test_the_page_shows_failures_escaped_with_the_way_to_replay(tmp_path: Path) -> None:
    html = write_report(_store(tmp_path, _sweep())).read_text()
    assert "diverged &lt;b&gt;here&lt;/b&gt;" in html
    assert "<b>here" not in html
    (key,) = (row["key"] for row in results_table(folded(_sweep())).to_pylist() if row["status"] == "failed")
    assert f"crowdsweep replay {key}" in html


def test_the_page_says_when_a_sweep_is_not_finished(tmp_path: Path) -> None:
    done = _read(write_report(_store(tmp_path / "done", _sweep()))).text
    cut = _read(write_report(_store(tmp_path / "cut", _sweep(status=None)))).text
    assert "not finished" not in done
    assert "This sweep is not finished (status: crashed)" in cut


def test_the_page_says_what_was_stopped_early(tmp_path: Path) -> None:
    events = [
        TrialFinished(result=replace(event.result, status=Status.STOPPED))
        if isinstance(event, TrialFinished) and event.result.metrics.get("test_accuracy", 0.0) > 0.83
        else event
        for event in _sweep()
    ]
    text = _read(write_report(_store(tmp_path, events))).text
    assert "10 of 10 trials finished, 1 of them failed, 1 of them stopped early" in text
    assert "1 (1 failed) (1 stopped)" in text
    assert "1 trial failed and" in text


def test_a_sweep_that_has_only_begun_gives_a_page(tmp_path: Path) -> None:
    text = _read(write_report(_store(tmp_path, made_up_sweep([], models=_MODELS, status=None)))).text
    assert "No trial of the report phase has finished yet" in text


def test_winning_point_search_and_printed_values_stand_on_the_page(tmp_path: Path) -> None:
    printed = {"model": "cmm", "dataset": "labelme", "metric": "test_accuracy", "value": 0.831, "dataset_params": {}}
    config = {"published": {"table": "Table 3", "values": [printed]}}
    text = _read(write_report(_store(tmp_path, _sweep(config=config)))).text
    assert "2 points tried by dev accuracy" in text
    assert "groups 3" in text
    assert "83.10" in text
    assert "−1.10" in text  # 82.00 of ours


def test_a_model_that_needs_gold_is_ranked_apart(tmp_path: Path) -> None:
    models = [{"name": name, "label": name, "params": {}} for name in ("ideal", "soft-mv")]
    events = made_up_trials("ideal", "d", [{"test_accuracy": 0.99}, {"test_accuracy": 0.98}])
    events += made_up_trials("soft-mv", "d", [{"test_accuracy": 0.7}, {"test_accuracy": 0.72}])
    store = _store(tmp_path, made_up_sweep(events, models=models))
    text = _read(write_report(store)).text
    assert "soft-mv is best" in text
    assert "ideal (saw gold)" in text
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO((store / "table.csv").read_text()))}
    assert (rows["ideal"]["rank"], rows["soft-mv"]["rank"]) == ("", "1")


def test_a_study_has_its_section(tmp_path: Path) -> None:
    events: list[Event] = []
    for size, value in ((100, 0.9), (500, 0.8)):
        scores = [{"test_accuracy": value + 0.01 * seed} for seed in range(3)]
        events += made_up_trials("majority-vote", "gaussians", scores, dataset_params={"annotators": size})
    config = {"study": {"template": "sparsity", "annotators": [100, 500]}}
    text = _read(write_report(_store(tmp_path, made_up_sweep(events, models=_MODELS, config=config)))).text
    assert "What happens as the number of annotators grows?" in text
    assert "majority-vote -10.0 points" in text


def test_a_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal"):
        write_report(tmp_path)


def test_intervals_are_shown_in_the_metrics_unit() -> None:
    wide = Estimate(n=2, mean=0.9, sd=0.1, low=-0.2, high=1.3)
    assert show_interval(wide, "test_accuracy") == "[-20.0, 130.0]"
    assert show_interval(wide, "test_kl") == "[-0.200, 1.300]"
    assert show_interval(Estimate(n=1, mean=0.9), "test_kl") == ""


def test_small_print() -> None:
    assert [show_p(p) for p in (0.0004, 0.034, 1.0, None)] == ["< 0.001", "= 0.034", "= 1.000", ""]
    assert show_point('{"hidden":[16],"smoothing":0.012345}') == "hidden [16], smoothing 0.0123"
    assert show_point("{}") == "–"
