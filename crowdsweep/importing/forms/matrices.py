"""Reads matrices of items × annotators: text, CSV or .npy (`matrix`, `snorkel`), and cleanlab's table (`cleanlab`).

,ann,bob        a header and an index are recognised by the empty corner, or by values that occur nowhere else
p1,0,1
p2,,0           a missing answer is an empty cell, NaN or -1
"""

import re
from collections import Counter
from pathlib import Path

from crowdsweep.data import bounds
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk import arrays_on_disk
from crowdsweep.data.on_disk.text_files import check_packed_text, opened_text, reading, rows_of, separator_of
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.column_words import TEXTS, words_of
from crowdsweep.importing.delimited import header_of, kind_of, records
from crowdsweep.importing.gold import GoldClasses, gold_file
from crowdsweep.importing.measures import check_no_measures
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, text_of
from crowdsweep.importing.wide_tables import columns_beside, is_total

_NEGATIVE = re.compile(r"-[0-9]*[1-9][0-9]*(\.0+)?")
_CODE = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.0+)?")
_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_CORNER = re.compile(r"(unnamed: ?0|index|idx|id|item|task|question|example|sample|.*_id|id_.*)", re.IGNORECASE)


def read_matrix(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads a matrix of classes; items and annotators without names are called by their position."""
    return _from_matrix(path, asked, prefix="", headed=None)


def read_snorkel(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads a label matrix; labelling functions without a name are called lf0, lf1, …"""
    return _from_matrix(path, asked, prefix="lf", headed=None)


def read_cleanlab(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads cleanlab's wide table of several annotators, whose first line names them."""
    return _from_matrix(path, asked, prefix="", headed=True)


def _from_matrix(path: Path, asked: FileOptions, prefix: str, headed: bool | None) -> ImportedRows:
    missing = asked.missing.in_matrices()
    gathered, gold = RowCollector(path, asked.missing), GoldClasses(missing)
    cells, is_table = _cells(path, asked.missing, headed=bool(headed or asked.item is not None))
    if not cells:
        raise DataError(f"{path}: expected a matrix, the file is empty")
    header, body = _parted(path, cells, is_table, True if asked.item is not None else headed, gathered)
    _check_widths(path, len(cells[0]), body)
    body = _rows_alone(path, header, body, gathered)
    file = gold_file(asked.gold, header, path)
    header, body, classes = _without_gold(header, body, asked.gold if file is None else None)
    header, body = _item_first(path, header, body, asked.item)
    width = len(body[0])
    filled = [number for number, line in enumerate(body) if any(line)]
    indexed = asked.item is not None or (is_table and _has_index(header, [body[n] for n in filled], asked.missing))
    if indexed and len(filled) < len(body):  # without ids, an empty row is an item that nobody answered
        gathered.notes.append(f"rows without anything in them left out: {len(body) - len(filled)}")
        body, classes = [body[n] for n in filled], [classes[n] for n in filled] if classes else []
    if indexed and asked.item is None:
        gathered.notes.append("the first column was read as the ids of items")
    annotators = header[indexed:] if header else [f"{prefix}{place}" for place in range(width - indexed)]
    if not annotators or not _all_named(annotators, asked.missing):
        raise DataError(
            f"{path}: expected a distinct name for each annotator in the first line, got {', '.join(annotators[:8])}"
        )
    beside = _beside(path, annotators, body, missing, named=bool(header), by_name=headed is True)
    texts = _texts_in(annotators, body, beside, gathered)
    annotators, body = _without(annotators, body, beside)
    labels = {cell for line in body for cell in line[indexed:]}
    check_no_measures(path, Counter(cell for line in body for cell in line[indexed:]))
    codes = all(missing(cell) or _CODE.fullmatch(cell) for cell in {*labels, *classes})
    taken = _worth_telling(labels, missing)
    seen: set[str] = set()
    for number, line in enumerate(body):
        where = f"{path}, item {number}"
        item = gathered.item(line[0] if indexed else str(number), where, texts[number] if texts else None)
        if item in seen:
            raise DataError(f"{where}: expected distinct item ids in the first column, got {item!r} again")
        seen.add(item)
        for annotator, cell in zip(annotators, line[indexed:], strict=True):
            if cell in taken:
                gathered.not_given(cell, f"{where}, annotator {annotator}")
            elif not missing(cell):
                # A column of integers becomes a column of floats if one is missing: there, 1.0 is the code 1.
                gathered.answer(item, annotator, [cell.partition(".")[0] if codes else cell], where)
        if classes:
            known = classes[number].partition(".")[0] if codes else classes[number]
            gold.add(item, known, f"{where}, column {asked.gold}")
    if file is not None:
        gold.add_file(gathered, file, header[0] if indexed and header else "item")
    gold.note(gathered)
    return gathered.imported(multilabel=False, gold=gold.found)


def _rows_alone(path: Path, header: list[str], body: list[list[str]], gathered: RowCollector) -> list[list[str]]:
    """Returns the lines without those that are the header once more, and without a last one that adds up the others."""
    rows = [line for line in body if line != header]
    if not rows:
        raise DataError(f"{path}: expected rows with answers below the first line, got its names once more")
    if _overlap(header, rows, 0):  # numbers, which are also answers
        rows = body
    if len(rows) < len(body):
        gathered.notes.append(f"rows that are the header once more left out: {len(body) - len(rows)}")
    if header and len(rows) > 2 and is_total(rows[-1], rows[:-1]):
        gathered.notes.append(f"the last row, {shown(rows[-1][0])}, left out: it adds up those above")
        return rows[:-1]
    return rows


def _beside(
    path: Path, annotators: list[str], body: list[list[str]], missing: MissingValues, *, named: bool, by_name: bool
) -> dict[str, str]:
    """Returns the columns that hold no answers, with the reasons: texts, ids, times, votes over the others.

    Raises:
        DataError: no other column is left, or the columns have no names by which a note could say what was left out.
    """
    first = len(body[0]) - len(annotators)
    held = {
        name: [line[place] for line in body if not missing(line[place])] for place, name in enumerate(annotators, first)
    }
    beside = columns_beside(held, by_name=by_name)
    if beside and (not named or len(beside) == len(annotators)):
        name = next(iter(beside))
        raise DataError(
            f"{path}: expected classes, which recur from item to item; nearly every cell of "
            f"{', '.join(map(shown, list(beside)[:4])) if named else f'column {annotators.index(name) + first}'} is "
            f"different, such as {shown(held[name][0])}: texts, ids or measurements, not labels; a matrix holds one "
            f"class for each item and annotator"
        )
    return beside


def _texts_in(
    annotators: list[str], body: list[list[str]], beside: dict[str, str], gathered: RowCollector
) -> list[str]:
    """Returns the texts of items, if a column beside the answers is named for texts; notes all columns left out."""
    first = len(body[0]) - len(annotators)
    texts: dict[str, list[str]] = {}
    for place, name in enumerate(annotators, first):
        if name in beside and not set(TEXTS).isdisjoint(words_of(name)) and any(" " in line[place] for line in body):
            texts[name] = [line[place] for line in body]
    kept = next(iter(texts), None)
    if kept is not None:
        gathered.notes.append(f"{shown(kept)} is kept as the texts of items")
    for reason in dict.fromkeys(beside.values()):
        names = [name for name, why in beside.items() if why == reason and name != kept]
        if names:
            more = ", …" if len(names) > 4 else ""
            gathered.notes.append(f"{', '.join(map(shown, names[:4]))}{more} left out: {reason}")
    return [] if kept is None else texts[kept]


def _without(annotators: list[str], body: list[list[str]], beside: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    """Returns annotators and lines without these columns."""
    first = len(body[0]) - len(annotators)
    places = [*range(first), *(place for place, name in enumerate(annotators, first) if name not in beside)]
    return [name for name in annotators if name not in beside], [[line[place] for place in places] for line in body]


def _worth_telling(labels: set[str], missing: MissingValues) -> set[str]:
    """Returns the words for a missing answer that may be classes; -1 only if other numbers are negative as well."""
    words = {cell for cell in labels if cell and missing(cell)}
    scale = any(_NEGATIVE.fullmatch(cell) and not missing(cell) for cell in labels)
    return {cell for cell in words if cell.lower() != "nan" and (scale or not _NEGATIVE.fullmatch(cell))}


def _check_widths(path: Path, width: int, body: list[list[str]]) -> None:
    for number, line in enumerate(body):
        if len(line) != width:
            raise DataError(f"{path}, item {number}: expected {width} cells as in the first row, got {len(line)}")


def _without_gold(
    header: list[str], body: list[list[str]], column: str | None
) -> tuple[list[str], list[list[str]], list[str]]:
    """Returns header and lines without the gold column, and that column; the latter is empty if there is none."""
    if column is None:
        return header, body, []
    place = header.index(column)
    rest = [line[:place] + line[place + 1 :] for line in [header, *body]]
    return rest[0], rest[1:], [line[place] for line in body]


def _item_first(
    path: Path, header: list[str], body: list[list[str]], column: str | None
) -> tuple[list[str], list[list[str]]]:
    """Returns header and lines with the column of item ids moved to the front; unchanged if none was named."""
    if column is None:
        return header, body
    if column not in header:
        raise DataError(f"{path}: expected a column {column} of item ids, got {', '.join(header)}")
    place = header.index(column)
    moved = [[line[place], *line[:place], *line[place + 1 :]] for line in [header, *body]]
    return moved[0], moved[1:]


def _cells(path: Path, missing: MissingValues, *, headed: bool) -> tuple[list[list[str]], bool]:
    """Returns the cells, and whether they come from a separated table, which may have a header and an index.

    Above a header there may be lines that are none; without one, an empty line of separators is an item.
    """
    known: dict[str, str] = {}  # one object for each distinct text: there are as many cells as items × annotators
    if path.suffix == ".npy":
        array = arrays_on_disk.read_npy(path)
        if array.ndim != 2:
            raise DataError(f"{path}: expected a matrix of items × annotators, got shape {array.shape}")
        bounds.check_rows(max(array.size, *array.shape), path, floor=bounds.MOST_RECORDS, what="cells")
        lines = (
            [_text_of_cell(cell, f"{path}, item {number}", missing) for cell in line.tolist()]
            for number, line in enumerate(array)
        )
        return [[known.setdefault(cell, cell) for cell in line] for line in lines], False
    if kind_of(path) != "csv":
        header = header_of(path)
        return [header, *([cell.strip() for cell in row.values()] for _, row in records(path, header))], True
    with reading(path, "a matrix of text (CSV)"):
        check_packed_text(path, bounds.MOST_RECORDS)
    most = max(bounds.MOST_RECORDS, bounds.size_on_disk(path))
    with reading(path, "a matrix of text (CSV)"), opened_text(path) as file:
        separator = separator_of(file)
        if separator is None:
            rows = (line.split() for line in file if not line.startswith("#"))
        else:
            rows = (cells for _, cells in rows_of(path, file, None if headed else separator))
        cells: list[list[str]] = []
        n_cells = 0
        for row in rows:
            stripped = [known.setdefault(cell.strip(), cell.strip()) for cell in row]
            if stripped not in ([], [""]):
                cells.append(stripped)
                n_cells += len(stripped)
                if n_cells > most:
                    bounds.check_rows(n_cells, path, floor=most, what="cells")
        return cells, separator is not None


def _text_of_cell(cell: object, where: str, missing: MissingValues) -> str:
    if isinstance(cell, str):
        return cell.strip()
    return "" if cell != cell else text_of(cell, "a label", where, missing)


def _parted(
    path: Path, cells: list[list[str]], is_table: bool, headed: bool | None, gathered: RowCollector
) -> tuple[list[str], list[list[str]]]:
    """Returns the header, empty if there is none, and the lines below it."""
    first, body = cells[0], cells[1:]
    if headed is None:
        headed = bool(body) and _is_header(path, first, body, is_table, gathered.missing)
        if headed:
            names = ", ".join(first[:5]) + (", …" if len(first) > 5 else "")
            gathered.notes.append(f"the first line ({names}) was read as the names of annotators")
    if not headed:
        return [], cells
    if not body:
        raise DataError(f"{path}: expected items below the header {', '.join(first[:5])}, found none")
    return ["index", *first[1:]] if not first[0] and len(first) > 1 else first, body


def _is_header(path: Path, first: list[str], body: list[list[str]], is_table: bool, missing: MissingValues) -> bool:
    """Returns whether the first line names annotators: its cells are distinct, and none is a label further down."""
    numbered = first == _counted(first)
    if not is_table:
        return _all_named(first, missing) and not all(map(_NUMBER.fullmatch, first)) and not _overlap(first, body, 0)
    if _CORNER.fullmatch(first[0]):
        return True
    if missing(first[0]):
        column = [line[0] for line in body]
        counted = len(body) > 1 and column == _counted(column) and first[1:] == _counted(first[1:])
        return _all_named(first[1:], missing) and (counted or not _overlap(first[1:], body, 1))
    if not _all_named(first, missing) or not numbered:
        return _all_named(first, missing) and not _overlap(first, body, 0)
    if len(first) > 2 or not _overlap(first[-1:], body, 0):
        return len(first) > 1
    if len(first) == 1:
        return False
    raise DataError(
        f"{path}: cannot tell whether the first line, {' '.join(first)}, is a header or an item; where it is a header, "
        f"import the file as cleanlab; where it is an item, put a line with the annotators' names above it"
    )


def _has_index(header: list[str], body: list[list[str]], missing: MissingValues) -> bool:
    """Returns whether the first column holds item ids and not the answers of an annotator."""
    if not body or len(body[0]) < 2:
        return False
    if header and _CORNER.fullmatch(header[0]):
        return True
    column = [line[0] for line in body]
    if header and _DIGITS.sub("0", header[0]) == _DIGITS.sub("0", header[1]):  # w1, w2: named like the others
        return False
    if (header and _NUMBER.fullmatch(header[0])) or len(column) < 3 or not _all_named(column, missing):
        return False
    if column == _counted(column):
        return not _overlap(column[-1:], body, 1)
    numbers = all(map(_NUMBER.fullmatch, column))
    return (bool(header) or not numbers) and not _overlap(column, body, 1)


def _overlap(names: list[str], body: list[list[str]], first: int) -> bool:
    """Returns whether one of these names is also a label in the columns from `first` on."""
    labels = {cell for line in body for cell in line[first:]}
    return any(name in labels for name in names)


def _all_named(names: list[str], missing: MissingValues) -> bool:
    return len(set(names)) == len(names) and not any(map(missing, names))


def _counted(like: list[str]) -> list[str]:
    """Returns the numbers from 0, as many as `like` has entries: pandas' names of rows and columns without names."""
    return [str(number) for number in range(len(like))]
