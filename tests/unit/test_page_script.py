"""What the page lets run, and what it shows of a sweep that runs."""

import base64
import hashlib
import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

from journals import made_up_sweep, made_up_trials

from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.underway.snapshot import RunningTrial, SweepSnapshot
from crowdsweep.record.journal import Journal
from crowdsweep.views.page.page import render_page
from crowdsweep.views.page.underway import underway
from crowdsweep.views.report_files import write_report

HOSTILE = "</script><script>alert(1)</script>\" onload='alert(2)"
NOW = SweepSnapshot(
    slots=4,
    lost=1,
    times="1:05 elapsed, about 3 min left",
    running=[
        RunningTrial(
            model=HOSTILE,
            dataset="d",
            seed=seed,
            slot=f"slot-{seed % 2}",
            metric="dev_accuracy",
            step=10 + seed,
            curve=[(1, 0.5), (10, 0.6 + 0.1 * seed)],
        )
        for seed in range(4)
    ],
)


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def at_work(folder: Path) -> Journal:
    metrics = [{"test_accuracy": 0.8, "test_kl": 0.2}, {"test_accuracy": 0.82, "test_kl": 0.3}, None]
    events = [event for name in (HOSTILE, "b") for event in made_up_trials(name, "d", metrics)]
    journal = Journal(folder)  # a driver that works is one that has its journal open
    journal.handle_many(made_up_sweep(events, models=[], status=None))
    return journal


def test_one_script_runs_and_the_policy_names_it(tmp_path: Path) -> None:
    at_work(tmp_path).close()
    page = write_report(tmp_path).read_text()
    assert page.count("<script>") == 1
    script = page[page.index("<script>") + 8 : page.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{digest}'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.search(
        r"\beval\b|innerHTML|outerHTML|insertAdjacent|document\.write|Function\(|import\(|fetch\(", script
    )


def page_of(store: Path, now: SweepSnapshot | None = None) -> str:
    found = analysed(store)
    return render_page(found, underway(found, 10, now))


def test_names_of_strangers_bring_no_element_and_no_handler(tmp_path: Path) -> None:
    with closing(at_work(tmp_path)):
        page = page_of(tmp_path, NOW)
    tags = Tags(page).found
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert any(attributes.get("data-about") == "d" for tag, attributes in tags if tag == "table")


def test_a_sweep_that_runs_shows_slots_failures_and_curves(tmp_path: Path) -> None:
    with closing(at_work(tmp_path)):
        page = page_of(tmp_path, NOW)
        without = page_of(tmp_path)
    ended = page_of(tmp_path, NOW)
    text = page[page.index('<section id="underway"') : page.index('<section id="answer"')]
    assert "2 of 4 slots busy · 1:05 elapsed, about 3 min left · 1 lost" in text
    cells = re.findall(r">([^<]*)</td>", text)
    assert cells[0] == "slot-0"
    assert cells[2:6] == ["d", "2", "10 – 12", "dev accuracy 70.0 %"]
    assert "FitFailed: diverged &lt;b&gt;here&lt;/b&gt;" in text
    assert "dev accuracy, % of the fits that run now on d" in text
    assert '<progress max="6" value="6">' in text
    assert "Running now" not in without
    assert '<section id="underway"' in without
    assert '<section id="underway"' not in ended
    assert "data-refresh" not in ended


def test_a_moment_is_the_same_on_the_other_side() -> None:
    from crowdsweep.analysis.underway.snapshot import snapshot_of

    assert snapshot_of(NOW.to_json()) == NOW
