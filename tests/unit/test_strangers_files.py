"""Files as spreadsheets, survey tools, libraries and annotation tools write them: read as meant, or refused.

Each holds the same answers, so that one oracle does for all: 12 items, 3 annotators, 36 answers of two classes.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdsweep as cs
from crowdsweep.data.class_order import by_the_alphabet, in_order
from crowdsweep.data.missing import likely_missing
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.file_to_folder import Imported, import_file
from crowdsweep.importing.guess import guess_file, settled
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions

PEOPLE = ("ann", "bob", "cyn")
ITEMS = [f"doc{n}" for n in range(12)]
LABELS = {
    (item, who): ("yes", "no")[(n * n + n * k // 2 + k) % 2]
    for n, item in enumerate(ITEMS)
    for k, who in enumerate(PEOPLE)
}
ROWS = [(item, who, label) for (item, who), label in LABELS.items()]
HEADER = ("item", "annotator", "label")


def table(header: Sequence[object], rows: Sequence[Sequence[object]], separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def records(*names: str) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in ROWS]


def of_item(item: str) -> list[str]:
    return [LABELS[item, who] for who in PEOPLE]


def wide(*more: tuple[str, Callable[[int], object]], first: str = "id") -> str:
    """Returns a table with a column per annotator, and further columns by a function of the item's number."""
    rows = [(item, *of_item(item), *(make(n) for _, make in more)) for n, item in enumerate(ITEMS)]
    return table((first, *PEOPLE, *(name for name, _ in more)), rows)


def lines(objects: Sequence[object]) -> str:
    return "\n".join(map(json.dumps, objects)) + "\n"


def parquet(columns: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pydict({name: pa.array(cells) for name, cells in columns.items()}), out)
    return out.getvalue()


def imported(path: Path, content: str | bytes, **options: object) -> Imported:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    asked = FileOptions(**options)  # pyright: ignore[reportArgumentType]
    guess = settled(path, guess_file(path, asked))
    return import_file(guess.form, path, guess.asked, path.parent / "dataset")


def triples(found: Imported) -> set[tuple[str, str, str]]:
    return {(row.item, row.annotator, label) for row in found.rows.rows for label in row.labels}


