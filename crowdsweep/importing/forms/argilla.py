"""Reads Argilla's exports, version 1 and 2: records with responses by question, by user, or as flat columns.

[{"id": "r1", "fields": {"text": "…"},
  "responses": {"mood": [{"value": "happy", "user_id": "u1", "status": "submitted"}]}}]

[{"id": "r1", "fields": {"text": "…"},
  "responses": [{"user_id": "u1", "status": "submitted", "values": {"mood": {"value": "happy"}}}]}]

[{"id": "r1", "text": "…", "mood.responses": ["happy"], "mood.responses.users": ["u1"],
  "mood.responses.status": ["submitted"]}]
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crowdsweep.data.on_disk.json_text import an_object, objects, part
from crowdsweep.data.on_disk.shown import text_in
from crowdsweep.errors import DataError
from crowdsweep.importing.ids import Ids
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, one_question

_FLAT = ".responses"


class _Response(NamedTuple):
    question: str
    value: Any
    user: Any
    status: Any
    where: str


def read_argilla(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads labels and ratings; drafts and discarded responses are left out and counted.

    Raises:
        DataError: a record or a response is invalid; the message says which one, and at which key.
    """
    gathered, ids = RowCollector(path, asked.missing), Ids(path, "record", asked.missing)
    questions: dict[str, None] = {}
    multilabel = False
    for position, record in objects(path):
        name = ids.once(record, ("id", "external_id"), position)
        where = f"{path}, record {name}"
        fields = part(record["fields"], dict, f"{where}, fields") if "fields" in record else record
        of_item = fields if "fields" in record else {"text": fields["text"]} if "text" in fields else {}
        item = gathered.item(name, where, text_in(of_item))
        gathered.show(item, of_item)
        for given in _responses(record, where, questions):
            if asked.question is not None and given.question != asked.question:
                continue
            if given.status not in (None, "submitted"):
                gathered.leave_out(f"responses that are {given.status}")
            elif given.value is None:
                gathered.leave_out("responses without a value")
            else:
                several = isinstance(given.value, list)
                multilabel |= several
                gathered.answer(item, given.user, given.value if several else [given.value], given.where, key="value")
    gathered.question = one_question(path, list(questions), asked.question)
    return gathered.imported(multilabel=multilabel)


def _responses(record: Mapping[str, Any], where: str, questions: dict[str, None]) -> Iterator[_Response]:
    """Yields the responses of a record in any of the forms; adds every question, answered or not, to `questions`."""
    given = record.get("responses")
    if isinstance(given, list):
        yield from _by_user(given, where, questions)
    elif given is not None:
        for question, responses in part(given, dict, f"{where}, responses").items():
            questions[question] = None
            place = f"{where}, responses.{question}"
            for number, response in enumerate(part(responses, list, place)):
                entry = an_object(response, f"{place}.{number}")
                yield _Response(question, *_of(entry), f"{place}.{number}")
    for key, values in record.items():
        if key.endswith(_FLAT):
            question = key.removesuffix(_FLAT)
            questions[question] = None
            columns = [values, record.get(f"{key}.users"), record.get(f"{key}.status")]
            yield from _side_by_side(question, columns, f"{where}, {key}")
        elif "responses" not in record and (columns := _columns(values)) is not None:
            questions[key] = None
            yield from _side_by_side(key, columns, f"{where}, {key}")


def _of(entry: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return entry.get("value"), entry.get("user_id"), entry.get("status")


def _by_user(responses: list[Any], where: str, questions: dict[str, None]) -> Iterator[_Response]:
    for number, response in enumerate(responses):
        place = f"{where}, responses.{number}"
        entry = an_object(response, place)
        for question, value in part(entry.get("values"), dict, f"{place}, values").items():
            questions[question] = None
            given = part(value, dict, f"{place}, values.{question}").get("value")
            yield _Response(question, given, entry.get("user_id"), entry.get("status"), f"{place}, {question}")


def _columns(value: Any) -> list[Any] | None:
    """Returns values, users and statuses of a question in a Hugging Face dataset of Argilla 1; None for other data."""
    if isinstance(value, dict) and {"user_id", "value", "status"} <= set(value):
        return [value["value"], value["user_id"], value["status"]]
    if isinstance(value, list) and value and all(isinstance(entry, dict) and "user_id" in entry for entry in value):
        return [[entry.get(key) for entry in value] for key in ("value", "user_id", "status")]
    return None


def _side_by_side(question: str, columns: list[Any], where: str) -> Iterator[_Response]:
    values = part(columns[0], list, where)
    users = part(columns[1], list, f"{where}, users")
    statuses = part(columns[2], list, f"{where}, status") or [None] * len(values)
    if not len(values) == len(users) == len(statuses):
        got = f"{len(values)} values, {len(users)} users and {len(statuses)} statuses"
        raise DataError(f"{where}: expected a user and a status for each value, got {got}; export it again")
    for number, (value, user, status) in enumerate(zip(values, users, statuses, strict=True)):
        yield _Response(question, value, user, status, f"{where}.{number}")
