"""Reads Mechanical Turk's results: one row per assignment, with its answers in columns `Answer.…`.

    HITId,WorkerId,AssignmentStatus,Input.text,Answer.mood
    h1,A1,Approved,good film,happy
    h1,A2,Rejected,good film,sad            left out, and counted

Each radio button or check box has a column (`Answer.mood.happy`: true); crowd-HTML forms are JSON in
`Answer.taskAnswers`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk.json_text import part
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, one_question

_ANSWER, _FORM, _INPUT = "Answer.", "Answer.taskAnswers", "Input."
_SWITCH = {"true": True, "on": True, "false": False, "off": False, "": False}
Options = Mapping[str, str]


def read_mturk(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads a results file; `Input.id` identifies an item or, if there is no such column, the HIT.

    Raises:
        DataError: a column is missing, there are several questions and none was chosen, or a form's answers are not
            JSON; the message says at which line.
    """
    columns = header_of(path)
    item_column = next((name for name in ("Input.id", "HITId") if name in columns), None)
    if item_column is None:
        raise DataError(f"{path}: expected a column Input.id or HITId, got {', '.join(columns) or 'an empty file'}")
    inputs = [name for name in columns if name.startswith(_INPUT) and name != "Input.id"]
    text_column = next(iter(inputs), None)
    questions = _questions(path, columns)
    asked_for = None if asked.question is None else asked.question.removeprefix(_ANSWER)
    question = one_question(path, list(questions), asked_for)
    gathered = RowCollector(path, asked.missing)
    gathered.question = question
    for where, record in records(path, [item_column, "WorkerId"]):
        text = None if text_column is None else record[text_column]
        item = gathered.item(record[item_column], f"{where}, column {item_column}", text)
        gathered.show(item, {name.removeprefix(_INPUT): record[name] for name in inputs})
        if record.get("AssignmentStatus", "").strip().lower() == "rejected" or record.get("Reject", "").strip():
            gathered.leave_out("rejected assignments")
            continue
        labels = _chosen(record, question, questions[question], where, asked.missing)
        if labels:
            gathered.answer(item, record["WorkerId"], labels, where, key=question)
        else:
            gathered.leave_out(f"assignments without an answer to {question}")
    return gathered.imported()


def _questions(path: Path, columns: list[str]) -> dict[str, Options]:
    """Returns the questions, each with its columns by option.

    A question with one column has the option `""`; a question of a form has no columns.
    """
    switches = {name for name in columns if name.startswith(_ANSWER) and "." in name.removeprefix(_ANSWER)}
    in_form: dict[str, Options] = {}
    for where, record in records(path, ["WorkerId"]):
        switches = {name for name in switches if record[name].strip().lower() in _SWITCH}
        if _FORM in record:
            in_form |= {question: {} for question in _form(record[_FORM], where)}
    found: dict[str, dict[str, str]] = {}
    for name in columns:
        if name.startswith(_ANSWER) and name != _FORM:
            question, _, option = name.removeprefix(_ANSWER).rpartition(".")
            if name in switches:
                found.setdefault(question, {})[option] = name
            else:
                found[name.removeprefix(_ANSWER)] = {"": name}
    for question, options in list(found.items()):
        (option, *others), (column, *_) = options, options.values()
        if option and not others:  # a single check box is a question of its own: true or false
            del found[question]
            found[f"{question}.{option}"] = {"": column}
    return {**found, **in_form}


def _chosen(
    record: Mapping[str, str], question: str, options: Options, where: str, missing: MissingValues
) -> list[Any]:
    """Returns the classes that an assignment chose."""
    if not options:
        return list(_labels(_form(record[_FORM], where).get(question), f"{where}, {_FORM}.{question}"))
    if "" in options:
        return [] if missing(record[options[""]]) else [record[options[""]]]
    return [option for option, column in options.items() if _SWITCH[record[column].strip().lower()]]


def _form(cell: str, where: str) -> dict[str, Any]:
    """Returns the answers of a crowd-HTML form, by question."""
    if not cell.strip():
        return {}
    try:
        given = json.loads(cell)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}, {_FORM}: expected JSON, got {shown(cell)}; download the results again") from error
    forms = given if isinstance(given, list) else [given]
    answers: dict[str, Any] = {}
    for form in forms:
        answers |= part(form, dict, f"{where}, {_FORM}")
    return answers


def _labels(given: Any, where: str) -> Iterator[Any]:
    """Yields the classes of an answer to a classifier, a group of buttons or a field."""
    if isinstance(given, dict) and "label" in given:
        given = given["label"]
    elif isinstance(given, dict) and "labels" in given:
        given = given["labels"]
    if isinstance(given, dict):
        if not all(isinstance(on, bool) for on in given.values()):
            raise DataError(
                f"{where}: expected a class, or true and false for each, got {shown(given)}; it is not a choice"
            )
        yield from (name for name, on in given.items() if on)
    elif isinstance(given, list):
        yield from given
    elif given not in (None, ""):
        yield given
