"""Checks across the files of a dataset folder: spellings that cannot be intended, columns that are not read."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.description import DESCRIPTION_FILE
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.data.on_disk.text_files import found_at, reading
from crowdsweep.data.spelling import shared, spelling
from crowdsweep.errors import DataError
from crowdsweep.paths import is_file, is_folder

# The columns that are read from each file (from annotators.csv: all), and other names that people give those of
# items.csv.
READ_COLUMNS = {
    "annotations": ("item", "annotator", "label", "weight", "probability"),
    "votes": ("item", "label", "count"),
    "items": ("item", "split", "gold", "text", "text_b", "image", "sentence", "position", "token"),
    "classes": ("label", "name"),
}
_MEANT = (
    *("gold", "goldlabel", "labelgold", "goldstandard", "truth", "groundtruth", "labeltrue", "truelabel", "ytrue"),
    *("trueanswer", "gt", "expert", "expertlabel", "correct", "correctlabel", "correctanswer", "target"),
    *("split", "set", "fold", "subset", "partition"),
)


def check_files(folder: Path) -> None:
    """Refuses anything that has the name of a file to read but is no file, as it would be silently skipped otherwise.

    A link to a file counts as a file.

    Raises:
        DataError: such a name belongs to a pipe, a device, a folder, or a link that leads nowhere; or the dataset
            folder cannot be read.
    """
    if not is_folder(folder):
        return
    with reading(folder, "a dataset's folder that can be read"):
        paths = sorted(folder.iterdir())
    for path in paths:
        stem, _, kind = path.name.partition(".")
        is_table = stem in (*READ_COLUMNS, "annotators") and kind in tables.KINDS
        is_features = stem.startswith(("features-", "annotator-features-")) and kind == "npz"
        if (is_table or is_features or path.name == DESCRIPTION_FILE) and not is_file(path):
            raise DataError(f"{path}: expected a file, found {found_at(path)}; remove it, or put the file there")


def check_gold_spelling(folder: Path, labels: Iterable[str], gold: Iterable[str]) -> None:
    """Refuses gold that is a class of the labels in another spelling, since no label could ever agree with it.

    Raises:
        DataError: for example, gold says `Yes` and labels say `yes`.
    """
    clashes = spelled_otherwise(labels, gold)
    if clashes:
        raise DataError(
            f"{folder}: expected gold spelled as the labels are, got {clashes}; correct one, or declare both in "
            f"classes.csv (label, name) where they are two classes"
        )


def spelled_otherwise(labels: Iterable[str], gold: Iterable[str]) -> str:
    """Returns, in words for a message, the classes of gold that are labels in another spelling; empty for none."""
    used = set(labels) - {""}
    unused = dict.fromkeys(label for label in gold if label and label not in used)
    known = {spelling(label): label for label in sorted(used)} if unused else {}
    pairs = [(label, known[spelling(label)]) for label in unused if spelling(label) in known]
    return ", ".join(f"{one!r} where labels say {other!r}" for one, other in pairs[:3])


def check_item_spelling(folder: Path, annotated: Names, listed: Names) -> None:
    """Refuses an items file that lists annotated items in another spelling, since its values would reach none of them.

    Raises:
        DataError: for example, the items file has `1.0`, without a label, and annotations have `1`, which the items
            file does not list.
    """
    if not len(listed):
        return
    unlisted = annotated.take(np.flatnonzero(listed.places_of(annotated) < 0))
    without_label = listed.take(np.flatnonzero(annotated.places_of(listed) < 0))
    clashes = [pair for pair in shared(unlisted, without_label) if pair[0]]
    if clashes:
        shown = ", ".join(f"{other!r} where annotations say {one!r}" for one, other in clashes[:3])
        raise DataError(
            f"{folder}: expected item ids of the items file spelled as in the annotations, got {shown} "
            f"({len(clashes)} in all); correct one of the files, or list both where they are two items"
        )


def unread_columns(folder: Path) -> tuple[str, ...]:
    """Returns `FILE: COLUMN` for each column that is not read although its name suggests that it should be."""
    found: list[str] = []
    for stem, read in READ_COLUMNS.items():
        path = tables.find_table(folder, stem)
        if path is not None:
            found += [f"{path.name}: {name}" for name in _looking_meant(tables.column_names(path), read)]
    return tuple(found)


def _looking_meant(names: Sequence[str], read: Sequence[str]) -> list[str]:
    plain = {name: "".join(filter(str.isalnum, name.casefold())) for name in names if name not in read}
    known = {"".join(filter(str.isalnum, name)) for name in read} | set(_MEANT)
    return [name for name, folded in plain.items() if folded in known]
