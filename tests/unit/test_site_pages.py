"""What pages of the documentation site include of READMEs, and where links then lead."""

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages"

GUIDE = """# The `guide`

What it is, since
100. Not a list: ![a picture](drawn.png)
- one entry
  goes on

## Begin

See [the end](#end), [elsewhere](https://example.org/a#b), `room/GUIDE.md` and `mace`, not [`mace`](#end).

```sh
# no heading
```

### In detail

Text.

## End

Back to [the detail](#in-detail).
"""


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    """Imports docs/rooms.py, which needs no MkDocs."""
    spec = spec_from_file_location("site_rooms", ROOT / "docs" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["site_rooms"] = module
    spec.loader.exec_module(module)
    return module


def clone(folder: Path) -> Path:
    (folder / "room").mkdir()
    (folder / "room" / "GUIDE.md").write_text(GUIDE)
    (folder / "room" / "drawn.png").touch()
    return folder


def test_pages_of_the_site_include_and_link_what_is_there(rooms: ModuleType) -> None:
    written = {page.relative_to(PAGES).as_posix(): page.read_text(encoding="utf-8") for page in PAGES.rglob("*.md")}
    site = rooms.Rooms(root=ROOT, pages=written)
    expanded = {page: site.expanded(page) for page in written}
    assert all("<!-- include" not in text for text in expanded.values())
    assert all(picture.is_file() for picture in site.pictures().values())
    together = "\n".join(expanded.values())
    for path in [ROOT / "README.md", *(p for room in ("crowdsweep", "clusters") for p in (ROOT / room).rglob("*.md"))]:
        for section in rooms.sections_of(path.read_text(encoding="utf-8")):
            lines = [line.strip() for line in section.text.splitlines() if line.startswith("| ---")]
            assert all(line in together for line in lines), (path, section.title)


def test_a_section_stands_on_one_page_and_links_follow_it(rooms: ModuleType, tmp_path: Path) -> None:
    pages = {
        "how-to/begin.md": '# Begin\n\n<!-- include room/GUIDE.md "Begin" -->\n',
        "all.md": "<!-- include room/GUIDE.md -->\n",
    }
    site = rooms.Rooms(root=clone(tmp_path), pages=pages, named={"mace": "models/mace.md"})
    taken = site.expanded("how-to/begin.md")
    assert "[the end](../all.md#end), [elsewhere](https://example.org/a#b), [The guide](../all.md) and" in taken
    assert "and [`mace`](../models/mace.md), not [`mace`](../all.md#end)." in taken
    assert "\n## In detail\n" in taken
    assert "# no heading" in taken
    rest = site.expanded("all.md")
    assert rest.startswith("# The `guide`")
    assert "[the detail](how-to/begin.md#in-detail)" in rest
    assert "## Begin\n\nSee [Begin](how-to/begin.md).\n\n## End" in rest
    assert "In detail" not in rest
    assert "since\n100. Not a list: ![a picture](pictures/drawn.png)\n\n- one entry\n    goes on\n" in rest
    assert site.pictures() == {"pictures/drawn.png": tmp_path / "room" / "drawn.png"}


def test_a_readme_leads_to_pages_of_the_site(rooms: ModuleType, tmp_path: Path) -> None:
    pages = {"all.md": "<!-- include GUIDE.md -->\n", "how-to/begin.md": "---\nhide: [toc]\n---\n\n# Begin\n"}
    for name, text in pages.items():
        (tmp_path / "docs/pages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs/pages" / name).write_text(text)
    (tmp_path / "GUIDE.md").write_text("# Guide\n\n[here](docs/pages/how-to/begin.md), `docs/pages/how-to/begin.md`\n")
    found = rooms.Rooms(root=tmp_path, pages=pages).expanded("all.md")
    assert "[here](how-to/begin.md), [Begin](how-to/begin.md)" in found


def test_a_named_block_has_its_name_for_a_title(rooms: ModuleType, tmp_path: Path) -> None:
    site = rooms.Rooms(root=tmp_path, pages={"a.md": "```yaml a/b.yaml\nx: 1\n```\n\n```sh\nls\n```\n"})
    assert site.expanded("a.md") == '```yaml title="a/b.yaml"\nx: 1\n```\n\n```sh\nls\n```\n'


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ('<!-- include room/GUIDE.md "Middle" -->', "includes the section 'Middle' of room/GUIDE.md, which has none"),
        ("<!-- include room/README.md -->", "includes room/README.md, and there is no such file"),
        ("<!-- include room/BROKEN.md -->", "room/BROKEN.md links other.py, which is neither a page"),
        ("<!-- include room/ASTRAY.md -->", "there is no section #middle in room/ASTRAY.md"),
    ],
)
def test_what_is_not_there_is_told(rooms: ModuleType, tmp_path: Path, page: str, told: str) -> None:
    folder = clone(tmp_path)
    (folder / "room" / "other.py").touch()
    (folder / "room" / "BROKEN.md").write_text("# Broken\n\n[a program](other.py)\n")
    (folder / "room" / "ASTRAY.md").write_text("# Astray\n\n[on](#middle)\n")
    with pytest.raises(rooms.NotThere, match=re.escape(told)):
        rooms.Rooms(root=folder, pages={"a.md": page}).expanded("a.md")
