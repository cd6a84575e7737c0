"""Reads the JSON of the LeWiDi shared tasks (learning with disagreements): a file for each split, or their folder.

CSC_train.json, CSC_dev.json, CSC_test.json, of the third edition (2025):

    {"3944": {"text": {"context": "…", "response": "…"}, "annotators": "Ann844,Ann845", "split": "dev", "lang": "en",
              "annotations": {"Ann844": "1", "Ann845": "4"}, "soft_label": {"1": 0.5, "2": 0.0, "4": 0.5, "6": 0.0}}}

of the second (2023), whose items are numbered from 1 in each file, and whose conversations are JSON inside a text:

    {"1": {"text": "…", "annotators": "Ann1,Ann2", "annotations": "0,1", "soft_label": {"0": 0.5, "1": 0.5}}}

CSC_annotators_meta.json (2025); annotators of MP are called "12" in this file and "Ann12" among the answers:

    {"Ann844": {"Gender": "Female", "Age": "56"}, "Ann845": {"Gender": "DATA_EXPIRED", "Age": "DATA_EXPIRED"}}

These are the forms that the organisers publish (https://le-wi-di.github.io; seen: CSC, MP, Paraphrase, VariErrNLI,
HS-Brexit, ConvAbuse), including commas after the last attribute. In VariErrNLI, `soft_label` has a distribution of "0"
and "1" for each class, and an answer may name several classes ("entailment,neutral"): its labels are multi-label. Test
files are first published with empty answers (CSC_test_clear.json); their items then have no answers.

Assumptions, as no file says so: classes are the keys of `soft_label` and the given answers; if these are more than two
whole numbers, they are a scale in numerical order. A text of two parts becomes `text` and `text_b`; a text of more
parts becomes one text with one line per part. `soft_label` is the share of the answers, which is always computed anew;
if `soft_label` differs, a note says so (ConvAbuse: answers from -3 to 1, soft labels of 0 and 1). `hard_label`, the
vote, is not gold. `lang` and `other_info` are not kept.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crowdsweep.data.dataset import SPLITS
from crowdsweep.data.missing import USUAL
from crowdsweep.data.on_disk.json_text import an_object, document, part
from crowdsweep.data.on_disk.text_files import LONGEST_FIELD, opened_text, reading
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, text_of
from crowdsweep.paths import is_file, is_folder

_FILE = re.compile(r"(.+)_(train|dev|test|test_clear)\.json(\.gz)?", re.IGNORECASE)
_META = "_annotators_meta.json"
_EXPIRED = "DATA_EXPIRED"  # value of an attribute that its annotator has withdrawn
_TEXT_OR_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_CLOSE = 0.02  # soft labels of 2023 have two decimals


@dataclass(kw_only=True)
class _Items:
    """Data that is gathered of the items besides their answers."""

    split: dict[str, str] = field(default_factory=dict[str, str])
    text_b: dict[str, str] = field(default_factory=dict[str, str])
    classes: dict[str, None] = field(default_factory=dict[str, None])
    annotators: dict[str, None] = field(default_factory=dict[str, None])
    several: bool | None = None
    differing: int = 0


def is_lewidi(first: Mapping[str, Any]) -> bool:
    """Returns whether the first object of a JSON file holds items in the form of these tasks."""
    item = next(iter(first.values()), None)
    if not isinstance(item, dict) or not {"annotations", "annotators"} <= set(item):
        return False
    return "soft_label" in item or "," in str(item["annotators"])


def lewidi_files(folder: Path) -> dict[str, list[Path]]:
    """Returns the files of splits in a folder, by dataset; an answered test file replaces the one without answers."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match:
            found.setdefault(match[1], {})[match[2].lower()] = path
    for files in found.values():
        if "test" in files:
            files.pop("test_clear", None)
    return {name: list(files.values()) for name, files in found.items()}


