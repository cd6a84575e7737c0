"""New answers for a dataset's folder, from Python: what `crowdsweep add` does, of a file or of a table."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from crowdsweep.api.loading import as_table
from crowdsweep.data.dataset import Scale
from crowdsweep.data.missing import Missing
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.errors import BadInput, DataError, UnknownName
from crowdsweep.importing.add_answers import Added, add_answers, folder_named, missing_in, read_answers
from crowdsweep.importing.additions import Contradictions
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import Asked, ImportedRows

_COLUMNS = tuple(field.name for field in fields(Asked) if field.name not in ("features", "missing", "scale"))
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
        folder: of the dataset, or its name on the search path.
        answers: a file, as `crowdsweep init` takes; or a table with the columns `item`, `annotator`, `label` and, where
            there is some, `weight`, `gold` and `text`: a dict of columns, or what speaks Arrow.
        contradictions: what becomes of answers that give an item another label than the same annotator gave it:
            `refuse` raises, `keep` has both count, `replace` the last one.
        new_classes: labels of classes that the dataset does not have yet.
        form: of a file; guessed by default.
        missing: texts that stand for a missing value; None for those of the folder.
        columns: of a file, the names of its columns by what they are (`item="picture"`), or its `question`.

    Returns:
        What was new. An answer that stands there already is not: the same answers added again change nothing.

    Raises:
        BadInput: something of that cannot be used, and nothing was added; the message says which.
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


def _of_table(given: Any, missing: Missing, scale: Scale) -> ImportedRows:
    table = as_table(given, "table")
    with TemporaryDirectory(prefix="crowdsweep-table-") as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path)
        there = {name: name for name in _OF_TABLES if name in table.column_names or name in _OF_TABLES[:3]}
        try:
            asked = Asked(missing=missing, features=None, scale=scale, **there)
            return replace(read_form("csv", path, asked), source=Path("table"))
        except DataError as error:
            raise DataError(str(error).replace(str(path), "table")) from error
