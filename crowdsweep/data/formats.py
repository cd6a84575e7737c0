"""Reads crowd labels in the forms that other tools write, as plain rows.

Every reader returns `ImportedRows`: strings as they stood in the file, nothing coded yet. `write_rows` turns them into
a dataset folder, which `folder.read_folder` then checks like any other.

| form | file | a missing answer |
| --- | --- | --- |
| `crowd-kit` | table `task,worker,label` | absent row |
| `matrix` | items × annotators, text, CSV or .npy | -1, NaN or an empty cell |
| `snorkel` | label matrix, items × labelling functions | -1 (abstain), NaN or an empty cell |
| `peerannot` | `answers.json`: item → annotator → label | absent key |
| `label-studio` | JSON export: tasks with annotations of choices | absent, or cancelled |
| `argilla` | JSON export: records with responses | absent, or not submitted |
| `mturk` | results CSV: `HITId`, `WorkerId`, `Input.…`, `Answer.…` | empty cell |
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from crowdsweep.errors import DataError, UnknownName


@dataclass(frozen=True, kw_only=True)
class ImportedRows:
    """Labels as they stood in a file.

    Attributes:
        rows: (item, annotator, label); a multi-label answer joins its classes by `|`.
        items: every item in the order of the file, those without an answer too.
        text: of items, where the file has it.
        multilabel: whether an answer may name several classes.
    """

    rows: Sequence[tuple[str, str, str]]
    items: Sequence[str]
    text: Mapping[str, str] = field(default_factory=dict)
    multilabel: bool = False


def read_form(form: str, path: Path, question: str | None = None) -> ImportedRows:
    """Reads a file in one of the forms above.

    Args:
        form: a key of ONE_QUESTION_FORMS or QUESTIONED_FORMS.
        path: the file.
        question: which question of a form with several (`label-studio`, `argilla`, `mturk`); needed only there.

    Raises:
        UnknownName: no such form.
        DataError: the file is missing, empty, not text, or not of that form; says where.
    """
    if form not in {**ONE_QUESTION_FORMS, **QUESTIONED_FORMS}:
        raise UnknownName("form", form, [*ONE_QUESTION_FORMS, *QUESTIONED_FORMS])
    if question is not None and form not in QUESTIONED_FORMS:
        raise DataError(f"{path}: a file of the form {form} holds one question; leave --question out")
    if not path.is_file():
        raise DataError(f"{path}: expected a file to import, found none")
    try:
        if form in ONE_QUESTION_FORMS:
            imported = ONE_QUESTION_FORMS[form](path)
        else:
            imported = QUESTIONED_FORMS[form](path, question)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, byte {error.start}: expected UTF-8 text; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}, column {error.colno}: expected JSON: {error.msg}") from error
    if not imported.rows:
        raise DataError(f"{path}: expected at least one label, found none")
    return imported


def write_rows(imported: ImportedRows, folder: Path, title: str = "") -> None:
    """Writes a dataset folder: annotations.csv, items.csv, classes.csv, dataset.yaml.

    Raises:
        DataError: the folder exists and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder}: expected a new or empty folder, found files; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / "annotations.csv", ("item", "annotator", "label"), imported.rows)
    with_text = bool(imported.text)
    _write_csv(
        folder / "items.csv",
        ("item", "text") if with_text else ("item",),
        ((item, imported.text.get(item, "")) if with_text else (item,) for item in imported.items),
    )
    answers = (label for _, _, label in imported.rows)
    used = {part for label in answers for part in (label.split("|") if imported.multilabel else (label,))}
    _write_csv(folder / "classes.csv", ("label", "name"), ((label, label) for label in sorted(used, key=_natural)))
    about = {
        "name": folder.name,
        "title": title or folder.name,
        "scale": "multilabel" if imported.multilabel else "nominal",
    }
    (folder / "dataset.yaml").write_text(yaml.safe_dump(about, sort_keys=False, allow_unicode=True), encoding="utf-8")


def read_crowd_kit(path: Path) -> ImportedRows:
    """Reads a table with the columns task, worker, label; a missing label is refused with its line."""
    rows: list[tuple[str, str, str]] = []
    for line, record in _records(path, ("task", "worker", "label")):
        row = (record["task"], record["worker"], record["label"])
        if any(_is_missing(cell) for cell in row):
            raise DataError(
                f"{path}, line {line}: expected task, worker and label, got {row}; remove the row or fill it"
            )
        rows.append(row)
    return ImportedRows(rows=rows, items=list(dict.fromkeys(row[0] for row in rows)))


