"""The search path of named datasets; imports nothing, since a shell that completes names waits for it."""

import os
from pathlib import Path

from crowdsweep.paths import expand_home

SEARCH_PATH = "CROWDSWEEP_DATA"
DEFAULT_PLACE = Path("crowdsweep-data")
"""Where `crowdsweep fetch` puts datasets where nothing is said, in the folder that somebody stands in."""


def search_path() -> list[Path]:
    """Returns the folders that `CROWDSWEEP_DATA` names, in order; where it is not set, `crowdsweep-data`."""
    given = os.environ.get(SEARCH_PATH)
    return [DEFAULT_PLACE] if given is None else [expand_home(part) for part in given.split(os.pathsep) if part]
