"""Adding answers to a dataset's folder from Python, as `crowdsweep add` does, from a file or a table."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from crowdsweep.api.loading import as_table
from crowdsweep.data.dataset import Scale
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.errors import BadInput, DataError, UnknownName
from crowdsweep.importing.add_answers import Added, add_answers, folder_named, missing_in, read_answers
from crowdsweep.importing.additions import Contradictions
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows

_COLUMNS = tuple(field.name for field in fields(FileOptions) if field.name not in ("features", "missing", "scale"))
_OF_TABLES = ("item", "annotator", "label", "gold", "weight", "text")


def add(
    folder: str | Path,
    answers: Any,
    /,
    *,
    contradictions: Contradictions = "refuse",
    new_classes: Sequence[str] = (),
    form: str | None = None,
    missing: Sequence[Any] | None = None,
    **columns: str,
) -> Added:
    """Adds answers, and the gold that comes with them, to a dataset's folder: all of them, or nothing.

    Args:
        folder: folder of the dataset, or its name on the search path.
        answers: a file that `crowdsweep init` takes; or a table with the columns `item`, `annotator`, `label` and,
            optionally, `weight`, `gold` and `text`: a dict of columns, or an object with Arrow's interface.
        contradictions: what to do with an answer whose annotator gave the item another label before: `refuse` raises,
            `keep` counts both answers, `replace` counts the last one.
        new_classes: labels of classes that the dataset does not have yet.
        form: form of a file; guessed by default.
        missing: texts that mean a missing value; None for those of the folder.
        columns: for a file, role → column name (`item="picture"`), or its `question`.

    Returns:
        What was added. Answers that are there already are not added again: a second call changes nothing.

    Raises:
        BadInput: an argument or an answer cannot be used, as the message says; nothing was added.
    """
    if contradictions not in ("refuse", "keep", "replace"):
        raise BadInput(f"contradictions: expected refuse, keep or replace, got {contradictions!r}")
    for name in columns:
        if name not in _COLUMNS:
            raise UnknownName("column", name, _COLUMNS, "add")
    place = folder_named(str(folder))
    if isinstance(answers, str | Path):
        read = read_answers(Path(answers), place, missing, form, columns)
    else:
        if form is not None or columns:
            raise BadInput("add: expected form and columns of a file; those of a table have fixed names")
        read = _of_table(answers, missing_in(place, missing), read_description(place).scale)
    return add_answers(read, place, contradictions=contradictions, new_classes=new_classes)


def _of_table(given: Any, missing: MissingValues, scale: Scale) -> ImportedRows:
    table = as_table(given, "table")
    with TemporaryDirectory(prefix="crowdsweep-table-") as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path)
        there = {name: name for name in _OF_TABLES if name in table.column_names or name in _OF_TABLES[:3]}
        try:
            asked = FileOptions(missing=missing, features=None, scale=scale, **there)
            return replace(read_form("csv", path, asked), source=Path("table"))
        except DataError as error:
            raise DataError(str(error).replace(str(path), "table")) from error
