"""Tables in memory whose columns are of another kind than text: read as plain ones are, or refused."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

import crowdsweep as cs
from crowdsweep.errors import BadInput

PLAIN = pa.table(
    {"item": ["1", "1", "2", "2"], "annotator": ["a", "b", "a", "b"], "label": ["yes", "no", "yes", "yes"]}
)


def viewed(name: str) -> pa.Array:
    values = PLAIN.column(name).combine_chunks()
    codes = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes.indices, codes.dictionary.cast(pa.string_view()))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("label", viewed("label")),
        ("other", viewed("label")),
        ("item", viewed("item")),
        ("annotator", PLAIN.column("annotator").combine_chunks().dictionary_encode()),
        ("label", pa.RunEndEncodedArray.from_arrays([1, 2, 4], ["yes", "no", "yes"])),
        ("item", pa.RunEndEncodedArray.from_arrays([2, 4], [1, 2])),
        ("item", pa.array([1, 1, 2, 2], pa.decimal128(38, 0))),
        ("item", pa.array([1, 1, 2, 2], pa.uint8())),
        ("item", np.ma.masked_array([1, 1, 2, 2])),
        ("label", pa.array(["yes", "no", "yes", "yes"], pa.large_string())),
        ("label", pa.array(["yes", "no", "yes", "yes"], pa.string_view())),
    ],
)
def test_columns_of_other_kinds_are_read_as_plain_ones_are(name: str, column: object) -> None:
    columns = {**{known: PLAIN.column(known) for known in PLAIN.column_names}, name: column}
    given = columns if isinstance(column, np.ndarray) else pa.table(columns)
    assert cs.load(given).dataset.fingerprint == cs.load(PLAIN).dataset.fingerprint


def test_ids_that_are_uuids_are_their_texts() -> None:
    ids = [uuid.UUID(int=n) for n in (200, 200, 1, 1)]
    data = cs.load({"item": ids, "annotator": [1, 2, 1, 2], "label": [0, 1, 0, 0]})
    assert data.items == sorted(map(str, set(ids)))


def test_a_masked_label_is_missing() -> None:
    label = np.ma.masked_array(["yes", "no", "yes", "no"], mask=[False, False, False, True])
    data = cs.load({"item": [1, 1, 2, 2], "annotator": [1, 2, 1, 2], "label": label})
    assert (len(data.dataset.annotations), data.dataset.left_out.counts) == (3, {"": 1})


@pytest.mark.parametrize("column", [[b"\xff", b"\xfe", b"a", b"b"], [[1], [2], [3], [4]], [{"a": 1}] * 4])
def test_columns_that_are_no_names_are_told(column: list) -> None:
    with pytest.raises(BadInput, match="item"):
        cs.load({"item": column, "annotator": [1, 2, 1, 2], "label": [0, 1, 0, 1]})


@pytest.mark.parametrize(("kind", "first"), [(np.float64, 2.0**60), (np.float32, 2.0**25)])
def test_numbers_that_take_neighbours_for_one_are_no_ids(kind: type, first: float) -> None:
    """pandas makes floats of ids where one is missing: forty items became one."""
    items = np.asarray([first, first + 1], dtype=kind)
    assert items[0] == items[1]
    columns = {"item": items, "annotator": ["a", "b"], "label": ["yes", "no"]}
    with pytest.raises(BadInput, match=r"expected texts or integers in the column item, got the number .* a float"):
        cs.load(columns)
    assert cs.load({**columns, "item": np.asarray([1, 2], dtype=kind)}).items == ["1", "2"]
