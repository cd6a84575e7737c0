"""What can be named, and all that is known of one model: what `crowdsweep models` and `crowdsweep datasets` print."""

from pathlib import Path
from typing import Any

import yaml

from crowdsweep.data import catalogue
from crowdsweep.models import registered
from crowdsweep.registry import discovery

ABOUT_FILE = "dataset.yaml"


def dataset_titles() -> dict[str, str]:
    """Returns the title of each dataset that can be named, by name; reads no data and imports no source."""
    built_in = discovery.titles("dataset")
    return {name: built_in[name] if name in built_in else _folder_title(name) for name in catalogue.names()}


def describe_model(name: str) -> dict[str, Any]:
    """Returns what a model is, needs and takes, JSON-able.

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
        "version": info.version,
        "hyper-parameters": {
            parameter.name: {"default": parameter.default, "allowed": parameter.allowed, "about": parameter.about}
            for parameter in registered.parameters(name).values()
        },
        "default search space": {key: dict(shape) for key, shape in info.space.items()},
    }


def _folder_title(name: str) -> str:
    for place in catalogue.search_path():
        about = place / name / ABOUT_FILE
        if about.is_file():
            try:
                content = yaml.safe_load(about.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError):
                return f"cannot be used: {about} is not YAML in UTF-8"
            return str(content.get("title", "")) if isinstance(content, dict) else ""
        if Path(place / name).is_dir():
            return ""
    return ""