PLAIN = table(HEADER, ROWS)
BY_ITEM = [{"id": item, "text": f"text of {item}", "annotators": PEOPLE, "labels": of_item(item)} for item in ITEMS]
NESTED = [
    {"id": item, "annotations": [{"id": 7, "worker": who, "answer": LABELS[item, who]} for who in PEOPLE]}
    for item in ITEMS
]
LEWIDI = {
    item: {"text": item, "annotators": ",".join(PEOPLE), "annotations": ",".join(of_item(item))} for item in ITEMS
}
CROWD = {
    "blank row above the header": PLAIN.replace("item", ",,\nitem", 1),
    "comments above the header": "# exported today\n# by nobody, ever\n" + PLAIN,
    "separator named by Excel": "sep=;\n" + table(HEADER, ROWS, ";"),
    "header once more": PLAIN + PLAIN,
    "separators at the ends of rows": PLAIN.replace("\n", ",\n").replace("label,", "label", 1),
    "space after each comma": PLAIN.replace(",", ", "),
    "space and quotes": PLAIN.replace(",", '", "').replace("\n", '"\n"')[:-1].replace("item", '"item', 1),
    "UTF-16 of Excel": PLAIN.replace(",", "\t").encode("utf-16"),
    "French": table(("élément", "annotateur", "étiquette"), ROWS, ";"),
    "German": table(("Bild", "Bewerter", "Urteil"), ROWS, ";"),
    "Spanish": table(("elemento", "anotador", "etiqueta"), ROWS),
    "Chinese": table(("样本", "标注者", "标签"), ROWS),
    "Russian": table(("документ", "разметчик", "метка"), ROWS),
    "vote in a column": table((*HEADER[:2], "answer", "majority_label"), [(*row, of_item(row[0])[0]) for row in ROWS]),
    "JSON with a list for each item": lines(BY_ITEM),
    "JSON with objects for each item": json.dumps(NESTED),
    "JSON wrapped": json.dumps({"version": 1, "answers": records(*HEADER)}),
    "JSON wrapped as annotations": json.dumps({"info": {}, "annotations": records("task", "worker", "label")}),
    "JSON with lists of one": json.dumps([{**one, "label": [one["label"]]} for one in records(*HEADER)]),
    "JSON with a column per annotator": json.dumps(
        [{"id": i, **dict(zip(PEOPLE, of_item(i), strict=True))} for i in ITEMS]
    ),
    "JSON of pandas' columns, with other names": pd.DataFrame(records("sentence_id", "coder", "code")).to_json(),
    "JSON of polars": json.dumps(
        {"columns": [{"name": name, "values": [row[k] for row in ROWS]} for k, name in enumerate(HEADER)]}
    ),
    "JSON of older doccano": lines(
        [
            {"id": i, "text": "", "annotations": [{"label": LABELS[i, who], "user": who} for who in PEOPLE]}
            for i in ITEMS
        ]
    ),
    "JSON of LeWiDi without soft labels": json.dumps(LEWIDI),
    "Parquet with a list for each item": parquet({name: [one[name] for one in BY_ITEM] for name in BY_ITEM[0]}),
    "Parquet with a column per annotator": parquet(
        {"id": ITEMS} | {who: [LABELS[i, who] for i in ITEMS] for who in PEOPLE}
    ),
    "Python's lists": table(HEADER, [(i, who, str([label])) for i, who, label in ROWS]),
    "wide": wide(),
    "wide, with texts": wide(("text", lambda n: f"text number {n}, of its own")),
    "wide, with numbers of rows": table(
        ("Unnamed: 0", "text", "doc_id", *PEOPLE), [(n, f"text {n}!", i, *of_item(i)) for n, i in enumerate(ITEMS)]
    ),
    "wide, with times and certainties": wide(
        ("ann_seconds_time", lambda n: n % 3), ("ann_confidence", lambda n: n % 4)
    ),
    "wide, with the vote": wide(("majority", lambda n: of_item(ITEMS[n])[0])),
    "wide, with whether they agree": wide(("agreement", lambda n: len(set(of_item(ITEMS[n]))) == 1)),
    "wide, with a row of totals": wide() + "Total,12,11,10\n",
    "wide, header once more": wide() + "id,ann,bob,cyn\n",
    "wide, comment above": "# exported\n" + wide(),
}


@pytest.mark.parametrize("name", CROWD)
def test_it_is_the_same_crowd(tmp_path: Path, name: str) -> None:
    content = CROWD[name]
    ending = "json" if "JSON" in name else "parquet" if "Parquet" in name else "csv"
    found = imported(tmp_path / f"a.{ending}", content)
    assert triples(found) == set(ROWS)
    assert len(found.dataset.annotations) == len(ROWS) * (2 if name == "header once more" else 1)
    assert found.dataset.n_classes == 2


