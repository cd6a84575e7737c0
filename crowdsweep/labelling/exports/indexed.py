"""Parquet files that pandas reads as frames with an index."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.errors import BadInput


def indexed(index: str, names: Sequence[str], columns: Mapping[str, Any]) -> bytes:
    """Returns a Parquet file that pandas reads as a frame with this index.

    Raises:
        BadInput: a column has the name of the index.
    """
    if index in columns:
        raise BadInput(f"expected other names than {index!r}, which the column of items has")
    table = pa.Table.from_pydict({index: pa.array(names, pa.string()), **columns})
    metadata: dict[str, Any] = {"index_columns": [index], "column_indexes": [], "columns": []}
    for name in table.column_names:
        metadata["columns"].append(
            {"name": name, "field_name": name, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
        )
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(metadata)}), file)
    return file.getvalue()
