"""A table whose cells name several classes, tables whose labels are none, and what is said of them."""

from pathlib import Path
from typing import Any

import pytest

import crowdsweep as cs
from crowdsweep.data.oddities import mistakes
from crowdsweep.errors import DataError
from crowdsweep.importing.file_to_folder import Imported, import_file
from crowdsweep.importing.rows import FileOptions

ROWS = [("p1", "ann", "cat|dog"), ("p1", "bob", "dog"), ("p2", "ann", " dog | cat "), ("p2", "bob", "fox")]
GOLD = {"p1": "cat|dog", "p2": "fox"}


def made(
    tmp_path: Path, rows: list[tuple[str, str, str]], scale: str | None, gold: dict[str, str] | None = None
) -> Imported:
    lines = ["item,annotator,label" + (",gold" if gold else "")]
    lines += [",".join((*(f'"{cell}"' for cell in row), *([f'"{gold[row[0]]}"'] if gold else []))) for row in rows]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    asked = FileOptions(item="item", annotator="annotator", label="label", gold="gold" if gold else None, scale=scale)  # type: ignore[arg-type]
    return import_file("csv", tmp_path / "rows.csv", asked, tmp_path / "made")


@pytest.mark.parametrize("mark", ["|", ";", ","])
def test_cells_are_taken_apart_at_what_stands_in_them(tmp_path: Path, mark: str) -> None:
    cells = [(item, who, label.replace("|", mark)) for item, who, label in ROWS]
    imported = made(tmp_path, cells, "multilabel", {item: label.replace("|", mark) for item, label in GOLD.items()})
    data = imported.dataset
    assert data.scale == "multilabel"
    assert list(data.class_names) == ["cat", "dog", "fox"]
    given, gold = data.annotations, data.gold.positive()
    rows = zip(given.item, given.annotator, given.label, strict=True)
    chosen = {(data.item_names[n], data.annotator_names[who], data.class_names[label]) for n, who, label in rows}
    assert chosen == {
        ("p1", "ann", "cat"), ("p1", "ann", "dog"), ("p1", "bob", "dog"),
        ("p2", "ann", "cat"), ("p2", "ann", "dog"), ("p2", "bob", "fox"),
    }  # fmt: skip
    known = {(data.item_names[n], data.class_names[label]) for n, label in zip(gold.item, gold.label, strict=True)}
    assert known == {("p1", "cat"), ("p1", "dog"), ("p2", "fox")}


@pytest.mark.parametrize("line_by_line", [False, True])
def test_an_empty_cell_chose_no_class(tmp_path: Path, line_by_line: bool) -> None:
    """Two of three saw nothing in p1: a third of them saw a cat, and the vote is for nothing, as in a folder."""
    saw = {("p1", "ann"): "cat", ("p1", "bob"): "", ("p1", "cleo"): " ", ("p2", "ann"): "cat|dog", ("p2", "bob"): "dog"}
    rows = [(item, who, cell) for (item, who), cell in saw.items()] + [("p2", "cleo", "NA")]
    imported = made(tmp_path, rows, "multilabel", {"p1": "cat", "p2": "dog"} if line_by_line else None)
    assert imported.rows.notes[0].startswith("2 answers are empty, and mean that their annotator chose no class")
    assert [note for note in imported.rows.notes if note.startswith("1 answers have no label and were left out: NA")]
    given = [(row.item, row.annotator, row.labels) for row in imported.rows.rows]
    assert [row for row in given if not row[2]] == [("p1", "bob", ()), ("p1", "cleo", ())]
    vote = cs.fit("majority-vote", cs.load(tmp_path / "made")).raw_probabilities.to_pylist()
    assert vote[0] == {"item": "p1", "cat": pytest.approx(1 / 3), "dog": 0.0}
    more = tmp_path / "more.csv"
    more.write_text("item,annotator,label\np1,dan,\np2,dan,cat\n")
    assert cs.add(tmp_path / "made", more).answers == 2
    table = {"item": ["p1", "p2"], "annotator": ["eve", "eve"], "label": ["", None]}
    assert cs.add(tmp_path / "made", table).answers == 2
    vote = cs.fit("majority-vote", cs.load(tmp_path / "made")).raw_probabilities.to_pylist()
    assert vote[0] == {"item": "p1", "cat": pytest.approx(1 / 5), "dog": 0.0}


