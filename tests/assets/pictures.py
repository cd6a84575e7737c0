"""Renews the picture of a report that README shows, from the record of `search_spaces/quickstart.yaml`.

    crowdsweep demo && python tests/assets/pictures.py [STORE]

Chromium shows the first screen of the report that `run` has written. `flow.svg` is drawn by hand.
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from browser import Browser  # noqa: E402 - it stands beside this folder

WIDTH, MOST_HIGH = 900, 1200


def main() -> None:
    """Writes `pictures/report.png`."""
    store = Path(*(sys.argv[1:2] or ["crowdsweep-runs/quickstart"]))
    page = (store / "report.html").resolve(strict=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browsed = Path(profile)
        with Browser(browsed / "a", width=WIDTH, height=MOST_HIGH) as browser:
            browser.open(page.as_uri())
            browser.until("document.querySelector('#answer nav') !== null")
            end = browser.value("document.querySelector('#answer nav').getBoundingClientRect().top")
        with Browser(browsed / "b", width=WIDTH, height=min(MOST_HIGH, int(end))) as browser:
            browser.open(page.as_uri())
            browser.until("document.querySelector('#answer nav') !== null")
            browser.value("document.documentElement.style.overflow = 'hidden'")  # a bar is no part of the page
            browser.picture(HERE / "pictures" / "report.png")


if __name__ == "__main__":
    main()
