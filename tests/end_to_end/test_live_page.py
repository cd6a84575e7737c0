"""The page in a browser: pointed at, sorted, filtered, compared, zoomed, printed, and followed while its sweep runs."""

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import Browser, chromium
from journals import made_up_search, made_up_sweep, made_up_trials

from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.views.report_files import write_report

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("live page"),
    pytest.mark.skipif(chromium() is None, reason="there is no chromium: apt-get install chromium"),
]
PICTURES = os.environ.get("CROWDSWEEP_PICTURES")
"""A folder that the pictures are kept in, for somebody who wants to look at them."""
SPACE = {
    "groups": {"min": 1, "max": 9},
    "smoothing": {"distribution": "log_uniform_values", "min": 0.001, "max": 1.0},
}
SEARCH = '[aria-label^="history of the search of cmm"]'
DRESSES = {"wide": (1280, False), "wide-dark": (1280, True), "narrow": (390, False), "narrow-dark": (390, True)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A finished report of five models, one of them searched."""
    drawn, folder = random.Random(1), tmp_path_factory.mktemp("page") / "s"
    points = [{"groups": drawn.randint(1, 9), "smoothing": 10 ** drawn.uniform(-3, 0)} for _ in range(24)]
    values = [None if number == 7 else 0.7 + 0.1 * drawn.random() for number in range(24)]
    search = CellRecord(key="s", label="cmm", dataset="d", metric="dev_accuracy", goal="maximize", points=24)

    def scored(mean: float) -> list[dict[str, float]]:
        return [
            {"dev_accuracy": mean, "test_accuracy": mean + 0.02 * drawn.random(), "test_kl": 1 - mean} for _ in range(5)
        ]

    events = made_up_search("s", "cmm", "d", points, values, [3])
    events += made_up_trials("cmm", "d", scored(0.8), point=points[3], search="s", wall_s=75.0)
    for name, mean in {"vote": 0.7, "mace": 0.77, "glad": 0.76, "pm": 0.72}.items():
        events += made_up_trials(name, "d", scored(mean), wall_s=0.9 * mean)
    names = [{"name": name, "label": name, "params": {}} for name in ("vote", "mace", "glad", "pm")]
    models = [{"name": "cmm", "label": "cmm", "params": {}, "search": SPACE}, *names]
    with closing(Journal(folder)) as journal:
        journal.handle_many(made_up_sweep(events, models=models, searches=[search]))
    return write_report(folder).as_uri()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as opened:
        yield opened


def opened(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.until("document.readyState === 'complete' && document.body.children.length > 1")
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def place(browser: Browser, figure: str, across: float, up: float) -> tuple[float, float]:
    """Returns where in the window a place of a figure stands, in the figure's own units."""
    browser.value(f"document.querySelector('{figure}').scrollIntoView({{block: 'center'}})")
    found = browser.value(
        f"(() => {{ const at = new DOMPoint({across}, {up}).matrixTransform(document.querySelector('{figure}')"
        f".getScreenCTM()); return [at.x, at.y]; }})()"
    )
    return found[0], found[1]


def told(browser: Browser, figure: str) -> dict[str, Any]:
    return browser.value(f"JSON.parse(document.querySelector('{figure}').dataset.told)[0]")


def tip(browser: Browser) -> str | None:
    return browser.value("document.querySelector('.tip').hidden ? null : document.querySelector('.tip').textContent")


def column(browser: Browser, table: str, number: int) -> list[str]:
    """Returns the cells of a column that are shown."""
    return browser.value(
        f"[...document.querySelector('{table}').tBodies[0].rows].filter((row) => !row.hidden)"
        f".map((row) => row.cells[{number}].textContent)"
    )


def test_a_pointer_and_the_arrow_keys_find_the_values_of_points(browser: Browser, page: str) -> None:
    opened(browser, page)
    points = told(browser, SEARCH)["points"]
    for x, y, words in points[::6]:
        browser.point(*place(browser, SEARCH, x, y))
        assert tip(browser) == words
    browser.point(2, 2)
    assert tip(browser) is None
    browser.value(f"document.querySelector('{SEARCH}').focus()")
    order = [words for *_, words in sorted(points)]
    for words in order[:3]:
        browser.press("ArrowRight")
        assert tip(browser) == words
    browser.press("ArrowLeft")
    assert tip(browser) == order[1]
    browser.press("Escape")
    assert tip(browser) is None


def test_a_part_of_a_curve_is_drawn_out_and_tells_the_same(browser: Browser, page: str) -> None:
    opened(browser, page)
    plot = told(browser, SEARCH)
    (left, right), (bottom, top) = plot["frame"]
    inside = [point for point in plot["points"] if left + 10 < point[0] < (left + right) / 2]
    where = f"[...document.querySelectorAll('{SEARCH} [id*=line2d] [clip-path] use')].map((one) => one.x.baseVal.value)"
    before = browser.value(where)
    browser.drag(place(browser, SEARCH, left + 5, top + 1), place(browser, SEARCH, (left + right) / 2, bottom - 1))
    assert browser.value(f"document.querySelectorAll('{SEARCH} .closer .ticks text').length") >= 4
    scale = (right - left) / ((left + right) / 2 - left - 5)
    stretch = (bottom - top) / (bottom - top - 2)
    for x, y, words in inside:
        shown = left + scale * (x - left - 5), top + stretch * (y - top - 1)
        browser.point(*place(browser, SEARCH, *shown))
        assert tip(browser) == words
    ticks = browser.value(f"[...document.querySelectorAll('{SEARCH} .ticks text')].map((one) => one.textContent)")
    low, high = (a + (b - a) * share for share in ((5 / (right - left)), 0.5) for a, b in [plot["ranges"][0]])
    assert all(low <= float(tick) <= high for tick in ticks[:3])
    opened(browser, page)
    browser.click("Show all of it") if browser.value("!document.querySelector('figure button').hidden") else None
    assert browser.value(f"document.querySelectorAll('{SEARCH} .closer').length") == 0
    assert browser.value(where) == before


def test_tables_are_sorted_filtered_and_compared(browser: Browser, page: str) -> None:
    opened(browser, page)
    table = "#datasets table[data-pick]"
    heads = browser.value(f"[...document.querySelector('{table}').tHead.rows[0].cells].map((one) => one.textContent)")
    ranked = column(browser, table, 0)
    number = heads.index("time per trial")

    def click(head: int) -> str:
        browser.value(f"document.querySelector('{table}').tHead.rows[0].cells[{head}].querySelector('button').click()")
        return browser.value(f"document.querySelector('{table}').tHead.rows[0].cells[{head}].ariaSort")

    assert click(number) == "ascending"
    assert column(browser, table, number) == ["630 ms", "648 ms", "684 ms", "693 ms", "75 s"]
    assert click(number) == "descending"
    assert column(browser, table, number)[0] == "75 s"
    assert click(number) == "none"
    assert column(browser, table, 0) == ranked
    assert click(0) == "ascending"
    assert column(browser, table, 0) == sorted(ranked)

    points = "#search details table[data-pick]"
    browser.value(
        f"(() => {{ const word = document.querySelector('{points}').parentElement.previousElementSibling"
        f".querySelector('input'); word.value = 'FAILED'; word.dispatchEvent(new Event('input')); }})()"
    )
    assert column(browser, points, 0) == ["point 7"]
    browser.until_shown("1 of 24 rows")

    for name in ("cmm", "glad"):
        browser.value(f"document.querySelector('{table} [aria-label=\"compare {name}\"]').click()")
    compared = browser.value(
        "[...document.querySelectorAll('#datasets .compared tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert compared[0] == ["", *[name for name in column(browser, table, 0) if name in ("cmm", "glad")]]
    lines = {line: values for line, *values in compared[1:]}
    assert lines["time per trial"] == ["75 s", "684 ms"]
    assert set(lines) > {"rank", "seeds", "p (Holm)", "On test items: test KL, nats"}


def test_what_was_set_outlives_a_reload(browser: Browser, page: str) -> None:
    opened(browser, page)
    table = "#datasets table[data-pick]"
    browser.value(f"document.querySelector('{table} th:nth-child(3) button').click()")
    browser.value(f"document.querySelector('{table} [aria-label=\"compare cmm\"]').click()")
    order = column(browser, table, 0)
    for kept in ("2+", '["cmm"]'):
        browser.until(f"JSON.stringify(history.state).includes('{kept}')")
    browser.value("window.before = true; location.reload(); 0")
    browser.until("!window.before && document.readyState === 'complete'")
    assert column(browser, table, 0) == order
    assert browser.value(f"document.querySelector('{table} [aria-label=\"compare cmm\"]').checked")
    assert browser.value("[...document.querySelectorAll('details')].every((one) => one.open)")


def test_paper_and_a_browser_without_scripts_have_the_page_alone(browser: Browser, page: str) -> None:
    opened(browser, page)
    browser.dress(printed=True)
    left = "[...document.querySelectorAll('.screen')].filter((one) => one.offsetParent || one.getClientRects().length)"
    assert browser.value("document.querySelectorAll('.screen').length") > 3
    assert browser.value(f"{left}.length") == 0
    if PICTURES:
        browser.picture(Path(PICTURES) / "printed.png", whole=True)
    browser.dress(scripts=False)
    browser.open(page)
    browser.until("document.readyState === 'complete' && document.body.children.length > 1")
    assert browser.value("document.querySelectorAll('button, input, select, .tip').length") == 0
    browser.until_shown("Search", "vote")


@pytest.mark.parametrize("dress", DRESSES)
def test_nothing_is_cut_or_faint(browser: Browser, page: str, dress: str) -> None:
    width, dark = DRESSES[dress]
    browser.resize(width, 900)
    browser.dress(dark=dark)
    opened(browser, page)
    browser.value("document.querySelectorAll('#datasets [type=checkbox]').forEach((box, n) => n < 2 && box.click())")
    assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0
    faint = browser.value(_FAINT)
    assert faint == []
    if PICTURES:
        x, y, _ = told(browser, SEARCH)["points"][5]
        browser.point(*place(browser, SEARCH, x, y))
        browser.picture(Path(PICTURES) / f"hover-{dress}.png")
        browser.picture(Path(PICTURES) / f"done-{dress}.png", whole=True)


_FAINT = """(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((n) => n / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    const color = getComputedStyle(one).backgroundColor;
    return color !== 'rgba(0, 0, 0, 0)' || !one.parentElement ? color : ground(one.parentElement);
  };
  return [...document.querySelectorAll('button, select, input, label, output, .note, .tip, td, th, h4')]
    .filter((one) => one.textContent.trim())
    .map((one) => [one, [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a)])
    .filter(([, [high, low]]) => (high + 0.05) / (low + 0.05) < 4.5)
    .map(([one]) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`);
})()"""


def test_the_page_follows_a_sweep_that_runs(browser: Browser, tmp_path: Path) -> None:
    sweep = {
        "name": "followed",
        "datasets": [{"name": "digits", "annotators": 30}],
        "models": [
            "majority-vote",
            {
                "name": "rising",
                "params": {"steps": 40, "pause_s": 0.05},
                "search": {"noise": {"min": 0.0, "max": 2.0}},
            },
        ],
        "budget": {"points": 14},
        "seeds": {"search": 2, "report": 3},
        "report_every": 1,
        "engine": "inline",
        "tracking": {"enabled": False},
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(sweep))
    command = [sys.executable, "-P", "-m", "crowdsweep", "run", "s.yaml", "--store", "store", "--live"]
    with (tmp_path / "said").open("w+") as said:
        plugins = {"CROWDSWEEP_PLUGINS": str(Path(__file__).parents[1] / "learning")}
        driver = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, env={**os.environ, **plugins})
        try:
            address = _address(driver, tmp_path / "said")
            browser.open(address)
            browser.until_shown("slots busy", "Running now", "Pause", "rising")
            browser.value("document.querySelector('#reproduce details').open = true")
            browser.until_shown("So far, in the search", "Learning curves of the search")
            for dress, (width, dark) in DRESSES.items() if PICTURES else ():
                browser.resize(width, 900)
                browser.dress(dark=dark)
                browser.picture(Path(PICTURES or "") / f"live-{dress}.png", whole=True)
            assert browser.value("document.querySelector('#reproduce details').open"), "kept over reloads"
            assert driver.wait(600) == 0
        finally:
            driver.kill()
            driver.wait()
    browser.until("!document.body.dataset.refresh")
    browser.until_shown("By dataset")
    assert "Pause" not in browser.text()
    assert re.search(r"^report: ", (tmp_path / "said").read_text(), re.MULTILINE)


def _address(driver: subprocess.Popen[bytes], said: Path) -> str:
    for _ in range(1200):
        if found := re.search(r"live page: (file://\S+)", said.read_text()):
            return found[1]
        assert driver.poll() is None, said.read_text()
        time.sleep(0.1)
    raise AssertionError(said.read_text())
