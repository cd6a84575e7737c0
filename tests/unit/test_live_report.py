"""A report that follows its sweep."""

from pathlib import Path

from crowdsweep.record.events import SweepFinished, SweepStatus
from crowdsweep.record.journal import Journal
from crowdsweep.testing.journals import made_up_sweep, made_up_trials
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