def test_a_cell_that_names_classes_of_others_is_told_of(tmp_path: Path) -> None:
    imported = made(tmp_path, [*ROWS[:2], ("p2", "ann", "fox")], None)
    assert imported.dataset.scale == "nominal"
    assert [note for note in imported.doubtful() if "--scale multilabel" in note] == [
        (
            "'cat|dog' looks like several classes: if an answer may name several, repeat the command with --scale "
            "multilabel"
        )
    ]


@pytest.mark.parametrize("names", [("yes", "no, thanks"), ("a;b", "c"), ("AC/DC", "Queen")])
def test_a_class_with_a_mark_in_its_name_is_a_class(tmp_path: Path, names: tuple[str, str]) -> None:
    imported = made(tmp_path, [("p1", "ann", names[0]), ("p1", "bob", names[1])], None)
    assert not [note for note in imported.doubtful() if "multilabel" in note]


def test_several_classes_are_asked_of_a_file_that_has_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected labels that name several classes, with \|, ; or , between them"):
        made(tmp_path, [("p1", "ann", "cat"), ("p1", "bob", "dog")], "multilabel")
    assert not (tmp_path / "made").exists()


def test_measures_are_no_classes_of_a_table(tmp_path: Path) -> None:
    rows = [(f"p{n // 4}", f"a{n % 4}", f"{n * 37 % 101 + 0.25}") for n in range(80)]
    with pytest.raises(DataError, match=r"expected classes, got 80 numbers with decimals, such as 0\.25"):
        made(tmp_path, rows, None)


def test_a_scale_in_halves_is_one(tmp_path: Path) -> None:
    rows = [(f"p{n // 4}", f"a{n % 4}", str(n * 7 % 9 / 2)) for n in range(80)]
    assert made(tmp_path, rows, "ordinal").dataset.n_classes == 9


def test_texts_in_place_of_labels_are_told_of(tmp_path: Path) -> None:
    rows = [(f"p{n // 4}", f"a{n % 4}", f"text {n}") for n in range(80)]
    found = {oddity.kind for oddity in mistakes(made(tmp_path, rows, None).dataset)}
    assert found == {"labels most of which occur only once"}


def test_rows_in_place_of_items_are_told_of(tmp_path: Path) -> None:
    rows = [(f"{n}", f"a{n % 4}", "ab"[n % 2]) for n in range(80)]
    found = {oddity.kind for oddity in mistakes(made(tmp_path, rows, None).dataset)}
    assert found == {"items of which none has a second label"}


def test_a_table_in_memory_has_them_as_lists_or_joined() -> None:
    lists = [["cat", "dog"], ["dog"], ["dog", "cat"], ["fox"]]
    columns: dict[str, list[Any]] = {"item": ["p1", "p1", "p2", "p2"], "annotator": ["ann", "bob", "ann", "bob"]}
    listed = cs.load({**columns, "label": lists, "gold": [["cat", "dog"]] * 2 + [["fox"]] * 2}, scale="multilabel")
    joined = {**columns, "label": ["|".join(one) for one in lists], "gold": ["cat|dog"] * 2 + ["fox"] * 2}
    assert listed.dataset.fingerprint == cs.load(joined, scale="multilabel").dataset.fingerprint
    assert (listed.classes, listed.dataset.scale, len(listed.dataset.annotations)) == (
        ("cat", "dog", "fox"),
        "multilabel",
        6,
    )
    with pytest.raises(
        DataError, match=r'column label: expected one class in each row, got lists; .*scale="multilabel"'
    ):
        cs.load({**columns, "label": lists})
    with pytest.raises(DataError, match="column label: expected lists of classes, got list<"):
        cs.load({**columns, "label": [[one] for one in lists]}, scale="multilabel")


def test_answers_are_counted_and_not_the_classes_that_they_name(tmp_path: Path) -> None:
    made(tmp_path, [("p1", "ann", "a|b|c"), ("p1", "bob", ""), ("p2", "ann", "a"), ("p2", "bob", "b|c")], "multilabel")
    fit = cs.fit("majority-vote", cs.load(tmp_path / "made"))
    for table in (fit.labels, fit.annotators, fit.next_items):
        assert table is not None
        assert table["answers"].to_pylist() == [2, 2]
