"""Compares new answers with those of a dataset: which are new, which repeat one, which contradict one."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from crowdsweep.data.oddities import Oddity
from crowdsweep.data.on_disk.folder_files import JOIN, Classes
from crowdsweep.errors import DataError, shown, suggestion
from crowdsweep.importing.rows import ImportedRows, Row

Contradictions = Literal["refuse", "keep", "replace"]
Pair = tuple[str, str]
"""An item and an annotator."""
Labels = tuple[str, ...]
_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class NewAnswers:
    """Answers that are new, and those that they replace.

    Attributes:
        rows: answers to add.
        replaced: pairs whose existing answers are removed, since new ones replace them.
        told: what the user should know of repeated and contradicting answers.
    """

    rows: Sequence[Row]
    replaced: Collection[Pair]
    told: Sequence[Oddity]


def in_classes_of(imported: ImportedRows, classes: Classes, new: Collection[str], where: Path) -> ImportedRows:
    """Returns answers and gold with the labels of a dataset's classes; a file may use a class's label or its name.

    Args:
        imported: answers and gold as written in a file.
        classes: classes of the dataset.
        new: labels of classes that the dataset does not have yet.
        where: folder of the dataset, for messages.

    Raises:
        DataError: a label is no class (the message names the nearest one), or an answer has several classes and those
            of the dataset have one.
    """
    if imported.multilabel and not classes.joined:
        raise DataError(
            f"{imported.source}: expected one class in each answer, as in {where}, got several; where items may have "
            f"several classes, make a dataset of its own of both files"
        )
    times = Counter(classes.names)
    called = {name: label for label, name in zip(classes.code, classes.names, strict=True) if times[name] == 1}
    known = {**called, **{label: label for label in (*classes.code, *new)}}
    unknown: Counter[str] = Counter()

    def taken(labels: Labels) -> Labels:
        parts = [
            part
            for label in labels
            for part in (classes.parts(label) if classes.joined and label not in known else [label])
        ]
        unknown.update(part for part in parts if part not in known)
        return tuple(sorted({known.get(part, part) for part in parts}))

    rows = [row._replace(labels=taken(row.labels)) for row in imported.rows]
    gold = {item: taken(labels) for item, labels in imported.gold.items()}
    if unknown:
        label = next(iter(unknown))
        others = ", ".join(f"{shown(other)} ({n})" for other, n in list(unknown.items())[1:_NAMED])
        more = f"; also unknown: {others}{', …' if len(unknown) > _NAMED else ''}" if others else ""
        raise DataError(
            f"{imported.source}: expected labels that are classes of {where}, got {shown(label)} ({unknown[label]}), "
            f"{suggestion(label, known)}{more}; correct the file, or add a class by --new-class {label!r}"
        )
    return replace(imported, rows=rows, gold=gold)


def compared(
    rows: Iterable[Row], standing: Mapping[Pair, Collection[Labels]], contradictions: Contradictions, where: str
) -> NewAnswers:
    """Returns the answers that are new.

    An answer that the dataset has already, or that came before in `rows`, is left out. An answer that gives a pair of
    item and annotator another label contradicts the earlier one. It is refused, or kept beside the earlier one, or
    replaces it; of several, the last one does. The same answers added a second time are then never new.

    Args:
        rows: the answers, in their order.
        standing: labels that the dataset has for each pair.
        contradictions: what to do with contradicting answers.
        where: where the answers come from, for the message.

    Raises:
        DataError: there are contradictions, and they are refused.
    """
    of_pair: dict[Pair, dict[Labels, Row]] = {}
    repeated: list[str] = []
    for row in rows:
        said = of_pair.setdefault((row.item, row.annotator), {})
        if row.labels in said or row.labels in standing.get((row.item, row.annotator), ()):
            repeated.append(f"{_named(row.item, row.annotator)}: {_in_words(row.labels)}")
        said.pop(row.labels, None)
        said[row.labels] = row  # what was said last comes last
    new: list[Row] = []
    replaced: list[Pair] = []
    contrary: list[str] = []
    for pair, said in of_pair.items():
        there = standing.get(pair, ())
        fresh = [row for labels, row in said.items() if labels not in there]
        if fresh and len(there) + len(fresh) > 1:
            words = [_in_words(labels) for labels in (*there, *(row.labels for row in fresh))]
            contrary.append(f"{_named(*pair)}: {', then '.join(words)}")
            if contradictions == "replace":
                fresh = [row for row in fresh if row is next(reversed(said.values()))]
                replaced += [pair] if fresh and there else []
        new += fresh
    told = [_oddity("answers that are there already, left out", repeated)] if repeated else []
    if contrary and contradictions == "refuse":
        examples = "; ".join(contrary[:_NAMED]) + ("; …" if len(contrary) > _NAMED else "")
        raise DataError(
            f"{where}: expected one label per annotator and item, got contradicting ones for "
            f"{len(contrary)} ({examples}); --contradictions keep counts both, --contradictions replace keeps the last "
            f"one"
        )
    if contrary:
        kept = "both kept" if contradictions == "keep" else "the last one kept"
        told.append(_oddity(f"pairs of item and annotator with contradicting labels, {kept}", contrary))
    return NewAnswers(rows=new, replaced=replaced, told=told)


def _oddity(kind: str, examples: Sequence[str]) -> Oddity:
    return Oddity(kind=kind, count=len(examples), examples=tuple(examples[:_NAMED]))


def _named(item: str, annotator: str) -> str:
    return f"{item[:60]} by {annotator[:60]}"


def _in_words(labels: Labels) -> str:
    return shown(JOIN.join(labels))
