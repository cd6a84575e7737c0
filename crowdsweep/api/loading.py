"""Loading of datasets: from a folder, by a name, or from a table in memory.

A table is written to a temporary dataset folder, which the reader of all folders then reads. Tables and folders are
therefore checked alike, and the same rows give the same dataset in either form.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from crowdsweep.api.notebook import as_html
from crowdsweep.data import bounds, catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar, Scale
from crowdsweep.data.describe import describe
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.description import DESCRIPTION_FILE
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.data.on_disk.folder_files import JOIN
from crowdsweep.data.on_disk.tables import WHOLE_BELOW
from crowdsweep.errors import BadInput, DataError, shortened, shown
from crowdsweep.record.store_uri import path_named

_NEEDED = ("item", "annotator", "label")
_ANSWER_COLUMNS = (*_NEEDED, "weight", "probability")
_SAID_OF_TABLES = {
    "put the rows of classes.csv (label, name) into the order of the scale": "give them in the order of the scale by "
    "`classes`",
    "say `missing: []` in dataset.yaml": "load it with `missing=[]`",
    "write `missing: []` into dataset.yaml": "load it with `missing=[]`",
    "declare it in classes.csv": "declare it by `classes`",
    "declare them in classes.csv (label, name)": "declare them by `classes`",
    "declare both in classes.csv (label, name)": "declare both by `classes`",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Data:
    """A loaded dataset; `load` returns it.

    Attributes:
        dataset: the dataset itself.
        source: the folder or name that it was loaded from; empty for a table.
        params: dataset parameters that it was loaded with.
    """

    dataset: CrowdDataset
    source: str = ""
    params: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels of the classes, in the order of all probabilities."""
        return self.dataset.class_labels

    @property
    def items(self) -> list[str]:
        """Names of the items, in the order of their rows."""
        return list(self.dataset.item_names)

    @property
    def notes(self) -> list[str]:
        """Sentences on likely mistakes in the data, and on the number of rows without a label that were left out."""
        notes = [f"{oddity.count:,} {oddity}" for oddity in mistakes(self.dataset)]
        return notes if self.source else [_said_of_tables(note) for note in notes]

    def describe(self) -> dict[str, Any]:
        """Returns counts, redundancy and agreement, as `crowdsweep data describe --json` prints them."""
        return describe(self.dataset)

    def save(self, folder: str | Path) -> None:
        """Writes the dataset as a folder that sweeps and commands take.

        Raises:
            DataError: the folder holds files already, or cannot be written.
            BadInput: `folder` cannot be a path, such as a URI.
        """
        write_folder(self.dataset, path_named(folder))

    def __repr__(self) -> str:
        facts = ", ".join(f"{value} {name}" for name, value in self._counts().items())
        return f"<Data {self.dataset.name}: {facts}>"

    def _repr_html_(self) -> str:
        return as_html(
            self.dataset.title or self.dataset.name, {**self._counts(), "classes are": ", ".join(self.classes)}
        )

    def _counts(self) -> dict[str, Any]:
        rows = self.dataset.annotations
        annotators = "anonymous" if rows.anonymous else rows.n_active_annotators
        counts: dict[str, Any] = {"items": self.dataset.items.n_items, "annotators": annotators, "labels": len(rows)}
        counts["classes"] = self.dataset.n_classes
        if self.dataset.items.features is not None:
            counts["features"] = self.dataset.items.features.shape[1]
        return counts


