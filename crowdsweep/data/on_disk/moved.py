"""Finds a dataset's folder again after its project was moved, copied or renamed: by its place beside the record.

A record holds whole paths. Where one leads nowhere any more, the end of it is looked for in the folders above the
record, the longest end in the nearest folder first: `/old/project/birds`, of a record that lies in
`/new/project/crowdsweep-runs/s`, is `/new/project/birds`. What is found is taken only where its fingerprint is the one
that was recorded.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.on_disk.folder import is_dataset_folder
from crowdsweep.errors import BadInput, DataError
from crowdsweep.paths import exists

_MOST_FOLDERS = 6  # above the record


def load_recorded(name: str, params: Mapping[str, Scalar], fingerprint: str, store: Path) -> CrowdDataset:
    """Loads the dataset of a record, from where it lies now.

    Args:
        name, params: as in `TrialSpec`.
        fingerprint: that a folder must have to be taken for one that was moved.
        store: the folder of the record.

    Raises:
        DataError, UnknownName: as `catalogue.load`; the message says where else was looked.
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
    elsewhere = "of those of its name near the record none has its data" if other else "none is near the record either"
    raise DataError(
        f"dataset {name}: expected a folder with annotations.csv or votes.csv, found no such folder, and {elsewhere} "
        f"({store.resolve()}); where the project was moved, `crowdsweep run` on its sweep file puts that right, and "
        f"does nothing twice"
    )


def _places(path: Path, store: Path) -> Iterator[Path]:
    """Yields the folders of datasets at the end of a path, below the folders above the record."""
    ends = [path.parts[first:] for first in range(1, len(path.parts))]
    for folder in store.resolve().parents[:_MOST_FOLDERS]:
        for end in ends:
            place = folder.joinpath(*end)
            if ".." not in end and is_dataset_folder(place):
                yield place
