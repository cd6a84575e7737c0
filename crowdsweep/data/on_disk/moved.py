"""Finds a dataset folder again after its project was moved, copied or renamed, by its place relative to the record.

A record holds absolute paths. If such a path no longer exists, its last parts are looked for in the folders above the
record: nearest folder first, most parts first. For example, `/old/project/birds`, in a record that lies in
`/new/project/crowdsweep-runs/s`, is found as `/new/project/birds`. A folder is accepted only if it has the fingerprint
that was recorded.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.on_disk.folder import is_dataset_folder
from crowdsweep.errors import BadInput, DataError
from crowdsweep.paths import exists

_MOST_FOLDERS = 6  # folders above the record that are searched


def load_recorded(name: str, params: Mapping[str, Scalar], fingerprint: str, store: Path) -> CrowdDataset:
    """Loads the dataset of a record from its current place.

    Args:
        name, params: as in `TrialSpec`.
        fingerprint: fingerprint that a moved folder must have.

    Raises:
        DataError, UnknownName: as `catalogue.load`; the message says where else the folder was looked for.
    """
    path = Path(name)
    if not path.is_absolute() or exists(path):
        return catalogue.load(name, params)
    other = False
    for place in _places(path, store):
        try:
            found = catalogue.load(str(place), params)
        except BadInput:
            continue
        if found.fingerprint == fingerprint:
            return found
        other = True
    elsewhere = "no folder of that name near the record has its data" if other else "none near the record either"
    raise DataError(
        f"dataset {name}: expected a folder with annotations.csv or votes.csv, found no such folder, and {elsewhere} "
        f"({store.resolve()}); where the project was moved, `crowdsweep run` on its sweep file puts that right, and "
        f"does nothing twice"
    )


def _places(path: Path, store: Path) -> Iterator[Path]:
    """Yields the dataset folders that the last parts of a path lead to from the folders above the record."""
    ends = [path.parts[first:] for first in range(1, len(path.parts))]
    for folder in store.resolve().parents[:_MOST_FOLDERS]:
        for end in ends:
            place = folder.joinpath(*end)
            if ".." not in end and is_dataset_folder(place):
                yield place