def load(
    source: Any,
    /,
    *,
    features: Any = None,
    classes: Sequence[str] | None = None,
    missing: Sequence[Any] | None = None,
    scale: Scale | None = None,
    **params: Scalar,
) -> Data:
    """Loads a dataset of answers.

    Args:
        source: a dataset folder, or a name in the catalogue, as commands take them; or a table with the columns `item`,
            `annotator`, `label` and, optionally, `weight`, `probability` and `gold`. A table is a dict of columns, or
            an object of pandas, polars, DuckDB … with Arrow's interface (`__arrow_c_stream__`). Rows without a label
            are left out; `Data.notes` gives their number. Numbers are read as names of classes: 1.0 is 1.
        features: for a folder, the KIND of a file `features-KIND.npz`, or computed features, `text:tfidf`. For a table,
            another table with the column `item` and columns of numbers; items that only it has are items without
            answers, which a classifier labels.
        classes: for a table, all class labels in their order, used or not; None for those that occur.
        missing: for a table, texts that mean a missing value, besides null, NaN and the empty text; None for the usual
            ones (NA, None, …; `crowdsweep.data.missing.WORDS`), `[]` for no others. A folder has the key `missing` in
            its dataset.yaml instead.
        scale: for a table, `ordinal` where classes are steps, in the order of `classes` or of their numbers; an ordered
            categorical column of labels says both by itself;
            `multilabel` where an answer may name several classes, as lists or as `cat|dog`. A folder has the key
            `scale` in its dataset.yaml instead.
        params: further dataset parameters, such as `scenario`.

    Raises:
        BadInput: an argument or the data cannot be used; the message says which.
    """
    params = {name: without_numpy(value) for name, value in params.items()}
    if isinstance(source, Data):
        if params or any(given is not None for given in (features, classes, missing, scale)):
            raise BadInput(
                "load: expected parameters only when data are first loaded, got some for data that are loaded already"
            )
        return source
    if isinstance(source, CrowdDataset):
        loaded = Data(dataset=source, params=source.params)
        return load(loaded, features=features, classes=classes, missing=missing, scale=scale, **params)
    if isinstance(source, str | Path):
        if classes is not None:
            raise BadInput(
                f"classes: {source} is a folder or a name, which has its own; classes can be given only with a table"
            )
        if missing is not None:
            raise BadInput(f"missing: {source} sets it by the key `missing` of its dataset.yaml")
        if scale is not None:
            raise BadInput(f"scale: {source} sets it by the key `scale` of its dataset.yaml")
        if features is not None and not isinstance(features, str):
            raise BadInput(f"features: expected the KIND of a features file of {source}, got {_kind(features)}")
        given = {**params, **({} if features is None else {"features": features})}
        return Data(dataset=catalogue.load(str(source), given), source=str(source), params=given)
    catalogue.check_params(params, (), "table")
    if scale not in (None, *get_args(Scale)):
        raise BadInput(
            f"scale: expected {', '.join(get_args(Scale)[:-1])} or {get_args(Scale)[-1]}, got {shown(scale)}"
        )
    return Data(dataset=_of_table(source, features, classes, MissingValues.of(missing), scale), params=params)


