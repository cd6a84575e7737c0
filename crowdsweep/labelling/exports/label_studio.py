"""Labels for Label Studio: tasks with predictions, and the labelling interface that shows them.

A prediction answers one question (`from_name`) about one object that is shown (`to_name`), with a score and the model's
name (https://labelstud.io/guide/predictions). Both are names in the labelling interface of a project. They are known
for the project that a dataset was exported from, and read from the interface of another project (`read_interface`). A
new project gets our interface.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.text_files import bytes_of, reading
from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.labelling.exports.items import described, labelled_as_items, shown_of
from crowdsweep.labelling.labelled import Labelled

_LARGEST = 1 << 20  # bytes of an interface
_FEWEST_STARS, _LONGEST = 5, 4  # stars of a Rating that gives no number; limit on the digits of that number


@dataclass(frozen=True, kw_only=True)
class Interface:
    """The names in a project's labelling interface.

    Attributes:
        question: `name` of its Choices, or of its Rating.
        shown: `name` of the tag that the question is about.
        key: key of a task's data that this tag shows.
        stars: number of stars of a Rating; None for Choices.
    """

    question: str = "label"
    shown: str = "text"
    key: str = "text"
    stars: int | None = None


def own_interface(dataset: CrowdDataset) -> Interface:
    """Returns the names in the project that the dataset was exported from, or our own names where there is no such
    project."""
    about = described(dataset)
    if about.form != "label-studio":
        return Interface()
    highest = max([_FEWEST_STARS, *(int(label) for label in dataset.class_labels if label.isdecimal())])
    return Interface(
        question=about.question or Interface.question,
        shown=about.about or Interface.shown,
        stars=highest if about.numbers else None,
    )


def read_interface(path: Path, dataset: CrowdDataset) -> Interface:
    """Reads the labelling interface of a project: its one Choices that has all of a dataset's classes, or its Rating if
    the dataset has ratings.

    Args:
        path: XML, as the project's settings show it under "Code".
        dataset: the dataset whose classes will be predicted.

    Raises:
        BadInput: the file is not XML, has no such Choices or several, or does not show what they are about.
    """
    classes, stars = dataset.class_labels, own_interface(dataset).stars
    kind = "Choices" if stars is None else "Rating"
    expected = "the labelling interface of a Label Studio project, XML as its settings show it"
    with reading(path, expected):
        text = bytes_of(path, _LARGEST, expected).decode("utf-8")
        root = ElementTree.fromstring(text)  # noqa: S314 - expat caps what entities stand for
    asked = root.findall(f".//{kind}")
    fit = [choices for choices in asked if _missing(choices, classes) is None]
    if len(fit) != 1:
        there = "; ".join(f"{one.get('name')} without {_missing(one, classes)!r}" for one in asked if one not in fit)
        found = f"{len(fit)} of them" if fit else shortened(there) or "none"
        raise BadInput(f"{path}: expected one <{kind}> with all of {shortened(', '.join(classes))}, got {found}")
    (choices,) = fit
    if dataset.scale == "multilabel" and choices.get("choice") != "multiple":
        raise BadInput(f'{path}: expected choice="multiple" at <Choices>, as items may have several classes; got one')
    question, shown = choices.get("name", ""), choices.get("toName", "")
    tag = next((tag for tag in root.iter() if tag.get("name") == shown and tag is not choices), None)
    value = "" if tag is None else tag.get("value", "")
    if not (question and shown and value.startswith("$") and len(value) > 1):
        raise BadInput(
            f'{path}: expected <{kind} name="…" toName="{shown or "…"}"> and a tag of that name with value="$…", got '
            f"name {question!r} and value {value!r}"
        )
    return Interface(question=question, shown=shown, key=value[1:], stars=stars)


def check_shown(interface: Interface, dataset: CrowdDataset, path: Path) -> None:
    """Checks that the items have what an interface shows: annotators would see ids in its place.

    Raises:
        BadInput: the interface's key is not known of some item.
    """
    if dataset.items.text is not None or interface.key == "item":
        return
    known = shown_of(dataset)
    lacking = next(
        (name for name in dataset.item_names if interface.key not in known.get(name, {}).get("data", {})), None
    )
    if lacking is not None:
        raise BadInput(
            f"{path}: it shows ${interface.key}, which is not known of item {lacking!r}; import the project's export "
            f"again by `crowdsweep init`, or put the column text into items.csv"
        )


def label_studio(labelled: Labelled, interface: Interface | None) -> dict[str, bytes]:
    """Returns files to import: tasks with predictions and, where no interface is given, an interface that shows
    them."""
    names = interface or own_interface(labelled.dataset)
    tasks: list[dict[str, Any]] = []
    for item in labelled_as_items(labelled):
        rated = names.stars is not None
        value = {"rating": item.label} if rated else {"choices": [str(label) for label in item.labels]}
        answer = {"from_name": names.question, "to_name": names.shown, "type": "rating" if rated else "choices"}
        prediction = {
            "model_version": labelled.fitted.model,
            "score": item.probability,
            "result": [answer | {"value": value}] if item.labels else [],
        }
        number = {} if item.kept.get("id") is None else {"id": item.kept["id"]}
        data = {"item": item.name, names.key: item.text or item.name, **item.kept.get("data", {})}
        tasks.append({**number, "data": data, "predictions": [prediction]})
    text = json.dumps(tasks, ensure_ascii=False, indent=1)
    files = {"label-studio.json": text.encode(errors="backslashreplace")}
    if interface is None:
        files["label-studio.xml"] = _written(names, labelled.dataset).encode()
    return files


def _missing(choices: ElementTree.Element, classes: Sequence[str]) -> str | None:
    """Returns the first class that cannot be chosen; None where all can, or where the tasks define the choices."""
    if choices.tag == "Rating":
        stars = choices.get("maxRating", "")
        most = int(stars) if stars.isdecimal() and len(stars) < _LONGEST else _FEWEST_STARS
        return next((name for name in classes if not (name.isdecimal() and int(name) <= most)), None)
    there = {choice.get("alias") or choice.get("value") for choice in choices.iter("Choice")}
    return next((name for name in classes if name not in there), None) if there else None


def check_written(names: Sequence[str]) -> None:
    """Checks that an interface with these names can be written and read back: XML cannot hold every character.

    Raises:
        BadInput: no such interface can be written.
    """
    for name in names:
        try:
            root = ElementTree.fromstring(f"<View>{_choice(name)}</View>")  # noqa: S314 - our own
            kept = [choice.get("value") for choice in root.iter("Choice")]
        except (ElementTree.ParseError, UnicodeError):
            kept = []
        if kept != [name]:
            raise BadInput(
                f"--export label-studio: expected classes whose names XML can hold, got {plain(shortened(name))!r}, "
                f"with a character that it cannot; rename the class, or give the project's own by --interface"
            )


def _written(names: Interface, dataset: CrowdDataset) -> str:
    question, shown = quoteattr(names.question), quoteattr(names.shown)
    kind = "multiple" if dataset.scale == "multilabel" else "single"
    asked = [
        f'  <Choices name={question} toName={shown} choice="{kind}">',
        *(f"    {_choice(name)}" for name in dataset.class_labels),
        "  </Choices>",
    ]
    if names.stars is not None:
        asked = [f'  <Rating name={question} toName={shown} maxRating="{names.stars}"/>']
    lines = ["<View>", f"  <Text name={shown} value={quoteattr('$' + names.key)}/>", *asked, "</View>\n"]
    return "\n".join(lines)


def _choice(name: str) -> str:
    return f"<Choice value={quoteattr(name)}/>"
