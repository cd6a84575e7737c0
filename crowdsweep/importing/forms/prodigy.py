"""Reads Prodigy's `db-out`: one answer per line, with chosen options or with one label that is accepted or rejected.

{"text": "…", "_input_hash": 7, "_annotator_id": "mood-ann", "accept": ["happy"], "answer": "accept"}
{"text": "…", "_input_hash": 7, "_annotator_id": "mood-bob", "label": "happy", "answer": "reject"}
"""

from pathlib import Path
from typing import Any

from crowdsweep.data.on_disk.json_text import objects, part
from crowdsweep.data.on_disk.shown import text_in
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, one_question

_SHOWN = ("text", "html", "image", "audio", "video")


def read_prodigy(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads choices (`accept` and `options`) or accepted and rejected labels; ignored answers are left out and counted.

    An `_input_hash` identifies an item, an `_annotator_id` (in older exports a `_session_id`) an annotator. If several
    labels were asked for one by one, each is a question.

    Raises:
        DataError: a line is invalid; the message says which line, and at which key.
    """
    choices = any("accept" in record for _, record in objects(path))
    question = None if choices else _label_asked(path, asked.question)
    gathered = RowCollector(path, asked.missing)
    gathered.question = question or ""
    multilabel = False
    for position, record in objects(path):
        where = f"{path}, entry {position}"
        data = {name: record[name] for name in _SHOWN if name in record}
        item = gathered.item(record.get("_input_hash"), f"{where}, _input_hash", text_in(data))
        gathered.show(item, data)
        answer = record.get("answer", "accept")
        if answer not in ("accept", "reject", "ignore"):
            raise DataError(f"{where}, answer: expected accept, reject or ignore, got {shown(answer)}; correct it")
        if answer == "ignore" or (choices and answer == "reject"):
            gathered.leave_out("ignored answers" if answer == "ignore" else "rejected answers")
            continue
        who = record.get("_session_id") if record.get("_annotator_id") is None else record["_annotator_id"]
        if who is None:
            raise DataError(
                f"{where}, _annotator_id: expected who answered, got null; annotate in named sessions (?session=NAME)"
            )
        if choices:
            labels: list[Any] = part(record.get("accept"), list, f"{where}, accept")
            multilabel |= len(labels) > 1
            gathered.answer(item, who, labels, where, key="accept")
        elif record.get("label") == question:
            gathered.answer(item, who, [answer], where)
    return gathered.imported(multilabel=multilabel)


def _label_asked(path: Path, question: str | None) -> str:
    """Returns the label that was accepted or rejected, which is the question to read."""
    found: dict[str, None] = {}
    for position, record in objects(path):
        label = record.get("label")
        if not isinstance(label, str):
            raise DataError(
                f"{path}, entry {position}: expected accept (choices) or label (accepted or rejected), got the keys "
                f"{', '.join(list(record)[:8])}; spans and relations are not classes"
            )
        found[label] = None
    return one_question(path, list(found), question)