def read_lewidi(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads the items, answers and splits of one dataset, and the attributes of its annotators from the file beside.

    Raises:
        DataError: a folder has none of these files, or those of several datasets; or an item is invalid: the message
            says which one, and at which key.
    """
    files = _files_of(path)
    gathered, about = RowCollector(path, asked.missing), _Items()
    read = [(file, _items_of(file)) for file in files]
    numbered_anew = len({name for _, items in read for name in items}) < sum(len(items) for _, items in read)
    for file, items in read:
        for name, given in items.items():
            where = f"{file}, item {shown(name)}"
            split = _split_of(an_object(given, where).get("split"), file, where)
            _add(gathered, about, f"{split or file.stem}-{name}" if numbered_anew else name, split, given, where)
    if numbered_anew:
        gathered.notes.append("the files number their items alike, so each id has its split before it")
    if about.differing:
        gathered.notes.append(
            f"soft labels of {about.differing:,} items are not the shares of their answers; the answers count"
        )
    if any("hard_label" in given for _, items in read for given in items.values()):
        gathered.notes.append("hard labels are the vote of the annotators, and not taken for gold")
    imported = gathered.imported(multilabel=bool(about.several))
    people = dict.fromkeys([*about.annotators, *(row.annotator for row in imported.rows)])
    classes = [*about.classes, *(label for row in imported.rows for label in row.labels)]
    return replace(
        imported,
        split=about.split,
        text_b=about.text_b,
        classes=tuple(about.classes),
        ordinal=not about.several and len(set(classes)) > 2 and all(map(_is_whole, classes)),
        attributes=_attributes(files[0], list(people)),
    )


def _files_of(path: Path) -> list[Path]:
    if not is_folder(path):
        return [path]
    found = lewidi_files(path)
    if len(found) != 1:
        got = f"those of several ({', '.join(found)}); name one file, or put each dataset into a folder of its own"
        raise DataError(
            f"{path}: expected files NAME_train.json, NAME_dev.json or NAME_test.json of one dataset, got "
            f"{got if found else 'none'}"
        )
    return next(iter(found.values()))


def _items_of(file: Path) -> Mapping[str, Any]:
    content = document(file)
    if not isinstance(content, dict) or not all(isinstance(given, dict) for given in content.values()):
        raise DataError(f"{file}: expected an object of items, each an object, got {shown(content)}")
    return content


def _split_of(given: Any, file: Path, where: str) -> str:
    match = _FILE.fullmatch(file.name)
    split = given if given is not None else match[2].lower().removesuffix("_clear") if match else None
    if split is None:
        return ""
    if split not in SPLITS[1:]:
        raise DataError(f"{where}, split: expected one of {', '.join(SPLITS[1:])}, got {shown(split)}")
    return str(split)


def _add(gathered: RowCollector, about: _Items, name: str, split: str, given: Mapping[str, Any], where: str) -> None:
    """Adds one item, with its text and its answers."""
    parts = _parts(given.get("text"), where)
    texts = list(parts.values())
    item = gathered.item(name, where, texts[0] if len(texts) == 2 else "\n".join(texts))
    if split:
        about.split[item] = split
    if len(texts) == 2:
        about.text_b[item] = texts[1]
    asked = str(given.get("annotators") or "").split(",")  # also of unanswered items: whose answers are to be predicted
    gathered.show(item, parts, annotators=[who for who in asked if who])
    soft = part(given.get("soft_label"), dict, f"{where}, soft_label")
    several = bool(soft) and all(isinstance(share, dict) for share in soft.values())
    if about.several is None:
        about.several = several
    if about.several != several:
        raise DataError(f"{where}, soft_label: expected soft labels of one kind in all items, got {shown(soft)}")
    about.classes.update(dict.fromkeys(_class(label) for label in soft))
    answers = dict(_answers(given, where))
    about.annotators.update(dict.fromkeys(answers))
    labels: list[list[str]] = []
    for who, label in answers.items():
        text = label if isinstance(label, str) else "" if label is None else text_of(label, "a label", where, USUAL)
        chosen = [_class(one.strip()) for one in text.split(",")] if several else [_class(text)]
        gathered.answer(item, who, chosen, where, key=f"annotations.{who}")
        if any(chosen):
            labels.append(chosen)
    about.differing += bool(labels) and not _are_shares(soft, labels)


def _parts(text: Any, where: str) -> dict[str, str]:
    """Returns the parts of a text by name; ConvAbuse has them as JSON inside a text."""
    if isinstance(text, str) and text.startswith("{"):
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return {"text": text}
    if isinstance(text, str):
        return {"text": text}
    return {str(name): str(value) for name, value in part(text, dict, f"{where}, text").items()}


def _answers(given: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yields (annotator, label) of an item."""
    answers = given.get("annotations")
    if isinstance(answers, dict):
        yield from answers.items()
        return
    people, labels = (str(given.get(key) or "").split(",") for key in ("annotators", "annotations"))
    if len(people) != len(labels) or len(set(people)) < len(people):
        raise DataError(
            f"{where}, annotations: expected a label for each of the annotators, who differ, got {len(labels)} labels "
            f"and {len(set(people))} annotators; correct them"
        )
    yield from zip(people, labels, strict=True)


def _are_shares(soft: Mapping[str, Any], labels: list[list[str]]) -> bool:
    """Returns whether soft labels are the shares of the answers; true as well if they are no numbers."""
    for key, value in soft.items():
        share = value.get("1") if isinstance(value, dict) else value
        known = isinstance(share, int | float)
        if known and abs(share - sum(_class(key) in chosen for chosen in labels) / len(labels)) > _CLOSE:
            return False
    return True


def _class(text: str) -> str:
    """Returns a class unchanged, except that numbers such as `1.0` in MP's soft labels become whole."""
    return text.removesuffix(".0") if _is_whole(text.removesuffix(".0")) else text


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _attributes(file: Path, people: list[str]) -> dict[str, dict[str, str]]:
    """Returns the attributes of annotators from the file beside those of the splits; empty if there is none."""
    match = _FILE.fullmatch(file.name)
    path = file.with_name(f"{match[1]}{_META}") if match else file
    if not match or not is_file(path):
        return {}
    given = _without_last_commas(path)
    if not isinstance(given, dict):
        raise DataError(f"{path}: expected an object of annotators, each an object of attributes, got {shown(given)}")
    found: dict[str, dict[str, str]] = {}
    for who in people:
        own = part(given.get(who, given.get(who.removeprefix("Ann"))), dict, f"{path}, annotator {who}")
        found[who] = {name: _attribute(value) for name, value in own.items()}
    return found


def _attribute(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value in (None, _EXPIRED) or value != value else str(value)


def _without_last_commas(path: Path) -> Any:
    """Returns a JSON document that may have commas after the last entry of an object, which JSON does not allow."""
    with reading(path, "JSON"), opened_text(path) as file:
        return json.loads(_TEXT_OR_LAST_COMMA.sub(lambda found: found[1] or "", file.read(LONGEST_FIELD)))
