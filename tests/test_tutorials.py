"""The tutorials and how-to pages of the documentation site run whole, and print what they show."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from killable_server import KillableServer
from tours import BLOCK, run_tour
from warm import WarmServer

SITE = Path(__file__).parent.parent / "docs" / "pages"
PAGES = {
    page.relative_to(SITE).with_suffix("").as_posix(): page.read_text(encoding="utf-8")
    for room in ("tutorials", "how-to")
    for page in sorted((SITE / room).glob("*.md"))
}
LONG = (
    *("how-to/find-clusters", "how-to/go-on-after-a-crash", "how-to/judge-the-judges", "how-to/learn-disagreement"),
    *("how-to/read-a-report", "how-to/use-python", "how-to/use-texts", "how-to/write-it-up"),
    *("tutorials/comparing-models", "tutorials/how-many-labels"),
)
MARKS = {
    "how-to/use-a-tracking-server": [pytest.mark.long],
    "how-to/use-an-object-store": [pytest.mark.xdist_group("s3")],
    "how-to/use-ray-tune": [pytest.mark.long, pytest.mark.ray],
    "tutorials/on-a-cluster": [pytest.mark.long, pytest.mark.ray, pytest.mark.xdist_group("clusters")],
    **{name: [pytest.mark.long] for name in LONG},
}
SERVERS = {
    "how-to/use-a-tracking-server": "tracking_server",
    "how-to/use-an-object-store": "s3",
    "how-to/use-ray-tune": "a_cluster_of_its_own",
}
"""Fixtures that have commands of a page meet a server."""
TOURS = [name for name, text in PAGES.items() if "\n```sh\n" in text]


@pytest.fixture
def tracking_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = KillableServer(tmp_path)
    server.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    yield
    server.kill()


@pytest.fixture
def a_cluster_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it Ray looks for the cluster that was last started here, which another test may have ended."""
    monkeypatch.setenv("RAY_ADDRESS", "local")


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in TOURS])
def test_a_page_runs_and_prints_what_it_shows(
    name: str, tmp_path: Path, warm: WarmServer, request: pytest.FixtureRequest
) -> None:
    if name in SERVERS:
        request.getfixturevalue(SERVERS[name])
    document = PAGES[name]
    printed = plain_lines(run_tour(document, tmp_path / "here", warm))
    for language, _, text in BLOCK.findall(document):
        if language == "text":
            at = 0
            for line in filter(None, map(plain, text.splitlines())):
                pattern = re.compile(".*?".join(map(re.escape, line.split("…"))))
                at = next((n + 1 for n in range(at, len(printed)) if pattern.fullmatch(printed[n])), 0)
                assert at, f"{name} shows {line!r}, which is not printed there: {printed}"


def plain(line: str) -> str:
    return " ".join(line.split())


def plain_lines(text: str) -> list[str]:
    return [plain(line) for line in text.splitlines()]
