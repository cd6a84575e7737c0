"""Guesses what a file of labels is: its form for `data import`, the roles of its columns, and the doubts."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from crowdsweep.data.on_disk.json_text import objects_of
from crowdsweep.data.on_disk.text_files import first_character, found_at, is_parquet, opened_text
from crowdsweep.errors import BadInput, DataError, UnknownName, shown
from crowdsweep.importing.column_words import is_gold, perhaps_gold, words_of
from crowdsweep.importing.delimited import cut, header_of, listed, records
from crowdsweep.importing.forms.lewidi import lewidi_files
from crowdsweep.importing.forms.potato import SEPARATOR
from crowdsweep.importing.gold import gold_file
from crowdsweep.importing.json_forms import form_of_json
from crowdsweep.importing.registry import FORMS
from crowdsweep.importing.roles import (
    Table,
    count_of_votes,
    holds_lists,
    likely_features,
    likely_gold,
    likely_images,
    likely_labels,
    looks_headless,
    one_of_each,
    roles_of,
)
from crowdsweep.importing.rows import FileOptions
from crowdsweep.importing.wide_tables import columns_beside, counts_in_columns, people_in_rows, wide_columns
from crowdsweep.paths import is_file, is_folder

ROWS = 20_000
"""Most rows of a table that are looked at."""
_LINES_SHOWN = 3
_MATRICES = ("matrix", "cleanlab", "snorkel")
_OF_WEBANNO = "#FORMAT=WebAnno"


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a file is taken for.

    Attributes:
        form: form for `data import`.
        asked: roles of the columns.
        what: form and roles in words, for people.
        header: header of a table; empty if the file is no table.
        first: first rows of a table, with cells shortened for display.
        doubts: what is not sure, in sentences; empty if everything is.
        notes: what else columns may mean, in sentences.
    """

    form: str
    asked: FileOptions
    what: str
    header: tuple[str, ...] = ()
    first: tuple[tuple[str, ...], ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def guess_file(path: Path, file_options: FileOptions | None = None, form: str | None = None) -> Guess:
    """Returns what a file of labels is taken for.

    Args:
        path: the file, or the folder of an export.
        file_options: columns (and the question) that the user named; these are kept.
        form: the form that the user named.

    Raises:
        DataError: there is no such file, it is empty, or it is neither a table nor one of the forms.
        UnknownName: there is no such form, or no such column.
    """
    file_options = file_options or FileOptions()
    if form is not None and form != "csv":
        if form not in FORMS:
            raise UnknownName("form", form, FORMS)
        return Guess(form=form, asked=_with_gold(path, file_options, form), what=FORMS[form].title)
    if is_folder(path) and not any(path.glob("*.json*")):
        raise DataError(
            f"{path}: expected a file of labels, or a folder: of a dataset (annotations.csv), or of exports (a .jsonl "
            f"an annotator); found neither"
        )
    if is_folder(path) and lewidi_files(path):
        return Guess(form="lewidi", asked=file_options, what=FORMS["lewidi"].title)
    if is_folder(path) or path.suffix.lower() == ".zip":
        return Guess(form="doccano", asked=file_options, what=FORMS["doccano"].title)
    if not is_file(path):
        raise DataError(f"{path}: expected a file of labels, or a dataset's folder, found {found_at(path)}")
    if path.suffix == ".npy":
        return Guess(form="matrix", asked=file_options, what=FORMS["matrix"].title)
    if is_parquet(path):
        return _guess_table(path, file_options, rows_are_answers=form == "csv")
    start = first_character(path, "a table of text (CSV)")
    if not start:
        raise DataError(f"{path}: expected a table of labels, the file is empty")
    _check_text(path, start)
    if start in "[{" and form is None and not _columns(file_options):
        name = form_of_json(path)
        if name == "csv":
            return _told_of_keys(_guess_table(path, file_options, rows_are_answers=False))
        return Guess(form=name, asked=file_options, what=FORMS[name].title)
    return _guess_table(path, file_options, rows_are_answers=form == "csv")


def _check_text(path: Path, start: str) -> None:
    """Refuses text that is no table, given its first character."""
    with opened_text(path) as file:
        spans = file.read(len(_OF_WEBANNO)) == _OF_WEBANNO
    if spans or start == "<":
        raise DataError(
            f"{path}: expected a table of labels, got {'spans of WebAnno' if spans else 'XML or HTML'}; save it as "
            f"CSV, with a row for each answer: its item, annotator and label"
        )


def guess_by_cells(path: Path, file_options: FileOptions, known: Mapping[str, Collection[str]]) -> Guess:
    """Returns what a table with a row per answer is taken for, given known items, annotators and labels.

    A column has a role if it is the only one more than half of whose distinct values are known for that role.

    Args:
        path, file_options: as for `guess_file`.
        known: known items, annotators and labels, by role.

    Raises:
        DataError, UnknownName: as `guess_file`.
    """
    rows = _some(path)
    cells = {name: {row[name] for row in rows} - {""} for name in header_of(path)}
    found: dict[str, str] = {}
    for role, names in known.items():
        there = set(names)
        columns = [name for name, held in cells.items() if 2 * len(held & there) > len(held)]
        if len(columns) == 1 and columns[0] not in found.values() and getattr(file_options, role) is None:
            found[role] = columns[0]
    return guess_file(path, replace(file_options, **found), "csv")


def settled(path: Path, guess: Guess) -> Guess:
    """Returns the guess if it has no doubts.

    Raises:
        BadInput: the guess has doubts; the message has the doubts, the columns and the options that settle them.
    """
    if guess.doubts:
        said = " ".join(f"--{role} {shown(column)}" for role, column in _columns(guess.asked).items())
        raise BadInput(
            f"{path}: cannot tell which column is what ({'; '.join(guess.doubts)}); the columns are "
            f"{listed(guess.header)}{_not_read(path, guess.header)}; name them by --item, --annotator and --label "
            f"COLUMN{f' (the guess is {said})' if said else ''}, or, of a table with a column per annotator, by --form "
            f"matrix"
        )
    return guess


def _not_read(path: Path, header: Collection[str]) -> str:
    """Returns a clause on the keys of a JSON file whose values are lists or objects; empty if there are none."""
    if is_parquet(path) or first_character(path, "a table") not in "[{":
        return ""
    with opened_text(path) as file:
        first = next((record for _, record in objects_of(path, file)), {})
    keys = tuple(key for key, value in first.items() if isinstance(value, dict | list) and key not in header)
    return f" (lists and objects are not read: {listed(keys)})" if keys else ""


def shown_columns(guess: Guess) -> list[str]:
    """Returns the first rows of a table for display, one line per column."""
    width = max(map(len, map(cut, guess.header)), default=0)
    columns = zip(guess.header, zip(*guess.first, strict=True), strict=True)
    return [f"  {cut(name):<{width}}  {'  '.join(cells)}" for name, cells in columns]


def _guess_table(path: Path, file_options: FileOptions, *, rows_are_answers: bool) -> Guess:
    header = tuple(header_of(path))
    roles = _columns(file_options)
    for role, column in roles.items():
        if role == "gold":
            gold_file(column, header, path)
        elif column not in header:
            raise UnknownName(f"column of {path}", column, map(cut, header), f"--{role}")
    if file_options.image is not None and file_options.image not in header:
        raise UnknownName(f"column of {path}", file_options.image, map(cut, header), "--image")
    rows_are_answers = rows_are_answers or file_options.image is not None
    if not roles and (name := _tool_of(header)):
        return Guess(form=name, asked=file_options, what=FORMS[name].title, header=header)
    _check_header(path, header)
    rows = [tuple(record[name] for name in header) for record in _some(path)]
    if not rows:
        raise DataError(f"{path}: expected rows below the columns {listed(header)}, found none")
    first = tuple(tuple(cut(cell, 24) for cell in row) for row in rows[:_LINES_SHOWN])
    known = {cell: "" if file_options.missing(cell) else cell for row in rows for cell in row}
    table = Table(header=header, rows=[tuple(known[cell] for cell in row) for row in rows])
    beside = {key: value for key, value in roles.items() if key == "gold" and value not in header}
    inside = {key: value for key, value in roles.items() if key not in beside}
    if not roles:
        _check_headed(path, table)
    wide = None
    if not (rows_are_answers or inside.keys() - {"item", "gold"} or one_of_each(table)):
        if not inside:
            _check_wide(path, table)
        wide = wide_columns(table)
    if wide is not None:
        return _guess_wide(table, file_options, inside.get("item", wide[0]), roles.get("gold", wide[1]), first)
    if not roles and (count := count_of_votes(table)):
        raise DataError(
            f"{path}: looks like a table of votes: {shown(count)} counts how many gave an item a label, and not "
            f"which annotators; put it as votes.csv, with the columns item, label and count, into a folder of its own, "
            f"and `crowdsweep init FOLDER`"
        )
    return _guess_answers(path, file_options, table, inside, beside, first)


def _tool_of(header: Collection[str]) -> str:
    """Returns the form of a table that an annotation tool wrote; empty for other tables."""
    if any(SEPARATOR in name for name in header):
        return "potato"
    return "mturk" if "WorkerId" in header and any(name.startswith("Answer.") for name in header) else ""


def _check_header(path: Path, header: tuple[str, ...]) -> None:
    if len(header) > 2 and len([name for name in header if name]) == 1:
        raise DataError(
            f"{path}: expected the names of columns above the first row, got {shown(''.join(header))} and empty cells: "
            f"take titles and notes above the table out of the file"
        )
    if not any(header):
        raise DataError(f"{path}: expected a table with the names of columns in its first line, got none of it")
    if len(header) < 2:
        raise DataError(
            f"{path}: expected a table with columns of items, annotators and labels, got one column, "
            f"{shown(header[0] if header else '')}; cells may be separated by commas, semicolons, tabs or bars"
        )


def _check_headed(path: Path, table: Table) -> None:
    if looks_headless(table):
        raise DataError(
            f"{path}: expected the names of columns in the first line, got {listed(table.header)}, which looks like an "
            f"answer; put a line such as item,annotator,label above it (a table with a column per annotator and no "
            f"such line: --form matrix)"
        )


def _check_wide(path: Path, table: Table) -> None:
    """Refuses tables whose columns are items or classes, which look like those with a column per annotator."""
    if who := people_in_rows(table):
        raise DataError(
            f"{path}: looks like a table with a row for each annotator, by {shown(who)}, and a column for each item: "
            f"turn it (rows into columns), so that each item has a row and each annotator a column; if the rows are "
            f"items, give --item {shlex.quote(who)}"
        )
    if classes := counts_in_columns(table):
        raise DataError(
            f"{path}: looks like a table of votes: {listed(tuple(classes))} add up to the same number in each row, as "
            f"a column for each class does; put it as votes.csv, with the columns item, label and count, into a folder "
            f"of its own, and `crowdsweep init FOLDER`; if they are annotators, give --form cleanlab"
        )


def _told_of_keys(guess: Guess) -> Guess:
    """Returns the guess about a table in JSON, with a note if its columns may be items as well as annotators."""
    if guess.form != "cleanlab" or guess.asked.item is not None:
        return guess
    names = ", ".join(map(shown, guess.header[:3]))
    told = f"{names}, … are taken for annotators; if they are items, give --form peerannot"
    return replace(guess, notes=(*guess.notes, told))


def _guess_wide(
    table: Table, file_options: FileOptions, item: str | None, gold: str | None, first: tuple[tuple[str, ...], ...]
) -> Guess:
    """Returns what a table with a column per annotator is taken for, given its columns of items and gold."""
    header = table.header
    asked = FileOptions(item=item or None, gold=gold, missing=file_options.missing, scale=file_options.scale)
    people = [name for name in header if name not in (item, gold)]
    n_people = len(people) - len(columns_beside({name: table.column(name) for name in people}))
    words = [f"a table with a column for each of {n_people} annotators"]
    words += [f"items in {shown(item)}"] if item else ["items by their number"]
    words += [f"gold in {shown(gold)}"] if gold else []
    notes = [
        f"the column {shown(name)} was taken for an annotator; if it is gold, give --gold {shlex.quote(name)}"
        for name in header
        if gold is None and (perhaps_gold(name) or "final" in words_of(name))
    ]
    return Guess(form="cleanlab", asked=asked, what=", ".join(words), header=header, first=first, notes=tuple(notes))


def _guess_answers(
    path: Path,
    file_options: FileOptions,
    table: Table,
    inside: Mapping[str, str],
    beside: Mapping[str, str],
    first: tuple[tuple[str, ...], ...],
) -> Guess:
    """Returns what a table with a row per answer is taken for, given the columns and the gold file that were named."""
    found = roles_of(table, inside)
    columns = {**found.columns, **beside}
    if listed := holds_lists(table, columns):
        raise DataError(
            f"{path}: expected one answer in each row, got the annotators {shown(listed)} in one, with as many labels; "
            f"write a row for each annotator's answer"
        )
    words = [f"{role} is {shown(column)}" for role, column in columns.items()]
    words += [f"image is {shown(file_options.image)}"] if file_options.image else []
    words += [f"{shown(found.last)} was taken for the items, as no other column is left"] if found.last else []
    return Guess(
        form="csv",
        asked=replace(file_options, **columns),
        what=f"a table with a row per answer: {', '.join(words)}",
        header=table.header,
        first=first,
        doubts=found.doubts,
        notes=(*_not_gold(found.not_gold), *_column_hints(table, columns | _beside_roles(file_options))),
    )


def _not_gold(name: str) -> Iterator[str]:
    if name:
        yield (
            f"the column {shown(name)} is not read as gold: most of its classes are no labels, or an item has several; "
            f"correct them, or give --gold {shlex.quote(name)} to be told where"
        )


def _beside_roles(file_options: FileOptions) -> dict[str, str]:
    """Returns the columns that the user named for features or images; they may have a role as well."""
    return {name: name for name in file_options.features or ()} | (
        {"image": file_options.image} if file_options.image else {}
    )


def _column_hints(table: Table, columns: Mapping[str, str]) -> Iterator[str]:
    """Yields notes on what further columns may mean, with the options that say so."""
    if numbers := likely_features(table, columns):
        options = " ".join(f"--features {shlex.quote(name)}" for name in numbers[:8])
        more = " …" if len(numbers) > 8 else ""
        yield f"columns of numbers that describe the items are not read; to use them as features: {options}{more}"
    if others := likely_labels(table, columns):
        yield f"{', '.join(map(shown, others[:4]))} may be answers as well; to read one of them instead: --label COLUMN"
    if "image" not in columns and (image := likely_images(table, columns)):
        yield f"the column {shown(image)} names image files; to use them for features: --image {shlex.quote(image)}"
    if gold := likely_gold(table, columns):
        yield (
            f"the column {shown(gold)} has a class for items, the same for all answers to one: if that is gold, give "
            f"--gold {shlex.quote(gold)}"
        )


def _with_gold(path: Path, file_options: FileOptions, form: str) -> FileOptions:
    """Returns what the user said of a matrix, with a gold column if the name of a column says so."""
    if form not in _MATRICES or file_options.gold is not None or path.suffix == ".npy" or not is_file(path):
        return file_options
    return replace(file_options, gold=next((name for name in header_of(path) if is_gold(name)), None))


def _some(path: Path) -> list[dict[str, str]]:
    return [record for _, record in islice(records(path, []), ROWS)]


def _columns(asked: FileOptions) -> dict[str, str]:
    """Returns the columns that the user named, by role."""
    named = {role: getattr(asked, role) for role in ("item", "annotator", "label", "gold", "weight", "text")}
    return {role: column for role, column in named.items() if column is not None}