def read_matrix(path: Path) -> ImportedRows:
    """Reads an items × annotators matrix of class codes; items and annotators are called by their position."""
    return _from_matrix(path, annotator_prefix="")


def read_snorkel(path: Path) -> ImportedRows:
    """Reads a label matrix; annotators are called lf0, lf1, …"""
    return _from_matrix(path, annotator_prefix="lf")


def read_peerannot(path: Path) -> ImportedRows:
    """Reads `answers.json`: {item: {annotator: label}}."""
    content = _json(path)
    if not isinstance(content, dict) or not all(isinstance(given, dict) for given in content.values()):
        raise DataError(f"{path}: expected an object of items, each an object of annotator: label")
    rows = [
        (item, annotator, _label(label, f"{path}, item {item}, annotator {annotator}"))
        for item, given in content.items()
        for annotator, label in given.items()
    ]
    return ImportedRows(rows=rows, items=list(content))


def read_label_studio(path: Path, question: str | None) -> ImportedRows:
    """Reads an export of tasks whose annotations hold choices; cancelled annotations are left out."""
    rows: list[tuple[str, str, str]] = []
    items: list[str] = []
    text: dict[str, str] = {}
    questions: set[str] = set()
    multilabel = False
    for position, task in enumerate(_list_of_objects(path)):
        item = str(task.get("id", position))
        items.append(item)
        shown = task.get("data", {}).get("text")
        if isinstance(shown, str):
            text[item] = shown
        for annotation in task.get("annotations", ()):
            if annotation.get("was_cancelled"):
                continue
            who = annotation.get("completed_by", "unknown")
            annotator = str(who.get("email") or who.get("id")) if isinstance(who, dict) else str(who)
            for result in annotation.get("result", ()):
                choices = result.get("value", {}).get("choices")
                name = str(result.get("from_name", ""))
                if not choices or (question is not None and name != question):
                    continue
                questions.add(name)
                multilabel |= len(choices) > 1
                rows.append((item, annotator, "|".join(sorted(map(str, choices)))))
    _one_question(path, questions, question)
    return ImportedRows(rows=rows, items=items, text=text, multilabel=multilabel)


def read_argilla(path: Path, question: str | None) -> ImportedRows:
    """Reads an export of records whose responses hold labels; drafts and discarded responses are left out."""
    rows: list[tuple[str, str, str]] = []
    items: list[str] = []
    text: dict[str, str] = {}
    questions: set[str] = set()
    multilabel = False
    for position, record in enumerate(_list_of_objects(path)):
        item = str(record.get("id") or record.get("external_id") or position)
        items.append(item)
        shown = record.get("fields", record).get("text")
        if isinstance(shown, str):
            text[item] = shown
        for name, responses in (record.get("responses") or {}).items():
            if question is not None and name != question:
                continue
            questions.add(name)
            for response in responses:
                value = response.get("value")
                if value is None or response.get("status", "submitted") != "submitted":
                    continue
                several = isinstance(value, list)
                multilabel |= several
                label = "|".join(sorted(map(str, value))) if several else _label(value, f"{path}, record {item}")
                rows.append((item, str(response.get("user_id", "unknown")), label))
    _one_question(path, questions, question)
    return ImportedRows(rows=rows, items=items, text=text, multilabel=multilabel)


def read_mturk(path: Path, question: str | None) -> ImportedRows:
    """Reads a results file; an item is `Input.id` where there is one, else the HIT."""
    records = list(_records(path, ("WorkerId",)))
    if not records:
        raise DataError(f"{path}: expected at least one row below the header")
    columns = list(records[0][1])
    answer = _answer_column(path, columns, question)
    item_column = next((name for name in ("Input.id", "HITId") if name in columns), None)
    if item_column is None:
        raise DataError(f"{path}: expected a column Input.id or HITId, got {', '.join(columns)}")
    text_column = next((name for name in columns if name.startswith("Input.") and name != "Input.id"), None)
    rows: list[tuple[str, str, str]] = []
    text: dict[str, str] = {}
    items: dict[str, None] = {}
    for line, record in records:
        item, annotator, label = record[item_column], record["WorkerId"], record[answer]
        if _is_missing(item) or _is_missing(annotator):
            raise DataError(f"{path}, line {line}: expected {item_column} and WorkerId, got {item!r} and {annotator!r}")
        items[item] = None
        if text_column is not None:
            text[item] = record[text_column]
        if not _is_missing(label):
            rows.append((item, annotator, label))
    return ImportedRows(rows=rows, items=list(items), text=text)


