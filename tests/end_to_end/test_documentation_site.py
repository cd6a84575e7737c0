"""The documentation site is built strictly, leads nowhere that is not there, and fetches nothing from elsewhere."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from crowdsweep.models.registered import model_names
from crowdsweep.sweep.explain import keys

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("documentation site")]

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


@dataclass
class Page(HTMLParser):
    """What a page can be led to, leads to, and loads."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids |= {value for name, value in attrs if value and name in ("id", "name")}
        if tag == "a" and known.get("href"):
            self.links.append(known["href"] or "")
        if address := known.get(LOADED.get(tag, "")):
            self.loaded.append(address)


@cache
def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site and returns its folder."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def pages_of(site: Path) -> list[Path]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 80
    return [page for page in found if page.name != "404.html"]  # its addresses begin at the server's root


def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    looked_at = 0
    for page in pages_of(site):
        for link in [*read(page).links, *read(page).loaded]:
            address = urlsplit(link)
            if address.scheme in ("http", "https", "mailto", "data"):
                continue
            there = (page.parent / unquote(address.path)).resolve() if address.path else page
            where = f"{page.relative_to(site)} leads to {link}"
            assert there.is_file(), where
            assert there.is_relative_to(site), where
            if address.fragment and there.suffix == ".html":
                assert unquote(address.fragment) in read(there).ids, where
            looked_at += 1
    assert looked_at > 2000


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in pages_of(site):
        assert not [address for address in read(page).loaded if urlsplit(address).scheme in ("http", "https")], page
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert "@import" not in text, style
        assert "url(http" not in text, style


def test_every_model_and_key_has_its_place(site: Path) -> None:
    for name in model_names():
        assert {"facts", "hyper-parameters"} <= read(site / f"reference/models/{name}.html").ids, name
    assert set(keys()) <= read(site / "reference/keys.html").ids
