"""Adds what new answers bring for items: gold, texts, images, and new items."""

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from crowdsweep.data.dataset import CrowdDataset, Images
from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.folder_files import JOIN, Classes
from crowdsweep.errors import DataError, shown
from crowdsweep.files import csv_files
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.rewritten import rewrite
from crowdsweep.importing.rows import ImportedRows
from crowdsweep.paths import leads_out

_SAID_OF_ITEMS = ("text", "text_b", "image", "sentence", "position", "token")
_NAMED = 5


def add_items(
    imported: ImportedRows, folder: Path, place: Path, before: CrowdDataset, classes: Classes, new: Sequence[str]
) -> int:
    """Rewrites the items file of a dataset folder if gold or items are added.

    Args:
        imported: the answers, in classes of the dataset.
        folder: the dataset folder.
        place: folder for new versions of changed files.
        before: the dataset before the addition.
        classes: classes of the dataset.
        new: items that the dataset does not have.

    Returns:
        Number of items that have gold now and had none.

    Raises:
        DataError: gold, a text or an image contradicts the folder's, or new items lack data that the others have.
    """
    gold = {item: labels for item, labels in imported.gold.items() if labels}
    if gold and before.gold.applies is not None:
        raise DataError(
            f"{imported.source}: expected answers without gold, got gold: {folder} has gold class by class "
            f"(gold_CLASS), and new gold goes there by hand; leave --gold out"
        )
    path = tables.find_table(folder, "items")
    header = [] if path is None else header_of(path)
    image = {} if before.images is None else _from_folder(imported, before.images)
    _check_new(imported, {"text": imported.text, "image": image}, header, path, new)
    listed: dict[str, dict[str, str]] = {}
    if path is not None:
        given = {*imported.items}
        listed = {record["item"]: record for _, record in records(path, ["item"]) if record["item"] in given}
    fresh = _new_gold(imported, folder, gold, listed, classes)
    _check_said(imported, "text", imported.text, folder, listed)
    _check_said(imported, "image", image, folder, listed)
    answered = {row.item for row in imported.rows}
    unlisted = [item for item in imported.items if item not in listed]
    wanted = {*fresh, *(new if path is not None else (item for item in new if item not in answered))}
    rows = [
        {"item": item, "gold": fresh.get(item, ""), "text": imported.text.get(item, ""), "image": image.get(item, "")}
        for item in unlisted
        if item in wanted
    ]
    more = ["gold"] if fresh else []
    if path is None and rows:
        lines = ([row[name] for name in ("item", *more)] for row in rows)
        csv_files.write_rows(place / "items.csv", ["item", *more], lines)
    elif path is not None and (rows or fresh):
        stay = (
            {**record, "gold": fresh[record["item"]]} if record["item"] in fresh else record
            for _, record in records(path, ["item"])
        )
        rewrite(path, place / path.name, chain(stay, rows), more)
    return len(fresh)


def _from_folder(imported: ImportedRows, images: Images) -> dict[str, str]:
    """Returns the image file of each item, relative to the dataset's folder of images."""
    here, there = imported.source.resolve().parent, images.folder.resolve()
    found = {item: os.path.relpath(here / name, there) for item, name in imported.image.items()}
    if outside := [item for item, name in found.items() if leads_out(name)]:
        raise DataError(
            f"{imported.source}: expected images in {there}, where those of the dataset begin, got "
            f"{shown(imported.image[outside[0]])} in {here}; put them there"
        )
    return found


def _check_new(
    imported: ImportedRows,
    said: Mapping[str, Mapping[str, str]],
    header: Sequence[str],
    path: Path | None,
    new: Sequence[str],
) -> None:
    """Refuses new items that lack data, such as texts, which the items file has of the others."""
    lacking = [name for name in _SAID_OF_ITEMS if name in header]
    lacking = [name for name in lacking if name not in said or not all(said[name].get(item) for item in new)]
    if new and lacking:
        hint = f"name its column by --{lacking[0]}, or add" if len(lacking) == 1 and lacking[0] in said else "add"
        raise DataError(
            f"{imported.source}: expected items of {path}, whose columns {', '.join(lacking)} describe each, got"
            f" {len(new)} others, such as {shown(new[0])}; {hint} rows for them there first"
        )


def _new_gold(
    imported: ImportedRows,
    folder: Path,
    gold: Mapping[str, Sequence[str]],
    listed: Mapping[str, Mapping[str, str]],
    classes: Classes,
) -> dict[str, str]:
    """Returns the gold of items that had none, as written to the items file; refuses gold that contradicts it."""
    fresh: dict[str, str] = {}
    contrary: list[str] = []
    for item, labels in gold.items():
        there = listed.get(item, {}).get("gold", "")
        if classes.missing(there):
            fresh[item] = JOIN.join(labels)
        elif sorted(classes.parts(there)) != sorted(labels):
            contrary.append(f"{item[:60]}: {shown(there)} there, {shown(JOIN.join(labels))} here")
    if contrary:
        examples = "; ".join(contrary[:_NAMED]) + ("; …" if len(contrary) > _NAMED else "")
        raise DataError(
            f"{imported.source}: expected gold that {folder} does not contradict, got other gold of {len(contrary)} "
            f"items ({examples}); correct one of them"
        )
    return fresh


def _check_said(
    imported: ImportedRows, what: str, said: Mapping[str, str], folder: Path, listed: Mapping[str, Mapping[str, str]]
) -> None:
    for item, here in said.items():
        there = listed.get(item, {}).get(what, "")
        if there and here and there != here:
            raise DataError(
                f"{imported.source}: expected the {what} of item {shown(item)} that {folder} has, {shown(there)}, got "
                f"{shown(here)}; two items have one id: give each its own"
            )
