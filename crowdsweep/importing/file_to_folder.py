"""Turns a file of labels into a dataset folder, and reports what the user should know of the result."""

import shlex
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crowdsweep.data.class_order import look_like_ratings
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.missing import likely_missing
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.new_folder import check_new
from crowdsweep.data.spelling import alike, alike_names
from crowdsweep.errors import shown
from crowdsweep.importing.column_words import is_gold
from crowdsweep.importing.normalise import normalised
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.several import named_together, parted
from crowdsweep.importing.write import written_rows

_MANY = 200_000  # names; of that many, only case, surrounding spaces and zeros of numbers are compared


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Result of importing a file of labels into a dataset folder.

    Attributes:
        rows: the labels as written in the file.
        dataset: the dataset in the folder.
        asked: what the user said of the file.
    """

    rows: ImportedRows
    dataset: CrowdDataset
    asked: FileOptions

    def doubtful(self) -> Iterator[str]:
        """Yields a sentence on everything that the user may have meant in another way."""
        yield from _likely_no_answers(self.rows)
        yield from _spelled_alike(self.rows)
        yield from _named_for_gold(self.rows)
        if self.asked.scale is None:
            yield from _likely_ordinal(self.dataset)
            yield from _likely_several(self.dataset)
        yield from (str(oddity) for oddity in mistakes(self.dataset) if "spelling" not in oddity.kind)


def import_file(
    form: str, path: Path, asked: FileOptions, folder: Path, *, normalise: bool = False, title: str = ""
) -> Imported:
    """Writes a file of labels as a dataset folder as `imported_file` does."""
    with imported_file(form, path, asked, folder, normalise=normalise, title=title) as (imported, _):
        return imported


@contextmanager
def imported_file(
    form: str, path: Path, asked: FileOptions, folder: Path, *, normalise: bool = False, title: str = ""
) -> Generator[tuple[Imported, Path]]:
    """Writes a file of labels as a dataset folder, as a whole or not at all; yields also a folder for further files.

    Args:
        form, path, asked: as for `read_form`.
        folder, title: as for `written_rows`.
        normalise: whether to join names that differ only in spelling.

    Raises:
        DataError: the file cannot be read in this form, or the folder holds files already.
    """
    check_new(folder)  # before a large file is read
    rows = read_form(form, path, asked)
    if asked.scale == "multilabel" and not rows.multilabel:
        rows = parted(rows)
    if normalise:
        rows = normalised(rows)
    with written_rows(rows, folder, title, scale=asked.scale) as (dataset, place):
        yield Imported(rows=rows, dataset=dataset, asked=asked), place


def _likely_no_answers(imported: ImportedRows) -> Iterator[str]:
    """Yields a sentence on each class whose name may stand for an answer that was not given."""
    counts = Counter[str]()
    for labels, times in zip(imported.coded.labels, np.bincount(imported.coded.label).tolist(), strict=True):
        counts.update(dict.fromkeys(labels, times))
    for label in () if imported.missing.told else likely_missing(list(counts)):
        yield (
            f"{counts[label]:,} answers are {shown(label)}, read as a class; if that means that there is no "
            f"answer, repeat the command with --missing={shlex.quote(label)}"
        )


def _named_for_gold(imported: ImportedRows) -> Iterator[str]:
    """Yields a sentence if an annotator is called as gold is."""
    people = imported.coded.annotator.texts
    if named := [who for who in people if is_gold(who)] if 10 * len(people) < _MANY else []:
        yield (
            f"the annotator {shown(named[0])} is called as gold is, and counts as one of the crowd: to have these "
            f"answers as gold, put them into a file of their own (item, gold) and give --gold FILE"
        )


def _likely_ordinal(dataset: CrowdDataset) -> Iterator[str]:
    """Yields a sentence if the classes look like the steps of a rating scale."""
    if dataset.scale == "nominal" and look_like_ratings(labels := dataset.class_labels):
        yield (
            f"the classes are the numbers {labels[0]} to {labels[-1]}: if these are the steps of a scale, such as "
            f"ratings, repeat the command with --scale ordinal"
        )


def _likely_several(dataset: CrowdDataset) -> Iterator[str]:
    """Yields a sentence if a class looks like several other classes in one cell."""
    if together := named_together(dataset.class_labels):
        yield (
            f"{shown(together)} looks like several classes: if an answer may name several, repeat the command "
            f"with --scale multilabel"
        )


def _spelled_alike(imported: ImportedRows) -> Iterator[str]:
    """Yields a sentence each on classes, items and annotators whose names differ only in spelling."""
    classes = [label for labels in imported.coded.labels for label in labels]
    classes += [label for given in imported.gold.values() for label in given]
    people = imported.coded.annotator.texts
    for kind, names in (("classes", classes), ("items", imported.items), ("annotators", people)):
        if groups := alike(names) if len(names) < _MANY else alike_names(names):
            groups_text = "; ".join(" and ".join(map(repr, group[:4])) for group in groups[:3])
            more = "; …" if len(groups) > 3 else ""
            yield f"{kind} that differ only in spelling: {groups_text}{more}; --normalise merges them"
