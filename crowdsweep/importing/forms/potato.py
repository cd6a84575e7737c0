"""Potato's annotated instances: a row for each user and instance, a column `QUESTION:::OPTION` for each option.

user,instance_id,displayed_text,mood:::happy,mood:::sad
ann,1,good film,1,
bob,1,good film,,2                  whatever stands in the column of an option, it was chosen
"""

from collections.abc import Mapping
from pathlib import Path

from crowdsweep.errors import DataError
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.rows import Asked, Gathering, ImportedRows, one_question

SEPARATOR = ":::"
_USER, _ITEM, _TEXT = "user", "instance_id", "displayed_text"
_NOT_CHOSEN = ("", "false", "0")
_FREE_TEXT = ("text_box", "free_response")


def read_potato(path: Path, asked: Asked) -> ImportedRows:
    """Reads the options that were chosen of one question; what was typed is no class.

    Raises:
        DataError: a column is missing, or several questions are there and none was chosen.
    """
    header = header_of(path)
    questions: dict[str, dict[str, str]] = {}
    for name in header:
        question, separator, option = name.partition(SEPARATOR)
        if separator and option not in _FREE_TEXT:
            questions.setdefault(question, {})[name] = option
    lacking = [name for name in (_USER, _ITEM) if name not in header]
    if lacking:
        raise DataError(
            f"{path}: expected the columns {_USER} and {_ITEM} beside those of the options ({SEPARATOR}), got "
            f"{', '.join(header[:12])}; rename them"
        )
    question = one_question(path, list(questions), asked.question)
    gathered = Gathering(path, asked.missing)
    gathered.question = question
    for where, record in records(path, [_USER, _ITEM], lambda: gathered.leave_out("rows without anything in them")):
        item = gathered.item(record[_ITEM], f"{where}, column {_ITEM}", record.get(_TEXT))
        labels = _chosen(record, questions[question])
        if labels:
            gathered.answer(item, record[_USER], labels, where, key=question)
        else:
            gathered.leave_out(f"rows without an answer to {question}")
    return gathered.imported()


def _chosen(record: Mapping[str, str], options: Mapping[str, str]) -> list[str]:
    return [option for name, option in options.items() if record[name].strip().lower() not in _NOT_CHOSEN]
