"""A report that follows its sweep."""

from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials

from crowdsweep.analysis.underway.started import PATIENCE, started_store
from crowdsweep.errors import BadInput, JournalError
from crowdsweep.record.events import SweepFinished, SweepStatus
from crowdsweep.record.journal import Journal
from crowdsweep.views.live import live_report

MODELS = [{"name": "a", "label": "a", "params": {}}]
REFRESH = '<meta http-equiv="refresh" content="7">'


def test_the_page_follows_the_record_until_the_run_ends(tmp_path: Path) -> None:
    events = made_up_trials("a", "d", [{"test_accuracy": value} for value in (0.8, 0.81, 0.82)])
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=MODELS, status=None)[:3])
    later = [events[2:4], [], events[4:], [SweepFinished(status=SweepStatus.INTERRUPTED, time=1.0)]]
    page, seen, told = tmp_path / "report.html", list[tuple[str, float, bool]](), list[Path]()

    def sleep(seconds: float) -> None:
        assert seconds >= 7
        html = page.read_text()
        done = html[html.index('class="quiet">') + 14 :].split(" ", 1)[0]
        seen.append((done, page.stat().st_mtime_ns, REFRESH in html))
        journal.handle_many(later[len(seen) - 1])

    assert live_report(tmp_path, told.append, every=7, sleep=sleep) == page
    journal.close()
    assert told == [page]
    assert [(done, refreshed) for done, _, refreshed in seen] == [("1", True), ("2", True), ("2", True), ("3", True)]
    assert seen[1][1] == seen[2][1]  # nothing new, nothing written
    assert REFRESH not in page.read_text()


@pytest.mark.parametrize("given", ["s", "crowdsweep-runs/s", None])
def test_a_sweep_that_has_not_begun_is_waited_for(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store, journals, told = Path("crowdsweep-runs") / "s", list[Journal](), list[str]()

    def sleep(_: float) -> None:
        waited[0] += 1
        if waited[0] == 2:  # a driver opens its record, and loads its data for longer than anybody is waited for
            journals.append(Journal(store))
        if waited[0] == 2 * PATIENCE:
            journals[0].handle_many(made_up_sweep([], models=MODELS, status=None))

    waited = [0]
    assert started_store(None if given is None else Path(given), told.append, sleep=sleep) == store
    assert waited[0] == 2 * PATIENCE
    journals[0].close()
    assert "no sweep has begun" in told[0]
    assert "waiting for the first row" in told[0]
    assert told[1:] == ([] if given else [f"{store}: the latest sweep here"])


def test_a_sweep_that_nobody_begins_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for given, error, words in (
        ("empty", JournalError, "no journal here"),
        ("gone", BadInput, "found nothing there"),
        (None, BadInput, "run a sweep first"),
    ):
        slept, told = list[float](), list[str]()
        with pytest.raises(error, match=words):
            started_store(None if given is None else Path(given), told.append, sleep=slept.append)
        assert len(slept) == PATIENCE
        assert len(told) == 1
