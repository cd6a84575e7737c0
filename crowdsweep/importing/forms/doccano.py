"""Reads doccano's JSONL exports of classifications: one file per annotator, in a folder or in its zip archive.

ann.jsonl:  {"id": 1, "text": "…", "label": ["happy"]}
bob.jsonl:  {"id": 1, "text": "…", "label": ["calm", "happy"]}
"""

import zipfile
from collections.abc import Iterator
from contextlib import closing
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import Any, cast

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.json_text import an_object, objects, objects_of, part
from crowdsweep.data.on_disk.text_files import as_text, reading
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.ids import Ids
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector
from crowdsweep.paths import is_folder

_MARKS = ("entities", "relations", "spans", "bbox", "bboxes", "segmentation", "segments", "polygons")
_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


def read_doccano(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads the labels of each annotator's file; examples without a label are left out of the answers and counted.

    Raises:
        DataError: a record is invalid, or marks spans instead of classes; the message says which record.
    """
    gathered = RowCollector(path, asked.missing)
    annotators: set[str] = set()
    for annotator, file, records in _files(path):
        ids = Ids(file, "example", asked.missing)
        for position, record in records:
            name = ids.once(record, ("id", "filename"), position)
            where = f"{file}, example {name}"
            item = gathered.item(name, where, record.get("text", record.get("data")))
            for who, labels in _answers(record, annotator, where):
                if labels:
                    annotators.add(str(who))
                    gathered.answer(item, who, labels, where)
                else:
                    gathered.leave_out("examples without a label")
    if len(annotators) == 1:
        gathered.notes.append(
            f"all answers are one annotator's, {next(iter(annotators))!r}: a project in which annotators share their "
            f"labels exports no more; a folder or archive with a file for each annotator does"
        )
    return gathered.imported()


def _answers(record: dict[str, Any], annotator: str, where: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yields (annotator, classes) of a record; older exports name the annotator in each annotation."""
    if "annotations" in record:
        by_user: dict[Any, list[Any]] = {}
        for number, given in enumerate(part(record["annotations"], list, f"{where}, annotations")):
            entry = an_object(given, f"{where}, annotations.{number}")
            user = entry.get("user")
            if not isinstance(user, str | int):
                raise DataError(f"{where}, annotations.{number}, user: expected who answered, got {shown(user)}")
            by_user.setdefault(user, []).append(entry.get("label"))
        yield from by_user.items()
        return
    key = next((name for name in ("label", "labels", "cats") if name in record), "label")
    marked = [name for name in _MARKS if name in record]
    if key not in record and marked:
        raise DataError(
            f"{where}: expected classes, got spans, relations or boxes (keys {', '.join(marked)}); export a "
            f"classification project"
        )
    given = record.get(key)
    labels = [given] if isinstance(given, str | int | float) else part(given, list, f"{where}, {key}")
    if any(isinstance(label, list | dict) for label in labels):
        raise DataError(f"{where}, {key}: expected classes, got spans or boxes; export a classification project")
    yield annotator, labels


def _files(path: Path) -> Iterator[tuple[str, Path, Iterator[tuple[int, dict[str, Any]]]]]:
    """Yields (annotator, path, records) of each file."""
    if is_folder(path):
        found = sorted(file for file in path.iterdir() if file.name.endswith(_ENDINGS))
        if not found:
            raise DataError(f"{path}: expected a file ANNOTATOR.jsonl for each annotator, found none")
        yield from ((_stem(file.name), file, objects(file)) for file in found)
    elif path.suffix == ".zip":
        with reading(path, "a zip archive of JSONL files"), zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith((".jsonl", ".json")))
            if not names:
                raise DataError(f"{path}: expected a file ANNOTATOR.jsonl for each annotator, found none")
            unpacked = sum(archive.getinfo(name).file_size for name in names)
            bounds.check_unpacked(unpacked, path.stat().st_size, str(path), "unpack it and name the folder")
            for name in names:
                with archive.open(name) as packed, closing(as_text(cast(BufferedIOBase, packed), path / name)) as text:
                    yield _stem(PurePosixPath(name).name), path / name, objects_of(path / name, text)
    else:
        yield _stem(path.name), path, objects(path)


def _stem(name: str) -> str:
    ending = next((ending for ending in sorted(_ENDINGS, key=len, reverse=True) if name.endswith(ending)), "")
    return name.removesuffix(ending)
