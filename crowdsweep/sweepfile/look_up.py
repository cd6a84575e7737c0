"""Titles of datasets and descriptions of models, as `crowdsweep datasets` and `crowdsweep models` print them."""

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from crowdsweep.data import catalogue
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.errors import BadInput, DataError, shortened
from crowdsweep.models import registered
from crowdsweep.paths import is_file, is_folder
from crowdsweep.registry import discovery
from crowdsweep.registry.parameters import Parameter
from crowdsweep.search.space import Space
from crowdsweep.units import counted

ABOUT_FILE = "dataset.yaml"
COLUMNS = 80
WITH_CHECKPOINTS = "a fit whose slot was lost continues from its last checkpoint"
WITHOUT_CHECKPOINTS = "a fit whose slot was lost starts again from the beginning: this model writes no checkpoints"


def dataset_titles() -> dict[str, str]:
    """Returns the title of each dataset that can be named, by name; reads no data and imports no source."""
    built_in = discovery.titles("dataset")
    return {name: built_in[name] if name in built_in else _folder_title(name) for name in catalogue.names()}


def describe_model(name: str) -> dict[str, Any]:
    """Returns a JSON-able description of a model: what it is, needs and takes.

    Raises:
        UnknownName: there is no such model.
    """
    info = registered.model_info(name)
    yes_or_no = {
        "deterministic": info.deterministic,
        "monotone objective": info.monotone_objective,
        "class-symmetric": info.label_symmetric,
    }
    return {
        "name": info.name,
        "title": info.title,
        "source": info.source,
        "needs": sorted(info.needs),
        "also takes": sorted(info.supports),
        "properties": [word for word, holds in yes_or_no.items() if holds],
        "when lost": WITH_CHECKPOINTS if info.checkpoints else WITHOUT_CHECKPOINTS,
        "version": info.version,
        "hyper-parameters": {
            parameter.name: {
                "default": parameter.default,
                "allowed": parameter.allowed,
                "about": parameter.about,
                **({"when": when} if when else {}),
            }
            for parameter, when in registered.every_parameter(name)
        },
        "default search space": {key: dict(shape) for key, shape in info.space.items()},
    }


def model_in_words(name: str) -> str:
    """Returns the description of a model as text of 80 columns.

    Raises:
        UnknownName: there is no such model.
    """
    described = describe_model(name)
    lines = [fill(f"{name}: {described['title']}", COLUMNS), ""]
    for key in ("source", "needs", "also takes", "properties", "when lost", "version"):
        value = described[key]
        words = (", ".join(value) or "none") if isinstance(value, list) else str(value)
        lines.append(fill(f"{key:<12}{words}", COLUMNS, subsequent_indent=" " * 12))
    lines += ["", "hyper-parameters" if described["hyper-parameters"] else "no hyper-parameters"]
    space = Space.parse(described["default search space"])
    for parameter, when in registered.every_parameter(name):
        searched = space.dimensions.get(parameter.name)
        lines += [
            "",
            fill(_about(parameter), COLUMNS, initial_indent="  ", subsequent_indent=" " * 6, break_on_hyphens=False),
        ]
        facts = [*_facts(parameter, when), *([f"searched: {searched}"] if searched is not None else [])]
        sentence = fill(
            "; ".join(facts), COLUMNS, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
        )
        lines.append(sentence)
    if space.dimensions:
        printed = f"`crowdsweep models {name} --space` prints it as a file"
        lines += ["", fill(f"`search: default` has {_points(space)}; {printed}.", COLUMNS)]
    return "\n".join(lines)


def space_file(name: str) -> str:
    """Returns a model's default search space as a file that a sweep file can name.

    Raises:
        UnknownName: there is no such model.
        BadInput: the model has nothing to search.
    """
    shapes = json.loads(json.dumps(dict(registered.model_info(name).space)))  # tuples become lists
    if not shapes:
        raise BadInput(f"nothing can be searched in {name!r}: it has no default space")
    known = {parameter.name: (parameter, when) for parameter, when in registered.every_parameter(name)}
    head = (
        f"Default space of {name}: {_points(Space.parse(shapes))}. Save this as spaces/{name}.yaml beside a sweep "
        f"file, change it, and write `search: {name}` there."
    )
    lines = [_comment(head)]
    for key, shape in shapes.items():
        lines += ["", _comment(_about(known[key][0])), _comment("; ".join(_facts(*known[key])))]
        lines.append(f"{key}: {yaml.safe_dump(shape, default_flow_style=True, sort_keys=False, width=10_000).strip()}")
    return "\n".join(lines)


def _about(parameter: Parameter) -> str:
    return f"{parameter.name}: {parameter.about}" if parameter.about else parameter.name


def _facts(parameter: Parameter, when: Mapping[str, list[str]]) -> list[str]:
    default = "no default" if parameter.required else f"default {json.dumps(parameter.default)}"
    return [
        parameter.allowed,
        default,
        *(f"with {choosing} {' or '.join(choices)} only" for choosing, choices in when.items()),
    ]


def _points(space: Space) -> str:
    return "infinitely many points" if space.size is None else counted(space.size, "point")


def _comment(words: str) -> str:
    return fill(words, COLUMNS, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _folder_title(name: str) -> str:
    for place in catalogue.search_path():
        about = place / name / ABOUT_FILE
        if is_file(about):
            try:
                return shortened(" ".join(read_description(place / name).title.split()))
            except DataError as error:
                return f"cannot be used: {error}"
        if is_folder(Path(place / name)):
            return ""
    return ""
