"""Reads Potato's annotated instances: one row per user and instance, one column `QUESTION:::OPTION` per option.

user,instance_id,displayed_text,mood:::happy,mood:::sad
ann,1,good film,1,
bob,1,good film,,2                  any value but false and 0 in the column of an option means that it was chosen
"""

from collections.abc import Mapping
from pathlib import Path

from crowdsweep.errors import DataError
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, one_question

SEPARATOR = ":::"
_USER, _ITEM, _TEXT = "user", "instance_id", "displayed_text"
_NOT_CHOSEN = ("", "false", "0")
_FREE_TEXT = ("text_box", "free_response")


def read_potato(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads the chosen options of one question; typed text is no class and is not read.

    Raises:
        DataError: a column is missing, or there are several questions and none was chosen.
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
    gathered = RowCollector(path, asked.missing)
    gathered.question = question
    for where, record in records(path, [_USER, _ITEM], gathered.leave_out):
        item = gathered.item(record[_ITEM], f"{where}, column {_ITEM}", record.get(_TEXT))
        labels = _chosen(record, questions[question])
        if labels:
            gathered.answer(item, record[_USER], labels, where, key=question)
        else:
            gathered.leave_out(f"rows without an answer to {question}")
    return gathered.imported()


def _chosen(record: Mapping[str, str], options: Mapping[str, str]) -> list[str]:
    return [option for name, option in options.items() if record[name].strip().lower() not in _NOT_CHOSEN]
