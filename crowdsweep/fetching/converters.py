"""Converters of public datasets: each reads the files of one release, under the names that `data.public` gives them."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from jaxtyping import Float

from crowdsweep.data.on_disk.arrays_on_disk import read_npy
from crowdsweep.data.on_disk.text_files import bytes_of, opened_text, reading
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.delimited import records

_MOST_YAML = 1 << 20  # bytes


class Answer(NamedTuple):
    """One label that one annotator gave one item, as the dataset folder has it."""

    item: str
    annotator: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """Content of a release, as the dataset folder will have it.

    Attributes:
        answers: labels of annotators.
        items: all items in order, each with its columns of the items file (`gold`, `split`, `text`, …).
        features: kind of features → [items, features], rows in the order of the items.
    """

    answers: Sequence[Answer]
    items: Mapping[str, Mapping[str, str]]
    features: Mapping[str, Float[np.ndarray, "items features"]] = field(default_factory=dict)


Files = Mapping[str, Path]


def yes_or_no_yaml(files: Files) -> Release:
    """Reads Welinder's labels, `{annotator: {item: true}}`, and gold, `{item: true}`."""
    labels, gold = (_yaml_of(files[name]) for name in ("labels.yaml", "gt.yaml"))
    answers = [
        Answer(str(item), str(annotator), _code(answer, files["labels.yaml"]))
        for annotator, given in labels.items()
        for item, answer in _mapping(given, files["labels.yaml"]).items()
    ]
    items = {str(item): {"gold": _code(answer, files["gt.yaml"])} for item, answer in gold.items()}
    return Release(answers=answers, items=items)


def truth_inference_csv(files: Files) -> Release:
    """Reads the tables (question, worker, answer) and (question, truth) of the truth inference benchmark."""
    answers = _table(files["answer.csv"], "question", "worker", "answer")
    return _with_gold(answers, _table(files["truth.csv"], "question", "truth"))


def crowd_kit_csv(files: Files) -> Release:
    """Reads the tables (performer, task, label) and (task, label) that Crowd-Kit's datasets have."""
    answers = _table(files["answers.csv"], "task", "performer", "label")
    return _with_gold(answers, _table(files["gold.csv"], "task", "label"))


def rte_csv(files: Files) -> Release:
    """Reads CrowdTruth's copy of Snow's annotations; each row has its pair of texts."""
    path = files["rte.csv"]
    code = {"not_relevant": "0", "relevant": "1"}
    answers: list[Answer] = []
    items: dict[str, dict[str, str]] = {}
    columns = ("orig_id", "!amt_worker_ids", "response", "gold", "text", "hypothesis")
    for where, record in records(path, columns):
        item, annotator, response, gold, text, hypothesis = (record[name] for name in columns)
        if response not in code:
            raise DataError(f"{where}: expected {' or '.join(code)}, got {shown(response)}")
        answers.append(Answer(item, annotator, code[response]))
        items[item] = {"gold": gold, "text": html.unescape(text), "text_b": html.unescape(hypothesis)}
    return Release(answers=answers, items=items)


def music_csv(files: Files) -> Release:
    """Reads the labelled songs and the test songs: labels, gold genres and features."""
    answers = [Answer(*row) for row in _table(files["answers.csv"], "Input.song", "WorkerID", "Answer.pred_label")]
    items: dict[str, dict[str, str]] = {}
    features: list[list[float]] = []
    for split, name in (("train", "gold.csv"), ("test", "test.csv")):
        for where, record in records(files[name], ["id", "class"]):
            items[record["id"]] = {"split": split, "gold": record["class"]}
            numbers = (text for column, text in record.items() if column not in ("id", "class"))
            features.append([_number(text, where) for text in numbers])
    return Release(answers=answers, items=items, features={"marsyas": _matrix(features, files["gold.csv"])})