def without_numpy(value: Any) -> Any:
    """Converts numpy numbers and arrays to Python's; other values are unchanged."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def as_table(given: Any, what: str) -> pa.Table:
    """Converts an object to an Arrow table, in which columns of whole numbers become integers.

    Args:
        given: a dict of columns, or an object with Arrow's interface.
        what: name of the object in messages.

    Raises:
        DataError: the object is not a table, or has columns that cannot be read.
    """
    return _plain_table(_encoded_table(given, what), what)


def _encoded_table(given: Any, what: str) -> pa.Table:
    """Returns the object as an Arrow table, with the types that it has."""
    if isinstance(given, Mapping):
        columns = {
            str(name): _taken(pa.Table.from_pydict, {"": column}, f"{what}, column {name}")
            for name, column in given.items()
        }
        table = _taken(pa.Table.from_pydict, {name: column.column(0) for name, column in columns.items()}, what)
    elif hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        try:
            table = pa.table(given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = shortened(" ".join(map(str, error.args)))
            raise DataError(
                f"{what}: expected columns of texts or of numbers, of types that Arrow has; cast the others or leave "
                f"them out: {reason}"
            ) from error
    else:
        raise DataError(
            f"{what}: expected a folder, a name, or a table (a dict of columns; pandas, polars or Arrow), got "
            f"{_kind(given)}"
        )
    return table


def _plain_table(table: pa.Table, what: str) -> pa.Table:
    """Returns the table with plain columns, of distinct names."""
    bounds.check_table(table.num_rows, table.nbytes, what)
    twice = sorted(name for name, n in Counter(table.column_names).items() if n > 1)
    if twice:
        raise DataError(f"{what}: expected distinct column names, got {twice[0]!r} twice")
    return pa.Table.from_pydict(
        {name: _plain(table.column(name), f"{what}, column {name}") for name in table.column_names}
    )


def _taken(make: Callable[[Any], pa.Table], given: Any, what: str) -> pa.Table:
    try:
        return make(given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = shortened(" ".join(map(str, error.args)))
        raise DataError(f"{what}: expected columns of one length, each of texts or of numbers: {reason}") from error


def _plain(column: Any, where: str) -> Any:
    """Decodes a column of dictionary codes or run lengths, and converts a float column of whole numbers to integers.

    Libraries turn integers into floats where a value is missing; NaN becomes null.
    """
    try:
        column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks] or [_decoded(column.combine_chunks())])
    except DataError as error:
        raise DataError(f"{where}, {error}") from None
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = shortened(" ".join(map(str, error.args)))
        raise DataError(f"{where}: expected texts or numbers, got {column.type}: {reason}") from error
    if pa.types.is_floating(column.type):
        values: Any = pc.if_else(pc.is_nan(column), None, column)
        known: Any = values.drop_null().to_numpy()
        if len(known) and (np.abs(known) < WHOLE_BELOW[column.type.bit_width]).all() and (known % 1 == 0).all():
            return values.cast(pa.int64())
        return values
    return column


def _decoded(chunk: Any) -> Any:
    """Returns the array with its encoding (dictionary, run lengths, extension type …) replaced by plain values."""
    kind = chunk.type
    if pa.types.is_dictionary(kind):
        values: Any = _decoded(chunk.dictionary)
        if pa.types.is_string(values.type):
            lengths: Any = pc.binary_length(values)
            written = pc.sum(lengths.cast(pa.float64()).take(chunk.indices)).as_py() or 0
            bounds.check_unpacked(int(written), chunk.nbytes, "texts", "give them as plain texts")
        return values.take(chunk.indices)
    if pa.types.is_run_end_encoded(kind):
        return _decoded(pc.run_end_decode(chunk))  # pyright: ignore[reportAttributeAccessIssue] - stubs lack it
    if isinstance(kind, pa.BaseExtensionType):
        if "uuid" in str(getattr(kind, "extension_name", "")):
            return pa.array([None if value is None else str(value) for value in chunk.to_pylist()], pa.string())
        return _decoded(chunk.storage)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return chunk.cast(pa.string())
    if pa.types.is_decimal(kind):
        numbers = [None if value is None else value.to_integral_value() for value in chunk.to_pylist()]
        if chunk.to_pylist() == numbers:
            return pa.array([None if value is None else str(value) for value in numbers], pa.string())
        return chunk.cast(pa.float64())
    return chunk


def _of_table(
    given: Any, features: Any, classes: Sequence[str] | None, missing: MissingValues, scale: str | None
) -> CrowdDataset:
    encoded = _encoded_table(given, "table")
    if classes is None and (steps := _steps_of(encoded)):
        classes, scale = steps, scale or "ordinal"
    table = _plain_table(encoded, "table")
    for name in _NEEDED:
        if name not in table.column_names:
            there = ", ".join(map(repr, table.column_names)) or "none"
            raise DataError(f"table: expected a column {name!r}, got columns {there}; rename it")
    table = _with_joined_lists(table, several=scale == "multilabel")
    described = None if features is None else _features(features)
    with TemporaryDirectory(prefix="crowdsweep-table-") as place:
        folder = Path(place) / "table"
        folder.mkdir()
        answers = table.select([name for name in _ANSWER_COLUMNS if name in table.column_names])
        pq.write_table(answers, folder / "annotations.parquet")
        about: dict[str, Any] = {"missing": sorted(missing.words)} if missing.told else {}
        about |= {} if scale is None else {"scale": scale}
        if about:
            (folder / DESCRIPTION_FILE).write_text(yaml.safe_dump(about), encoding="utf-8")
        if classes is not None:
            pq.write_table(pa.Table.from_pydict({"label": [str(name) for name in classes]}), folder / "classes.parquet")
        try:
            items = _items(table, () if described is None else described[0], missing.without(classes or ()))
            if items is not None:
                pq.write_table(items, folder / "items.parquet")
            if described is not None:
                ids = np.array(described[0], dtype=np.str_)
                np.savez(folder / "features-default.npz", item=ids, features=described[1])
            dataset = read_folder(folder)
            places = {text: _in_words_of_tables(place, folder) for text, place in dataset.left_out.first.items()}
            return replace(dataset, folder="", left_out=replace(dataset.left_out, first=places))
        except DataError as error:
            raise DataError(_in_words_of_tables(str(error), folder)) from error


def _steps_of(table: pa.Table) -> list[str]:
    """Returns the classes of an ordered categorical column of labels, used or not, in their order; else nothing."""
    if table.column_names.count("label") != 1:
        return []
    column: Any = table.column("label")
    if not pa.types.is_dictionary(column.type) or not column.type.ordered or not column.num_chunks:
        return []
    return [str(name) for name in column.unify_dictionaries().chunk(0).dictionary.to_pylist()]


def _with_joined_lists(table: pa.Table, *, several: bool) -> pa.Table:
    """Joins lists of classes, in the columns of answers and gold, to texts as dataset folders have them.

    Raises:
        DataError: a column has lists where only one class is allowed, or lists of something else.
    """
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if name in ("label", "gold") and isinstance(column.type, pa.ListType | pa.LargeListType):
            if not several:
                raise DataError(
                    f"table, column {name}: expected one class in each row, got lists; where an answer may name "
                    f'several classes, load it with `scale="multilabel"`'
                )
            try:
                lists: Any = column.cast(pa.list_(pa.string()))
            except pa.ArrowException as error:
                raise DataError(f"table, column {name}: expected lists of classes, got {column.type}") from error
            joined: Any = pc.binary_join(lists, JOIN)
            table = table.set_column(place, name, joined)
    return table


def _items(table: pa.Table, described: Sequence[str], missing: MissingValues) -> pa.Table | None:
    """Returns the table `item`, `gold` of the items that have gold or features; None where there are none."""
    gold: dict[str, str] = {}
    if "gold" in table.column_names:
        told = pa.Table.from_pydict({name: _texts(table, name, "table") for name in ("item", "gold")})
        pairs: Any = told.group_by(["item", "gold"]).aggregate([])
        for item, label in zip(*(pairs.column(name).to_pylist() for name in ("item", "gold")), strict=True):
            if item and label and not missing(label) and gold.setdefault(item, label) != label:
                raise DataError(
                    f"table, column gold: expected one gold class for item {item!r}, got {gold[item]!r} and {label!r}; "
                    f"correct one of them"
                )
    names = list(dict.fromkeys([*gold, *described]))
    return pa.Table.from_pydict({"item": names, "gold": [gold.get(name, "") for name in names]}) if names else None


def _features(given: Any) -> tuple[list[str], np.ndarray]:
    """Returns the ids of the items, and their features as float64 [items, features]."""
    table = as_table(given, "features")
    if "item" not in table.column_names:
        raise DataError(f"features: expected a column 'item', got columns {', '.join(table.column_names)}; rename it")
    names: list[Any] = _texts(table, "item", "features").to_pylist()
    seen: set[str] = set()
    for row, name in enumerate(names, start=1):
        if not name or name in seen:
            got = f"{name!r} again" if name else "an empty field"
            raise DataError(f"features, row {row}, column item: expected each item once, got {got}; correct it")
        seen.add(name)
    return names, numbers_of(table.drop_columns(["item"]), "features")


def numbers_of(table: pa.Table, what: str) -> np.ndarray:
    """Returns the columns of a table as a matrix of float64.

    Raises:
        DataError: the table has no column, or a column that does not hold numbers.
    """
    columns: list[np.ndarray] = []
    for name in table.column_names:
        column: Any = table.column(name)
        if not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
        ):
            raise DataError(f"{what}, column {name}: expected numbers, got {column.type}")
        columns.append(column.cast(pa.float64()).to_numpy())
    if not columns:
        raise DataError(f"{what}: expected columns of numbers, got none")
    return np.stack(columns, axis=1)


def _texts(table: pa.Table, name: str, what: str) -> Any:
    try:
        column: Any = table.column(name)
        if pa.types.is_boolean(column.type):  # spelled as in `data.tables`
            column = pc.if_else(column, "True", "False")
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise DataError(f"{what}, column {name}: expected texts or numbers, got {table.column(name).type}") from error


def names_of(values: Sequence[Any], what: str) -> list[str]:
    """Returns names as `load` reads them from a column of these values: 3 and 3.0 are "3", True is "True".

    Raises:
        DataError: they are neither texts nor numbers, or of several kinds.
    """
    return _texts(as_table({what: list(values)}, "answers"), what, "answers").to_pylist()


def _in_words_of_tables(message: str, folder: Path) -> str:
    """Rewrites a message about the files of the temporary folder into one about the table."""
    for file in folder.iterdir():
        name = "features" if file.suffix == ".npz" else "table"
        message = message.replace(str(file), name)
        if file.name != DESCRIPTION_FILE:
            message = message.replace(file.name, name)
    return _said_of_tables(message.replace(str(folder), "table"))


def _said_of_tables(message: str) -> str:
    for of_files, of_tables in _SAID_OF_TABLES.items():
        message = message.replace(of_files, of_tables)
    return message


def _kind(value: object) -> str:
    return type(value).__name__