REFUSED = {
    "a row per annotator": (
        table(("participant_id", *ITEMS), [(who, *(LABELS[item, who] for item in ITEMS)) for who in PEOPLE]),
        "a row for each annotator, by 'participant_id', .* turn it",
    ),
    "an online form": (
        table(
            ("Timestamp", "Email address", *(f"Picture {n}" for n in range(4))),
            [(f"10:0{n}", f"{n}@x.org", *of_item(ITEMS[n]), "no") for n in range(9)],
        ),
        "a row for each annotator, by 'Email address'",
    ),
    "Qualtrics, with questions in the second line": (
        table(
            ("ResponseId", "Q1", "Q2"),
            [("Response ID", "Is it?", "Was it?"), ('{"ImportId": 1}',) * 3]
            + [(f"R_{n}", *of_item(ITEMS[n])[:2]) for n in range(9)],
        ),
        "a row for each annotator, by 'ResponseId'",
    ),
    "a column per class": (
        table(("id", "positive", "negative", "neutral"), [(i, n % 4, 3 - n % 4, 0) for n, i in enumerate(ITEMS)]),
        "table of votes: positive,negative,neutral add up to the same number",
    ),
    "a title above the header": ("Our answers,,\n" + PLAIN, "got 'Our answers' and empty cells"),
    "Markdown": (
        table(HEADER, [("---", "---", "---"), *ROWS], "|").replace("|", " | "),
        "line 2: expected a row, got a line such as Markdown",
    ),
    "XML": ("<?xml version='1.0'?>\n<annotations/>\n", "got XML or HTML"),
    "WebAnno": ("#FORMAT=WebAnno TSV 3.3\n\n#Text=It broke\n1-1\t0-2\tIt\tyes\n", "spans of WebAnno"),
    "Feather": (b"ARROW1\x00\x00" + bytes(40), "got an Arrow or Feather file; save it as Parquet or CSV"),
    "SPSS": (b"$FL2@(#) SPSS" + bytes(40), "a file of SPSS"),
    "Stata": (b"<stata_dta><header>", "a file of Stata"),
    "UTF-16 without a mark": (PLAIN.encode("utf-16-le"), "zero bytes"),
    "objects a line, of no known tool": (
        lines([{"data_row": {"id": 1}, "projects": {"p": {"labels": []}}}] * 2),
        "cannot tell which tool",
    ),
    "comments alone": ("# a\n# b\n", "names of columns in its first line"),
    "no records": ("[]", "expected records, found none"),
    "NumPy's lists": (table(HEADER, [(i, who, f"['{label}' 'x']") for i, who, label in ROWS]), "lists such as"),
    "shares of classes": (table(HEADER, [(*row[:2], f"[0.{n % 9}, 0.5]") for n, row in enumerate(ROWS)]), "lists such"),
    "as many labels as nobody": (
        lines([{"id": 1, "annotators": ["a", "b"], "labels": ["x"]}] * 3),
        "label for each of 2",
    ),
    "a class in an object": (
        lines(
            [
                {"id": item, "text": f"{item}!", "user_id": who, "label_annotations": {"q": {label: 1}}}
                for item, who, label in ROWS
            ]
        ),
        "lists and objects are not read: label_annotations",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    with pytest.raises(BadInput, match=message):
        imported(tmp_path / "a.csv", content)


def test_an_item_is_named_by_an_address_where_annotators_have_columns(tmp_path: Path) -> None:
    assert triples(imported(tmp_path / "a.csv", wide(first="email"))) == set(ROWS)


@pytest.mark.parametrize("cell", ['["yes", "no"]', "['yes', 'no']", '{"choices": ["no", "yes"]}'])
def test_a_list_in_a_cell_is_several_classes(tmp_path: Path, cell: str) -> None:
    found = imported(tmp_path / "a.csv", table(HEADER, [("doc0", "dan", cell), *ROWS]))
    assert found.dataset.scale == "multilabel"
    assert triples(found) == {*ROWS, ("doc0", "dan", "yes"), ("doc0", "dan", "no")}
    assert any("labels that are lists" in note for note in found.rows.notes)


def test_brackets_around_a_class_are_no_list(tmp_path: Path) -> None:
    found = imported(tmp_path / "a.csv", table(HEADER, [(i, who, f"[{label}]") for i, who, label in ROWS]))
    assert found.dataset.class_labels == ("[no]", "[yes]")


@pytest.mark.parametrize(
    "name",
    ["reference", "adjudicated_label", "label_gt", "GOLDEN:result", "Richtige Antwort", "true_label", "official"],
)
def test_gold_by_its_name(tmp_path: Path, name: str) -> None:
    rows = [(*row, of_item(row[0])[0] if row[0] < "doc5" else "") for row in ROWS]
    assert len(imported(tmp_path / "a.csv", table((*HEADER, name), rows)).dataset.gold) > 0


@pytest.mark.parametrize("name", ["final_label", "actual", "consensus_code"])
def test_gold_by_its_contents_is_offered(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table((*HEADER, name), [(*row, of_item(row[0])[0]) for row in ROWS]))
    offered = [note for note in guess_file(path).notes if f"--gold {name}" in note]
    assert len(offered) == (name != "consensus_code")  # which is made of the labels


@pytest.mark.parametrize("own", [False, True], ids=["other classes", "several for an item"])
def test_gold_that_is_not_read_is_told(tmp_path: Path, own: bool) -> None:
    path = tmp_path / "a.csv"
    path.write_text(table((*HEADER, "gold"), [(*row, row[2] if own else "YES") for row in ROWS]))
    guess = guess_file(path)
    assert guess.asked.gold is None
    assert any("'gold' is not read as gold" in note for note in guess.notes)


def test_an_annotator_called_gold_is_told(tmp_path: Path) -> None:
    found = imported(tmp_path / "a.csv", table(HEADER, [*ROWS, *((item, "gold", "yes") for item in ITEMS)]))
    assert any("annotator 'gold'" in note for note in found.doubtful())


def test_answers_of_more_annotators_than_items_say_what_was_taken_for_what(tmp_path: Path) -> None:
    turned = {who: {item: LABELS[item, who] for item in ITEMS} for who in PEOPLE}
    assert any("3 items such as 'ann'" in note for note in imported(tmp_path / "a.json", json.dumps(turned)).rows.notes)
    ragged = {f"p{n}": {str(k): "ab"[k % 2] for k in range(n, n + 4)} for n in range(3)}
    dense = {f"p{n}": {str(k): "ab"[k * n % 2] for k in range(5)} for n in range(3)}
    for name, content, form in (("b", ragged, "peerannot"), ("c", dense, "cleanlab")):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        guess = guess_file(path)
        assert (guess.form, any("--form peerannot" in note for note in guess.notes)) == (form, form == "cleanlab")


@pytest.mark.parametrize(
    "steps",
    [
        "0% 25% 50% 100%",
        "-1,5 -0,5 0,5 10,5",
        "500 1,000 10,000",
        "<18 18-24 25-64 65+",
        "1/10 2/10 10/10",
        "١ ٢ ١٠",
        "1_never 2_often 10_always",
        "-2_(bad) -1_(poor) 0_(so) +1_(good) +2_(best)",
        "1_star 2_stars 10_stars",
        "grade_2a grade_2b grade_10",
    ],
)
def test_steps_with_numbers_are_in_the_order_of_these(steps: str) -> None:
    labels = [step.replace("_", " ") for step in steps.split()]
    assert in_order(sorted(labels, reverse=True)) == labels
    assert not by_the_alphabet(labels)


def test_grades_and_words_of_any_language_are_in_an_order_that_needs_a_word() -> None:
    assert by_the_alphabet(in_order(["A+", "A", "A-", "B+", "B-"]))
    assert by_the_alphabet(in_order(["stimme zu", "teils/teils", "stimme nicht zu"]))


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        ("1 2 3 4 5 99", "99"),
        ("1 2 3 4 5 8 9", "8 9"),
        ("0 1 2 3 4 5 6 7 8 9", ""),
        ("1 2 3 97 98 99", "97 98 99"),
        ("a 99", ""),
    ],
)
def test_codes_beyond_the_end_of_a_scale_may_be_no_answer(labels: str, codes: str) -> None:
    assert likely_missing(labels.split()) == codes.split()


