"""Adds new answers to a dataset folder: all of those that are new, or nothing.

The files stay as the user made them: columns that are not read, separators and compression do not change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.oddities import Oddity
from crowdsweep.data.on_disk import annotator_files, folder_files, tables
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.on_disk.folder_checks import READ_COLUMNS
from crowdsweep.data.on_disk.folder_files import JOIN, Classes
from crowdsweep.data.on_disk.shown import SHOWN_FILE, read_shown, write_shown
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.data.on_disk.updates import update_together
from crowdsweep.data.spelling import shared
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.add_items import add_items
from crowdsweep.importing.additions import Contradictions, Labels, NewAnswers, Pair, compared, in_classes_of
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.guess import guess_by_cells, guess_file, settled
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rewritten import rewrite
from crowdsweep.importing.rows import FileOptions, ImportedRows, Row
from crowdsweep.paths import is_file, lexists, names_in
from crowdsweep.registry import discovery

_ANSWER = ("item", "annotator", "label")


@dataclass(frozen=True, kw_only=True)
class Added:
    """Summary of what was added to a dataset folder.

    Attributes:
        answers: number of answers that were new.
        items, annotators: number of items and annotators of the new answers.
        new_items, new_annotators: number of items and annotators that the dataset did not have.
        gold: number of items that have gold now and had none.
        total: number of labels that the dataset has now.
        told: what the user should know of answers that were not simply added.
        notes: what else the user should know, in sentences.
    """

    answers: int
    items: int
    new_items: int
    annotators: int
    new_annotators: int
    gold: int
    total: int
    told: Sequence[Oddity] = ()
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """Returns the summary in one line."""
        if not (self.answers or self.gold or self.new_items):
            return f"nothing is new, nothing was added; {self.total:,} labels"
        gold = f", gold of {self.gold:,} items" if self.gold else ""
        return (
            f"{self.answers:,} answers added{gold}: {self.items:,} items ({self.new_items:,} new), {self.annotators:,} "
            f"annotators ({self.new_annotators:,} new); {self.total:,} labels now"
        )


def folder_named(name: str) -> Path:
    """Returns the folder of a dataset that answers can be added to, by its path or by its name on the search path.

    Raises:
        DataError, UnknownName: there is no such folder.
    """
    if discovery.get("dataset", name) is not None:
        raise DataError(
            f"{name}: expected the folder of a dataset, got a dataset that is generated; a folder of this name is "
            f"given as ./{name}"
        )
    return catalogue.find_folder(name)


def missing_in(folder: Path, given: Sequence[str] | None = None) -> MissingValues:
    """Returns the rule for missing values in new answers: the given words, else the rule of the dataset folder."""
    if given is not None:
        return MissingValues.of(given)
    about = read_description(folder)
    return folder_files.read_classes(folder, about.scale == "multilabel", about.missing).missing


def read_answers(
    path: Path,
    folder: Path,
    missing: Sequence[str] | None,
    form: str | None,
    columns: Mapping[str, str | None],
    tell: Callable[[str], object] = lambda _: None,
) -> ImportedRows:
    """Reads a file of new answers.

    Form and columns are guessed as by `guess_file`. If that guess has doubts, a table with columns named as annotators
    of the dataset has a column per annotator; else columns are guessed by its items, annotators and labels.

    Args:
        path: the file of new answers.
        folder: the dataset folder.
        missing: words for a missing value in the file; None for the rule of the folder.
        form: form of the file; None to guess it.
        columns: columns of the file by their role, as fields of `FileOptions`.
        tell: is called with what the file is taken for, before the file is read.

    Raises:
        DataError, UnknownName: as `guess_file` and `read_form`; or the folder is no dataset folder.
        BadInput: as `settled`.
    """
    scale = read_description(folder).scale
    told = FileOptions(missing=missing_in(folder, missing), features=None, scale=scale, **columns)
    guess = guess_file(path, told, form)
    if guess.doubts:
        data = _read(folder)
        known = {"item": data.item_names, "annotator": data.annotator_names}
        first, *others = header_of(path)
        if form is None and not any(columns.values()) and first and not {*known["annotator"]}.isdisjoint(others):
            words = f"a table with a column for each annotator, items in {shown(first)}"
            guess = replace(guess_file(path, replace(told, item=first), "cleanlab"), what=words)
        else:
            guess = guess_by_cells(path, told, {**known, "label": (*data.class_labels, *data.class_names)})
    guess = settled(path, guess)
    tell(f"{path}: {guess.what}")
    read = read_form(guess.form, path, guess.asked)
    return replace(read, notes=[*guess.notes, *read.notes])


def add_answers(
    imported: ImportedRows,
    folder: Path,
    *,
    contradictions: Contradictions = "refuse",
    new_classes: Sequence[str] = (),
) -> Added:
    """Adds answers, and the gold, texts and images of their items, to a dataset folder.

    Args:
        imported: the answers.
        folder: the dataset folder.
        contradictions: as for `compared`.
        new_classes: labels of classes that the dataset does not have yet.

    Raises:
        DataError: the folder holds no dataset with known annotators, or cannot be written; a label is no class;
            answers, gold or texts contradict those in the folder; new items or annotators lack data that the others
            have. The folder is not changed then.
    """
    with update_together(folder) as place:
        before = _read(folder)
        path = _annotations(folder)
        classes = Classes(
            code={label: code for code, label in enumerate(before.class_labels)},
            names=before.class_names,
            declared=True,
            joined=before.scale == "multilabel",
            missing=missing_in(folder),
        )
        more_classes = _more_classes(new_classes, classes)
        imported = in_classes_of(imported, classes, more_classes, folder)
        new = compared(
            imported.rows, _standing(path, imported.rows, classes), contradictions, f"{imported.source} and {folder}"
        )
        items = _unknown(imported.items, before.item_names)
        annotators = _unknown((row.annotator for row in new.rows), before.annotator_names)
        _check_features(folder, items, annotators)
        if new.rows:
            _write_answers(path, place / path.name, new)
        gold = add_items(imported, folder, place, before, classes, items)
        _add_classes(folder, place, before, _used(more_classes, imported, new))
        _add_shown(folder, place, {item: imported.shown[item] for item in items if item in imported.shown})
        after = _read_back(folder, place) if names_in(place) else before
    return Added(
        answers=len(new.rows),
        items=len({row.item for row in new.rows}),
        new_items=len(items),
        annotators=len({row.annotator for row in new.rows}),
        new_annotators=len(annotators),
        gold=gold,
        total=len(after.annotations),
        told=new.told,
        notes=[*imported.notes, *_notes(path, len(new.rows), imported, before, items, annotators)],
    )


def _read(folder: Path) -> CrowdDataset:
    """Reads a dataset folder without features, which new answers do not change."""
    return read_folder(folder, features="none", annotator_features="none")


def _annotations(folder: Path) -> Path:
    path = folder_files.answers_path(folder)
    if path.stem == "votes":
        raise DataError(
            f"{path}: expected annotations.csv: votes do not say whose they are, and a new answer may already be "
            f"counted; add to the counts by hand, or make a new folder with the answers of each annotator"
        )
    return path


def _more_classes(given: Sequence[str], classes: Classes) -> list[str]:
    if joined := [label for label in given if classes.joined and JOIN in label]:
        raise DataError(
            f"--new-class {shown(joined[0])}: expected a label without {JOIN}, which separates several classes"
        )
    return [label for label in dict.fromkeys(given) if label not in classes.code]


def _standing(path: Path, rows: Iterable[Row], classes: Classes) -> Mapping[Pair, dict[Labels, None]]:
    """Returns the existing answers of the same pairs of item and annotator."""
    pairs = {(row.item, row.annotator) for row in rows}
    found: dict[Pair, dict[Labels, None]] = {}
    for _, record in records(path, _ANSWER):
        pair, label = (record["item"], record["annotator"]), record["label"]
        if pair in pairs and (not classes.missing(label) or (classes.joined and not label)):
            found.setdefault(pair, {})[tuple(classes.parts(label))] = None
    return found


def _unknown(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Returns the names that are not known, without repeats."""
    given = list(dict.fromkeys(names))
    places = Names.of(known).places_of(given)
    return [name for name, place in zip(given, places.tolist(), strict=True) if place < 0]


