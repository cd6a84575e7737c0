"""Writes a new folder as a whole or not at all, however the writer ends."""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import DataError, ForeignFile, place_words
from crowdsweep.files.drafts import draft_in, is_draft
from crowdsweep.files.inside import names_below
from crowdsweep.files.owned import Kind, check_owned, replaced
from crowdsweep.paths import check_path, exists, is_folder, lexists


def check_new(folder: Path) -> None:
    """Checks that a folder is new or empty and can be written; drafts that a killed writer left there do not count.

    Raises:
        DataError: the folder holds files already, is a file, or cannot be written.
    """
    check_path(folder, "a folder")
    if lexists(folder) and not is_folder(folder):
        found = "a file" if exists(folder) else "a link that leads nowhere"
        raise DataError(f"{folder}: expected a new or empty folder, got {found}; choose another")
    try:
        check_owned(folder, (), _DATASET)
    except ForeignFile as error:
        raise DataError(str(error)) from error
    except OSError as error:
        raise DataError(
            f"{folder}: expected a folder that can be written, got {place_words(error)}; choose another place"
        ) from error


@contextmanager
def written_whole(folder: Path) -> Generator[Path]:
    """Yields a folder to write into that becomes `folder` in the end; if anything fails, nothing is left behind.

    Raises:
        DataError: the folder holds files already, or cannot be written.
    """
    check_new(folder)
    target = folder.resolve()
    place = Path()
    try:
        # An existing folder is kept: it may be somebody's working directory.
        with replaced(target, (), _DATASET) if is_folder(target) else _made(target) as place:
            yield place
    except ForeignFile as error:
        raise DataError(str(error)) from error
    except DataError as error:
        raise DataError(str(error).replace(str(place), str(folder))) from error
    except (OSError, UnicodeError) as error:
        raise DataError(f"{folder}: expected a folder that can be written: {error}; choose another place") from error


@contextmanager
def _made(target: Path) -> Generator[Path]:
    """Yields a folder that becomes `target`, which does not exist yet, in one step."""
    above = next(place for place in target.parents if is_folder(place))
    with draft_in(above) as (draft, _):
        yield draft.path
        for name in names_below(draft.content):
            with (draft.path / name).open("rb") as file:
                os.fsync(file.fileno())
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.path.rename(target)


def _adopted(folder: int, where: str) -> Iterable[str]:
    if there := sorted(name for name in names_below(folder) if not is_draft(name)):
        more = ", …" if len(there) > 3 else ""
        raise ForeignFile(
            f"{where}: expected a new or empty folder, got one that holds files ({', '.join(there[:3])}{more}); "
            f"choose another"
        )
    return ()


# The files that make the folder a dataset are put in place last. No list of the written files is kept: they are the
# user's from then on.
_DATASET = Kind(
    name="dataset",
    may_write=lambda name: "/" not in name,
    adopted=_adopted,
    last=("annotations.csv", "votes.csv"),
    keeps_list=False,
)