def test_scale_that_is_told_is_that_of_a_wide_table_too(tmp_path: Path) -> None:
    assert imported(tmp_path / "a.csv", wide(), scale="ordinal").dataset.scale == "ordinal"


def test_numbers_with_fixed_decimals_are_spelled_as_floats_are(tmp_path: Path) -> None:
    column = [Decimal("1.00") if label == "yes" else Decimal("2.50") for _, _, label in ROWS]
    names = {name: [row[place] for row in ROWS] for place, name in enumerate(HEADER)}
    found = imported(tmp_path / "a.parquet", parquet({**names, "label": column}))
    assert found.dataset.class_labels == ("1", "2.5")


def test_an_ordered_categorical_says_the_order_of_its_classes() -> None:
    frame = pd.DataFrame(ROWS, columns=HEADER)
    labels = pd.Categorical(frame["label"].map({"yes": "high", "no": "low"}), ["low", "middle", "high"], ordered=True)
    dataset = cs.load(frame.assign(label=labels)).dataset
    assert (dataset.class_labels, dataset.scale) == (("low", "middle", "high"), "ordinal")
    assert cs.load(frame.assign(label=labels), scale="nominal").dataset.scale == "nominal"
    assert cs.load(frame.assign(label=labels.as_unordered())).dataset.class_labels == ("high", "low")


