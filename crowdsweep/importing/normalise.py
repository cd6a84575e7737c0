"""Joins, when asked, names that an import spells in several ways, and notes what it joined."""

from collections import Counter
from dataclasses import replace
from typing import Any

from crowdsweep.data.spelling import alike
from crowdsweep.errors import DataError
from crowdsweep.importing.rows import ImportedRows


def normalised(imported: ImportedRows) -> ImportedRows:
    """Returns the same answers with one spelling for each class, item and annotator: the most frequent one.

    Surrounding spaces are removed. Of equally frequent spellings, one without such spaces is taken.

    Raises:
        DataError: two items (or annotators) become one and differ in a text, gold or other data.
    """
    rows = imported.rows
    labels = Counter(label for row in rows for label in row.labels)
    labels.update(label for given in imported.gold.values() for label in given)
    labels.update(dict.fromkeys(imported.classes, 0))
    items = Counter(dict.fromkeys(imported.items, 0))
    items.update(row.item for row in rows)
    classes, notes = _joined(labels, "class")
    ids, more = _joined(items, "item")
    people, last = _joined(Counter(row.annotator for row in rows), "annotator")
    texts: dict[str, dict[str, str]] = {}
    texts_by_kind = {"text": imported.text, "text_b": imported.text_b, "image": imported.image, "split": imported.split}
    for what, by_item in texts_by_kind.items():
        found = texts.setdefault(what, {})
        for item, value in by_item.items():
            _put(found, ids.get(item, item), value, imported, what.partition("_")[0])
    attributes: dict[str, Any] = {}
    for who, known in imported.attributes.items():
        _put(attributes, people.get(who, who), known, imported, "set of attributes", of="annotator")
    features: dict[str, tuple[float, ...]] = {}
    for item, numbers in imported.features.items():
        _put(features, ids.get(item, item), numbers, imported, "set of features")
    gold: dict[str, tuple[str, ...]] = {}
    for item, given in imported.gold.items():
        known = tuple(sorted({classes.get(label, label) for label in given}))
        _put(gold, ids.get(item, item), known, imported, "gold class")
    return replace(
        imported,
        rows=[
            row._replace(
                item=ids.get(row.item, row.item),
                annotator=people.get(row.annotator, row.annotator),
                labels=tuple(sorted({classes.get(label, label) for label in row.labels})),
            )
            for row in rows
        ],
        items=list(dict.fromkeys(ids.get(item, item) for item in imported.items)),
        **texts,
        classes=[classes.get(label, label) for label in imported.classes],
        attributes=attributes,
        features=features,
        shown={ids.get(item, item): data for item, data in imported.shown.items()},
        gold=gold,
        notes=[*imported.notes, *notes, *more, *last],
    )


def _joined(counts: Counter[str], kind: str) -> tuple[dict[str, str], list[str]]:
    """Returns the spelling that replaces each name, and a sentence for each group of joined names."""
    chosen: dict[str, str] = {}
    notes: list[str] = []
    for group in alike(counts):
        kept = max(group, key=lambda name: (counts[name], name == name.strip(), name))
        kept = kept.strip()
        chosen |= dict.fromkeys(group, kept)
        others = ", ".join(f"{name!r} ({counts[name]})" for name in list(group)[:8])
        notes.append(f"{kind} {kept!r} merges {others}")
    alone = {name: name.strip() for name in counts if name not in chosen and name != name.strip()}
    if alone:
        notes.append(f"spaces around the names of {len(alone)} {kind}{'es' if kind == 'class' else 's'} were cut off")
    return {**chosen, **alone}, notes


def _put(held: dict[str, Any], item: str, value: Any, imported: ImportedRows, what: str, of: str = "item") -> None:
    if held.setdefault(item, value) != value:
        raise DataError(
            f"{imported.source}: expected one {what} for {of} {item!r}, got a different one from an id spelled "
            f"alike; these are two {of}s: import without --normalise"
        )