def _check_features(folder: Path, items: Sequence[str], annotators: Sequence[str]) -> None:
    """Refuses new items and annotators that have no features if the dataset has features."""
    missing = read_description(folder).missing
    try:
        for kind in folder_files.feature_kinds(folder) if items else ():
            folder_files.read_features(folder, kind, Names.of(items))
        for kind in annotator_files.kinds_of_features(folder, missing) if annotators else ():
            annotator_files.read_annotator_features(folder, kind, Names.of(annotators), missing)
    except DataError as error:
        raise DataError(f"add the features before the answers that need them: {error}") from error


def _write_answers(path: Path, target: Path, new: NewAnswers) -> None:
    replaced = set(new.replaced)
    stay = (record for _, record in records(path, _ANSWER) if (record["item"], record["annotator"]) not in replaced)
    fresh = (
        {"item": row.item, "annotator": row.annotator, "label": JOIN.join(row.labels), "weight": row.weight}
        for row in new.rows
    )
    rewrite(path, target, chain(stay, fresh), ["weight"] if any(row.weight for row in new.rows) else ())


def _used(more_classes: Sequence[str], imported: ImportedRows, new: NewAnswers) -> list[str]:
    """Returns the new classes that answers or gold use."""
    used = {label for row in new.rows for label in row.labels}
    used |= {label for labels in imported.gold.values() for label in labels}
    return [label for label in more_classes if label in used]