def test_integers_that_are_too_large_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="too large"):
        cs.load(pd.DataFrame(ROWS, columns=HEADER).assign(item=10**25))


def test_numbers_of_label_studio_are_labels(tmp_path: Path) -> None:
    tasks = [
        {
            "id": n,
            "data": {"text": item},
            "annotators": [7, 8],
            "annotations": [
                {"completed_by": k, "result": [{"from_name": "n", "type": "number", "value": {"number": (n + k) % 3}}]}
                for k in range(3)
            ],
        }
        for n, item in enumerate(ITEMS)
    ]
    assert imported(tmp_path / "a.json", json.dumps(tasks)).dataset.class_labels == ("0", "1", "2")


def test_ratings_of_label_studio_in_rows_are_labels(tmp_path: Path) -> None:
    rows = [(n, k, f"text {n}", [{"rating": 1 + (n + k) % 3}]) for n in range(12) for k in range(3)]
    names = ("id", "annotator", "review", "stars")
    in_json = [dict(zip(names, row, strict=True), annotation_id=n, lead_time=1.5) for n, row in enumerate(rows)]
    in_csv = table(names, [(*row[:3], json.dumps(row[3])) for row in rows])
    found = [imported(tmp_path / "a.csv", in_csv), import_json(tmp_path / "other", in_json)]
    assert [one.dataset.class_labels for one in found] == [("1", "2", "3")] * 2
    assert triples(found[0]) == triples(found[1])


def import_json(folder: Path, content: object) -> Imported:
    folder.mkdir()
    return imported(folder / "a.json", json.dumps(content))


def test_other_columns_that_may_be_answers_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [(i, who, n % 4, label) for n, (i, who, label) in enumerate(ROWS)]
    path.write_text(table(("comment_id", "annotator_id", "sentiment", "hatespeech"), rows))
    assert any(note.startswith("'hatespeech' may be answers as well") for note in guess_file(path).notes)
    path.write_text(table(("comment_id", "annotator_id", "hatespeech", "label"), rows))
    assert not any("as well" in note for note in guess_file(path).notes)


@pytest.mark.parametrize("other", ["yes\u200b", "ye\u00ads", "Yes "])
def test_what_nobody_sees_is_told(tmp_path: Path, other: str) -> None:
    found = imported(tmp_path / "a.csv", table(HEADER, [("doc0", "dan", other), *ROWS]))
    assert any("differ only in spelling" in note for note in found.doubtful())


def test_texts_beside_annotators_are_kept(tmp_path: Path) -> None:
    content = wide(("tweet", lambda n: f"tweet number {n}, of its own"), ("seen_date", lambda n: n % 2))
    found = imported(tmp_path / "a.csv", content)
    assert triples(found) == set(ROWS)
    assert found.rows.text == {item: f"tweet number {n}, of its own" for n, item in enumerate(ITEMS)}


def test_a_rule_on_dates_may_label(tmp_path: Path) -> None:
    content = wide(("has_date", lambda n: of_item(ITEMS[n])[0]))
    assert "has_date" in {who for _, who, _ in triples(imported(tmp_path / "a.csv", content))}


def test_classes_in_lines_of_a_cell_are_several(tmp_path: Path) -> None:
    content = table(HEADER, [("doc0", "dan", "yes\nno"), *ROWS])
    assert any("looks like several classes" in note for note in imported(tmp_path / "a.csv", content).doubtful())
    (tmp_path / "told").mkdir()
    found = imported(tmp_path / "told" / "a.csv", content, scale="multilabel")
    assert triples(found) == {*ROWS, ("doc0", "dan", "yes"), ("doc0", "dan", "no")}


def test_a_file_in_place_of_a_folder_is_sent_to_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(PLAIN)
    for name in ("a.csv", str(tmp_path / "a.csv")):
        with pytest.raises(DataError, match=r"got a file; `crowdsweep init .*a\.csv` makes one of it"):
            cs.load(name)


def test_a_matrix_of_its_names_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,ann,bob\n" * 2)
    with pytest.raises(DataError, match="rows with answers below the first line, got its names once more"):
        read_form("cleanlab", path)
