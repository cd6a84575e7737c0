"""CITATION.cff says how to cite this version."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_it_is_of_this_version_and_has_what_its_readers_ask_for() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["cff-version"] == "1.2.0"
    assert (cited["title"], cited["version"], cited["abstract"]) == (
        project["name"],
        project["version"],
        project["description"],
    )
    assert cited["type"] == "software"
    assert cited["message"]
    assert all(author["name"] for author in cited["authors"])