def _add_classes(folder: Path, place: Path, before: CrowdDataset, more: Sequence[str]) -> None:
    path = tables.find_table(folder, "classes")
    if path is None or not more:
        return
    if before.scale == "ordinal":
        raise DataError(
            f"{path}: expected the classes of an ordinal scale, in whose order a new one has a place; write "
            f"{', '.join(map(shown, more))} there by hand"
        )
    rows = ({"label": label, "name": label} for label in more)
    rewrite(path, place / path.name, chain((record for _, record in records(path, ["label"])), rows))


def _add_shown(folder: Path, place: Path, shown_of: Mapping[str, Mapping[str, object]]) -> None:
    """Writes what annotators saw of new items, together with that of known items."""
    if shown_of:
        known = read_shown(folder)
        write_shown(place / SHOWN_FILE, [*known, *shown_of], {**known, **shown_of})


def _read_back(folder: Path, place: Path) -> CrowdDataset:
    """Reads the dataset as it will be, from the files that change and from links to the others."""
    others = [name for name in names_in(folder) if is_file(folder / name) and not lexists(place / name)]
    for name in others:
        (place / name).symlink_to((folder / name).resolve())
    try:
        return _read(place)
    except DataError as error:
        raise DataError(str(error).replace(str(place), str(folder))) from error
    finally:
        for name in others:
            (place / name).unlink()


def _notes(
    path: Path,
    n_answers: int,
    imported: ImportedRows,
    before: CrowdDataset,
    items: Sequence[str],
    annotators: Sequence[str],
) -> Iterator[str]:
    """Yields a sentence on everything that the user may have meant in another way."""
    others = [name for name in header_of(path) if name not in READ_COLUMNS["annotations"]]
    if others and n_answers:
        yield f"{path.name} has further columns ({', '.join(others[:5])}), which are empty where answers were added"
    for what, here, there in (
        ("texts", imported.text, before.items.text),
        ("images", imported.image, before.images),
    ):
        if here and there is None:
            yield f"the {what} of items are left out, as the dataset has none"
    for kind, new, known in (
        ("items", items, before.item_names),
        ("annotators", annotators, before.annotator_names),
    ):
        if pairs := shared(Names.of(new), Names.of(known)):
            told = ", ".join(f"{shown(one)} and {shown(other)}" for one, other in pairs[:3])
            yield f"new {kind} that differ from known ones only in spelling: {told}{', …' if len(pairs) > 3 else ''}"