ONE_QUESTION_FORMS: Mapping[str, Callable[[Path], ImportedRows]] = {
    "crowd-kit": read_crowd_kit,
    "matrix": read_matrix,
    "snorkel": read_snorkel,
    "peerannot": read_peerannot,
}
QUESTIONED_FORMS: Mapping[str, Callable[[Path, str | None], ImportedRows]] = {
    "label-studio": read_label_studio,
    "argilla": read_argilla,
    "mturk": read_mturk,
}


def _from_matrix(path: Path, annotator_prefix: str) -> ImportedRows:
    cells, names = _matrix_cells(path)
    rows: list[tuple[str, str, str]] = []
    for item, line in enumerate(cells):
        if len(line) != len(names):
            raise DataError(f"{path}, item {item}: expected {len(names)} cells as in the first row, got {len(line)}")
        for name, cell in zip(names, line, strict=True):
            if not _is_missing(cell) and cell not in ("-1", "-1.0"):
                rows.append((str(item), annotator_prefix + name, _whole(cell)))
    return ImportedRows(rows=rows, items=[str(item) for item in range(len(cells))])


def _matrix_cells(path: Path) -> tuple[list[list[str]], list[str]]:
    """Returns the cells as text and the annotators' names: those of a header line, else positions."""
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        if array.ndim != 2:
            raise DataError(f"{path}: expected a matrix of items × annotators, got shape {array.shape}")
        return [[str(cell) for cell in row] for row in array.tolist()], [str(j) for j in range(array.shape[1])]
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{path}: expected a matrix, the file is empty")
    separated = "," in lines[0]
    cells = list(csv.reader(lines)) if separated else [line.split() for line in lines]
    cells = [[cell.strip() for cell in row] for row in cells]
    if all(_is_number(cell) or _is_missing(cell) for cell in cells[0]):
        return cells, [str(j) for j in range(len(cells[0]))]
    return cells[1:], cells[0]


def _records(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, record) of a CSV or TSV with a header that has these columns."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        head = file.readline()
        file.seek(0)
        reader = csv.DictReader(file, delimiter="\t" if "\t" in head else ",")
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            found = ", ".join(reader.fieldnames or ()) or "an empty file"
            raise DataError(f"{path}: expected the columns {', '.join(columns)}, got {found}")
        for record in reader:
            if None in record or None in record.values():
                raise DataError(f"{path}, line {reader.line_num}: expected {len(reader.fieldnames or ())} cells")
            yield reader.line_num, record


def _answer_column(path: Path, columns: Sequence[str], question: str | None) -> str:
    answers = [name for name in columns if name.startswith("Answer.")]
    if question is not None:
        wanted = question if question.startswith("Answer.") else f"Answer.{question}"
        if wanted not in answers:
            raise UnknownName("question", question, answers, where=str(path))
        return wanted
    if len(answers) != 1:
        raise DataError(
            f"{path}: expected one column Answer.…, got {', '.join(answers) or 'none'}; choose by --question"
        )
    return answers[0]


def _one_question(path: Path, found: set[str], question: str | None) -> None:
    if question is not None and question not in found:
        raise DataError(
            f"{path}: expected answers to the question {question!r}, found none; leave --question out to see"
        )
    if len(found) > 1:
        raise DataError(f"{path}: expected one question, got {', '.join(sorted(found))}; choose one by --question")


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8-sig"))


def _list_of_objects(path: Path) -> list[dict[str, Any]]:
    content = _json(path)
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise DataError(f"{path}: expected a JSON list of objects, got {type(content).__name__}")
    return content


def _label(value: object, where: str) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)) or isinstance(value, (dict, list)):
        raise DataError(f"{where}: expected a label, got {value!r}")
    return _whole(str(value))


def _whole(cell: str) -> str:
    """Returns `3` for `3.0`: matrices with NaN hold their codes as floats."""
    return str(int(float(cell))) if _is_number(cell) and float(cell).is_integer() else cell


def _is_number(cell: str) -> bool:
    try:
        return np.isfinite(float(cell)).item()
    except ValueError:
        return False


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in ("", "nan")  # "none" and "na" are labels that people use


def _natural(label: str) -> tuple[int, float, str]:
    return (0, float(label), label) if _is_number(label) else (1, 0.0, label)


def _write_csv(path: Path, header: Sequence[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
