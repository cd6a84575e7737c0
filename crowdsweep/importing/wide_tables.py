"""Tables with a column per annotator: which columns these are, and what stands beside and below them.

id,text,ann,bob,ann_seconds,majority      items, texts, two annotators; times and votes are nobody's answers
p1,good film,pos,neg,3.2,pos
total,,1,1,,                              no item
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from crowdsweep.importing.column_words import TEXTS, is_gold, says, surely_annotators, words_of
from crowdsweep.importing.roles import FEW, MOST_CLASSES, Table

_BESIDE = (  # of columns that are nobody's answers
    *("timestamp", "duration", "confidence", "conf", "certainty", "comment", "remark"),
    *("majority", "consensus", "aggregated", "agreement", "agree", "disagreement", "entropy", "kappa"),
)
_TIMES = ("time", "date")  # also in names of rules that label: such a column may hold answers
_TEXTS = "nearly every cell is different, as in texts or ids, and not in classes"
_BY_NAME = "as their names say, they hold times, certainties or votes, and no annotator's answers"
_TOTALS = ("total", "sum", "mean", "average", "count", "gesamt", "summe", "somme", "suma", "totale", "итого", "合计")
_FEWEST_ANSWERS = 10  # with fewer answers, nothing can be said of their differing
_FEWEST_ROWS = 5
_DIGITS = re.compile(r"[0-9]+")


def wide_columns(table: Table) -> tuple[str | None, str | None] | None:
    """Returns the columns of item ids and of gold in a table with a column per annotator; None for any other table.

    Either column is None if there is none. Annotators answer with one small set of classes, so each of their columns
    shares most of its values with other columns; ids and texts do not.
    """
    gold = [name for name in table.header if is_gold(name)]
    rest = [name for name in table.header if name not in gold[:1]]
    column = {name: table.column(name) for name in rest}
    ids = [name for name in rest if len(column[name]) == len(table.rows) == len(set(column[name]))]
    item = next(filter(_names_ids, ids), next((name for name in ids if name == rest[0]), None))
    for first in dict.fromkeys((item, None)):
        answers = [name for name in rest if name != first]
        beside = columns_beside({name: column[name] for name in answers})
        held = [column[name] for name in answers if name not in beside]
        if len(held) > 1 and _share_classes(held):
            return first, gold[0] if gold else None
    return None


def _names_ids(name: str) -> bool:
    """Returns whether a name says that a column has the items' ids, and no texts or numbers of rows."""
    words = set(words_of(name))
    return says("item", name) and words.isdisjoint((*TEXTS, "index", "idx", "row"))


def columns_beside(columns: Mapping[str, Sequence[str]], *, by_name: bool = True) -> dict[str, str]:
    """Returns the columns that hold no annotator's answers, each with the reason.

    Args:
        columns: cells of each column that are no missing values.
        by_name: whether names count, too; they do only if two other columns remain.
    """
    counts = Counter(cell for cells in columns.values() for cell in set(cells))
    found = {name: _TEXTS for name, cells in columns.items() if _each_its_own(cells, counts)}
    if not by_name:
        return found
    named = {name: _BY_NAME for name in columns if not set(_BESIDE).isdisjoint(words_of(name))}
    times = [name for name in columns if not set(_TIMES).isdisjoint(words_of(name))]
    answers = {cell for name, cells in columns.items() if name not in (*named, *times) for cell in cells}
    named |= {name: _BY_NAME for name in times if answers.isdisjoint(columns[name])}
    named = {name: reason for name, reason in named.items() if name not in found}
    return found | named if len(columns) - len(found | named) > 1 else found


def is_total(row: Sequence[str], above: Sequence[Sequence[str]]) -> bool:
    """Returns whether the last row of a table adds up those above: it says so, and has none of their classes."""
    known = {cell for other in above for cell in other[1:]}
    return bool({*_TOTALS} & {*words_of(row[0])}) and not known & {cell for cell in row[1:] if cell}


def people_in_rows(table: Table) -> str:
    """Returns the column that names annotators in a table with a row per annotator and a column per item; else empty.

    So do survey tools and online forms write answers: every annotator has one row. A name that may also be that of an
    item (`email`) counts only where the other columns are numbered: `Picture 1`, `Picture 2`.
    """
    for name in table.header:
        cells = table.column(name)
        sure = surely_annotators(name)
        if not (sure or says("annotator", name)) or not len(cells) == len(table.rows) == len(set(cells)) > 1:
            continue
        rest = {other: table.column(other) for other in table.header if other != name}
        beside = columns_beside(rest)
        rest = {other: cells for other, cells in rest.items() if other not in beside}
        numbered = len({_DIGITS.sub("0", other) for other in rest}) == 1
        if len(rest) > 1 and (sure or numbered) and _share_classes(list(rest.values())):
            return name
    return ""


def counts_in_columns(table: Table) -> list[str]:
    """Returns the columns of a table with a column per class: numbers of votes that add up to one number in each row.

    Otherwise, the result is empty.
    """
    columns = [name for name in table.header if all(map(str.isdecimal, cells := table.column(name))) and cells]
    columns = [name for name in columns if len(set(table.column(name))) < len(table.rows)]
    if len(columns) < 2 or len(table.rows) < _FEWEST_ROWS:
        return []
    places = [table.place(name) for name in columns]
    rows = {tuple(row[place] for place in places) for row in table.rows}
    if any("" in row for row in rows):
        return []
    sums = {sum(map(int, row)) for row in rows}
    return columns if len(sums) == 1 and len(rows) > 1 and 0 not in sums else []


def _share_classes(columns: Sequence[Sequence[str]]) -> bool:
    """Returns whether columns share one small set of classes."""
    sets = [set(column) - {"-1", "-1.0"} for column in columns]
    filled = sum(map(len, columns))
    classes = set[str]().union(*sets)
    if not 2 <= len(classes) <= min(MOST_CLASSES, max(FEW, filled // 2)):
        return False
    times = {name: sum(name in held for held in sets) for name in classes}
    return all(not held or 2 * sum(times[name] > 1 for name in held) >= len(held) for held in sets)


def _each_its_own(cells: Sequence[str], columns: Counter[str]) -> bool:
    """Returns whether nearly every cell of a column is different, and most of them occur in no other column."""
    distinct = set(cells)
    alone = sum(columns[cell] == 1 for cell in distinct)
    return len(cells) >= _FEWEST_ANSWERS and 10 * len(distinct) >= 9 * len(cells) and 2 * alone > len(distinct)
