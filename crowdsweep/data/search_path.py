"""Search path of named datasets. It imports next to nothing, because a shell waits for it to complete names."""

import os
from pathlib import Path

from crowdsweep.paths import expand_home

SEARCH_PATH = "CROWDSWEEP_DATA"
DEFAULT_PLACE = Path("crowdsweep-data")
"""Folder in the working directory where `crowdsweep fetch` puts datasets by default."""


def search_path() -> list[Path]:
    """Returns the folders that `CROWDSWEEP_DATA` names, in order; `crowdsweep-data` if it is not set."""
    given = os.environ.get(SEARCH_PATH)
    return [DEFAULT_PLACE] if given is None else [expand_home(part) for part in given.split(os.pathsep) if part]
