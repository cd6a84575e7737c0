"""Reads peerannot's `answers.json`.

{"p1": {"ann": 0, "bob": 1},
 "p2": {"ann": 1},
 "p3": {}}                      an absent annotator gave no answer
"""

from dataclasses import replace
from pathlib import Path

from crowdsweep.data.on_disk.json_text import document
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector


def read_peerannot(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads {item: {annotator: label}}.

    Raises:
        DataError: the file is something else; the message says at which item and annotator.
    """
    content = document(path)
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: expected an object of items, each an object of annotator: label, got {shown(content)}"
        )
    gathered = RowCollector(path, asked.missing)
    for name, given in content.items():
        item = gathered.item(name, f"{path}, item {name!r}")
        if not isinstance(given, dict):
            raise DataError(f"{path}, item {name}: expected an object of annotator: label, got {shown(given)}")
        for annotator, label in given.items():
            gathered.answer(item, annotator, [label], f"{path}, item {name}, annotator {annotator}")
    imported = gathered.imported(multilabel=False)
    people = imported.coded.annotator.texts
    if len(people) <= len(content):
        return imported
    told = (
        f"read as item: annotator: label, of {len(content)} items such as {next(iter(content))!r} and {len(people)} "
        f"annotators such as {people[0]!r}; if it is the other way round, save it turned, or as CSV"
    )
    return replace(imported, notes=[*imported.notes, told])
