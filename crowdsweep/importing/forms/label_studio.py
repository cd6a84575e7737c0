"""Reads Label Studio's exports: JSON (tasks, in a list or one per line) and JSON_MIN (one row per annotation).

[{"id": 1, "data": {"text": "…"}, "annotations": [
  {"completed_by": 5, "was_cancelled": false, "result": [
    {"from_name": "mood", "type": "choices", "value": {"choices": ["happy"]}}]}]}]

[{"id": 1, "text": "…", "mood": "happy", "annotator": 5},
 {"id": 1, "text": "…", "mood": {"choices": ["happy", "calm"]}, "annotator": 6}]
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk.json_text import an_object, objects, part
from crowdsweep.data.on_disk.shown import text_in
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.ids import Ids
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, one_question, text_of
from crowdsweep.importing.several import chosen_in

# Keys of a row of JSON_MIN besides the task's data and the answers.
_MIN_KEYS = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement")


def read_label_studio(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads choices, ratings, numbers and pairwise selections; cancelled annotations are left out and counted.

    Raises:
        DataError: a task or an annotation is invalid; the message says which one, and at which key.
    """
    _, first = next(objects(path), (0, {}))
    if "annotations" in first or "data" in first:
        return _read_tasks(path, asked)
    if "id" in first and "annotator" in first:
        return _read_min(path, asked)
    keys = ", ".join(list(first)[:8]) or "none"
    raise DataError(
        f"{path}: expected a JSON list of tasks, or a task a line, each with data and annotations (JSON_MIN: id and "
        f"annotator), got an object with the keys: {keys}; export from Label Studio as JSON"
    )


def _read_tasks(path: Path, asked: FileOptions) -> ImportedRows:
    gathered, ids, question = RowCollector(path, asked.missing), Ids(path, "task", asked.missing), asked.question
    questions: dict[str, str] = {}  # what each question is about
    names: dict[str, str] = {}
    other: set[str] = set()
    trusted: dict[str, set[tuple[str, ...]]] = {}
    for position, task in objects(path):
        name = ids.once(task, ("id",), position)
        where = f"{path}, task {name}"
        data = part(task.get("data"), dict, f"{where}, data")
        item = gathered.item(name, where, text_in(data))
        gathered.show(item, data, id=task.get("id"))
        for number, annotation in enumerate(part(task.get("annotations"), list, f"{where}, annotations")):
            place = f"{where}, annotations.{number}"
            if an_object(annotation, place).get("was_cancelled"):
                gathered.leave_out("cancelled annotations")
                continue
            answers = dict(_answers(annotation, place, question, other, questions))
            if not answers:
                gathered.leave_out("annotations without an answer" + (f" to {question}" if question else ""))
                continue
            who = _who(annotation, place, names, asked.missing)
            for key, labels in answers.items():
                if annotation.get("ground_truth") is True:
                    known = {text_of(label, "a label", f"{place}, {key}", asked.missing) for label in labels}
                    trusted.setdefault(item, set()).add(tuple(sorted(known)))
                else:
                    gathered.answer(item, who, labels, place, key=key)
    if other and not questions:
        raise DataError(
            f"{path}: expected classes (choices, ratings, pairwise selections), got {', '.join(sorted(other))}: spans, "
            f"regions, relations, texts and paths of a taxonomy are not read; ask by <Choices>, or save a table with a "
            f"row an answer, whose label is the class"
        )
    others = f", but {', '.join(sorted(other))}" if other else ""
    gathered.question = one_question(path, list(questions), question, others)
    gathered.about = questions[gathered.question]
    gold = {item: next(iter(known)) for item, known in trusted.items() if len(known) == 1}
    if trusted:
        gathered.notes.append(
            f"annotations that are marked as ground truth are gold, and not among the answers: of {len(gold)} items"
        )
    if clashes := [item for item, known in trusted.items() if len(known) > 1]:
        gathered.notes.append(
            f"{len(clashes)} items have several ground truths that differ, and no gold ({', '.join(clashes[:5])})"
        )
    several = any(len(known) > 1 for known in gold.values())
    return gathered.imported(multilabel=True if several else None, gold=gold, names=names)


def _answers(
    annotation: Mapping[str, Any], where: str, question: str | None, other: set[str], questions: dict[str, str]
) -> Iterator[tuple[str, list[Any]]]:
    """Yields (question, classes) of an annotation.

    Adds kinds of results that are no classes to `other`, and each question with what it is about to `questions`.
    """
    seen: set[str] = set()
    for number, result in enumerate(part(annotation.get("result"), list, f"{where}, result")):
        place = f"{where}, result.{number}"
        given = part(an_object(result, place).get("value"), dict, f"{place}, value")
        kind, name = result.get("type"), str(result.get("from_name", ""))
        if "choices" in given:
            labels = part(given["choices"], list, f"{place}, value.choices")
        elif key := next((key for key in ("rating", "number", "selected") if key in given), None):
            labels = [given[key]]
        else:
            other.add(str(kind))
            continue
        if not labels or (question is not None and name != question):
            continue
        if name in seen:
            raise DataError(
                f"{place}: expected one answer to {name} in an annotation, got a second one; answers about regions are "
                f"answers about other items: make a task of each region"
            )
        seen.add(name)
        questions.setdefault(name, str(result.get("to_name", "")))
        yield name, labels


def _who(annotation: Mapping[str, Any], where: str, names: dict[str, str], missing: MissingValues) -> str:
    """Returns the id of the annotator, and keeps in `names` the e-mail address that some annotations add to it."""
    who = annotation.get("completed_by")
    if isinstance(who, dict):
        email, key = who.get("email"), who.get("id", who.get("email"))
        name = text_of(key, "an id or an email", f"{where}, completed_by", missing)
        if isinstance(email, str) and email:
            names[name] = text_of(email, "an email", f"{where}, completed_by.email", missing)
        return name
    return text_of(who, "who answered", f"{where}, completed_by", missing)


def _read_min(path: Path, asked: FileOptions) -> ImportedRows:
    key, of_items = _min_keys(path, asked.question)
    gathered, ids = RowCollector(path, asked.missing), Ids(path, "row", asked.missing)
    gathered.question = key
    for position, row in objects(path):
        where = f"{path}, row {position}"
        data = {name: row[name] for name in of_items if name in row}
        item = gathered.item(ids.of(row, ("id",), position), where, text_in(data))
        gathered.show(item, data, id=row.get("id"))
        given = chosen_in(row.get(key))
        if isinstance(given, dict):
            given = part(given.get("choices"), list, f"{where}, {key}.choices")
        labels = given if isinstance(given, list) else [given]
        if given in (None, "", []):
            gathered.leave_out(f"annotations without an answer to {key}")
            continue
        gathered.answer(item, row.get("annotator"), labels, where, key=key)
    return gathered.imported()


def _min_keys(path: Path, question: str | None) -> tuple[str, list[str]]:
    """Returns the key of the answers, and the keys of a task's data, which is the same in all rows of the task."""
    first: dict[tuple[str, str], str] = {}
    keys: dict[str, None] = {}
    differing: dict[str, None] = {}
    for _, row in objects(path):
        for key, value in row.items():
            if key not in _MIN_KEYS:
                keys[key] = None
                if first.setdefault((key, shown(row.get("id"))), str(value)[:500]) != str(value)[:500]:
                    differing[key] = None
    if question is not None or len(differing) == 1:
        key = one_question(path, list(keys), question or next(iter(differing)))
    else:
        key = one_question(path, list(differing or keys), question)
    return key, [name for name in keys if name != key and name not in differing]