def labelme_matrix(files: Files) -> Release:
    """Reads a matrix of items × annotators, and gold and features of each split; items are named by their numbers."""
    items: dict[str, dict[str, str]] = {}
    features: list[np.ndarray] = []
    number = count()
    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        gold = _lines(files[f"Z_{name}.txt"])
        items |= {str(next(number)): {"split": split, "gold": label.strip()} for label in gold}
        features.append(read_npy(files[f"VGG_avg_{name}.npy"]))
        if features[-1].ndim != 2 or len(features[-1]) != len(gold):
            got = "×".join(map(str, features[-1].shape))
            raise DataError(f"{files[f'VGG_avg_{name}.npy']}: expected features of {len(gold)} items, got {got}")
    answers = list(_answers_of_matrix(files["answers.txt"]))
    return Release(answers=answers, items=items, features={"vgg16": np.concatenate(features)})


def sentences_matrix(files: Files) -> Release:
    """Reads a matrix as `labelme_matrix` does, with texts in place of features."""
    items: dict[str, dict[str, str]] = {}
    number = count()
    for split in ("train", "test"):
        gold, texts = (_lines(files[f"{what}_{split}.txt"]) for what in ("Z", "text"))
        if len(gold) != len(texts):
            raise DataError(f"{files[f'text_{split}.txt']}: expected {len(gold)} lines, got {len(texts)}")
        for label, text in zip(gold, texts, strict=True):
            items[str(next(number))] = {"split": split, "gold": label.strip(), "text": text.strip()}
    return Release(answers=list(_answers_of_matrix(files["answers.txt"])), items=items)


CONVERTERS: Mapping[str, Callable[[Files], Release]] = {
    "yes-or-no-yaml": yes_or_no_yaml,
    "truth-inference-csv": truth_inference_csv,
    "crowd-kit-csv": crowd_kit_csv,
    "rte-csv": rte_csv,
    "music-csv": music_csv,
    "labelme-matrix": labelme_matrix,
    "sentences-matrix": sentences_matrix,
}


def _with_gold(rows: Iterator[tuple[str, ...]], gold: Iterator[tuple[str, ...]]) -> Release:
    answers = [Answer(*row) for row in rows]
    items: dict[str, dict[str, str]] = {answer.item: {"gold": ""} for answer in answers}
    items |= {item: {"gold": label} for item, label in gold}
    return Release(answers=answers, items=items)


def _table(path: Path, *columns: str) -> Iterator[tuple[str, ...]]:
    """Yields the values of these columns, row by row."""
    yield from (tuple(record[name] for name in columns) for _, record in records(path, columns))


def _lines(path: Path) -> list[str]:
    """Returns the lines of a text, with any line endings, without a blank last line."""
    with reading(path, "lines of text"), opened_text(path) as file:
        lines = [line.rstrip("\r\n") for line in file]
    return lines[:-1] if lines and not lines[-1].strip() else lines


def _answers_of_matrix(path: Path) -> Iterator[Answer]:
    """Yields the labels in a matrix of items × annotators, cells separated by white space; -1 means no label."""
    width = 0
    for item, line in enumerate(_lines(path)):
        cells = line.split()
        width = width or len(cells)
        if len(cells) != width:
            raise DataError(f"{path}, line {item + 1}: expected {width} cells as in the first line, got {len(cells)}")
        yield from (Answer(str(item), str(who), cell) for who, cell in enumerate(cells) if cell != "-1")


def _yaml_of(path: Path) -> Mapping[Any, Any]:
    expected = "a YAML mapping"
    with reading(path, expected):
        found = yaml.safe_load(bytes_of(path, _MOST_YAML, expected).decode())
    return _mapping(found, path)


def _mapping(value: Any, path: Path) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{path}: expected a mapping, got {shown(value)}")
    return value


def _code(answer: Any, path: Path) -> str:
    if not isinstance(answer, bool):
        raise DataError(f"{path}: expected true or false, got {shown(answer)}")
    return str(int(answer))


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where}: expected a number, got {shown(text)}") from None


def _matrix(rows: Sequence[Sequence[float]], path: Path) -> Float[np.ndarray, "items features"]:
    if len({len(row) for row in rows}) != 1:
        raise DataError(f"{path}: expected rows of one length, in this file and in that of the items to test on")
    return np.array(rows)
