"""The pages of the site that nobody writes: models, keys of sweep files, metrics and commands, each made of what the
package says of itself; `crowdsweep explain` and `crowdsweep models` print the same."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from json import dumps
from pathlib import Path
from typing import Any

import click
import yaml

from crowdsweep.cli.commands import commands
from crowdsweep.metrics.metric_table import METRICS, CostMetric, ItemMetric, MetricInfo
from crowdsweep.registry import discovery
from crowdsweep.sweep.explain import Key, keys
from crowdsweep.sweepfile.look_up import describe_model

ROOT = Path(__file__).parent.parent
_FAMILIES = {
    "aggregate": "Labels alone",
    "joint": "A classifier and the annotators together",
    "two_stage": "An aggregation, then a classifier",
}
_BETTER = {"maximize": "higher", "minimize": "lower", None: "neither"}


def model_pages() -> dict[str, str]:
    """Returns the Markdown of each model's page, by its address."""
    return {f"reference/models/{place.name}.md": _model(place) for place in _own_models()}


def generated(text: str) -> str:
    """Returns a page with what it asks for: `<!-- generate keys -->`."""
    return _GENERATE.sub(lambda match: _PARTS[match[1]](), text)


def explained() -> dict[str, str]:
    """Returns where each model, and each key that has a path (`budget.points`), is explained, by its name."""
    models = {place.name: f"reference/models/{place.name}.md" for place in _own_models()}
    return models | {key: f"reference/keys.md#{key}" for key in keys() if "." in key}


def model_navigation() -> list[dict[str, list[str]]]:
    """Returns the addresses of the models' pages, by family."""
    found: dict[str, list[str]] = defaultdict(list)
    for place in _own_models():
        found[_family(place)].append(f"reference/models/{place.name}.md")
    return [{title: found[family]} for family, title in _FAMILIES.items()]


def _own_models() -> list[discovery.Place]:
    """Returns the places of the models of this package: plug-ins of whoever builds are not the reader's."""
    return [place for place in discovery.find("model").values() if place.module.startswith("crowdsweep.models.")]


def _family(place: discovery.Place) -> str:
    return place.module.split(".")[2]


def _models() -> str:
    titles = discovery.titles("model")
    parts: list[str] = []
    for family, title in _FAMILIES.items():
        rows = [
            [f"[`{place.name}`]({place.name}.md)", titles[place.name]]
            for place in _own_models()
            if _family(place) == family
        ]
        parts += [f"## {title}", _table(["model", "what it is"], rows)]
    return "\n\n".join(parts)


def _model(place: discovery.Place) -> str:
    known = describe_model(place.name)
    idea, _, rest = discovery.docstring(place).partition("\n")
    facts = [
        ("source", known["source"]),
        ("needs", ", ".join(known["needs"]) or "labels alone"),
        ("also takes", ", ".join(known["also takes"]) or "nothing else"),
        ("properties", ", ".join(known["properties"]) or "none"),
        ("when its process is lost", known["when lost"]),
        ("version", str(known["version"])),
    ]
    parts = [f"# {place.name}", f"**{idea}**", rest.strip("\n"), "## Facts", _table(["", ""], map(list, facts))]
    parts += ["## Hyper-parameters", *_parameters(known["hyper-parameters"], known["default search space"])]
    if known["default search space"]:
        shapes = yaml.safe_dump(_plain(known["default search space"]), sort_keys=False, default_flow_style=None)
        parts += ["## Search space", f"What `search: default` searches:\n\n```yaml\n{shapes}```"]
    return "\n\n".join(parts)


def _parameters(known: Mapping[str, Mapping[str, Any]], searched: Mapping[str, Any]) -> Iterator[str]:
    if not known:
        yield "None."
        return
    rows = [
        [
            _anchored(name),
            f"`{dumps(facts['default'])}`",
            facts["allowed"],
            _sentence(facts["about"])
            + "".join(f" With `{key}` {' or '.join(which)} only." for key, which in facts.get("when", {}).items())
            + (" Searched by default." if name in searched else ""),
        ]
        for name, facts in known.items()
    ]
    yield _table(["name", "default", "takes", "what it does"], rows)


def _plain(value: Any) -> Any:
    """Returns mappings, lists and scalars as YAML has them: of shapes some are tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list | tuple) else value


def _keys() -> str:
    groups: dict[str, dict[str, Key]] = defaultdict(dict)
    for path, key in keys().items():
        groups[path.partition(".")[0]][path] = key
    alone = {path: key for name, group in groups.items() if list(group) == [name] for path, key in group.items()}
    parts = ["## At the top", _key_table(alone)]
    for name, group in groups.items():
        if name not in alone:
            about = [_sentence(group.pop(name).about)] if name in group else []
            parts += [f"## {name}", *about, _key_table(group)]
    return "\n\n".join(parts)


def _key_table(found: Mapping[str, Key]) -> str:
    rows = [
        [
            f'<span id="{path}">`{path}`</span>',
            f"`{key.default}`" if key.default else "",
            key.takes,
            _sentence(key.about),
        ]
        for path, key in found.items()
    ]
    return _table(["key", "default", "takes", "what it does"], rows)


def _metrics() -> str:
    parts: list[str] = []
    groups = {
        "Of items": [info for info in METRICS.values() if isinstance(info, ItemMetric)],
        "Of answers and annotators": [
            info for info in METRICS.values() if not isinstance(info, ItemMetric | CostMetric)
        ],
        "What a trial costs": [info for info in METRICS.values() if isinstance(info, CostMetric)],
    }
    for title, infos in groups.items():
        rows = [[*_metric(info)] for info in infos]
        parts += [f"## {title}", _table(["metric", "what it is", "better", "numbers", "labels"], rows)]
    return "\n\n".join(parts)


def _metric(info: MetricInfo) -> Iterator[str]:
    yield _anchored(info.name)
    yield f"{info.words}: {info.about}" if info.about else info.words
    yield _BETTER[info.goal]
    ends = [f"{end:g}" if abs(end) < float("inf") else "" for end in (info.low, info.high)]
    reach = f"{ends[0]} to {ends[1]}" if all(ends) else f"from {ends[0]}" if ends[0] else f"to {ends[1]}"
    yield f"{reach}{'; shown in %' if info.is_share else info.unit and f' {info.unit}'}"
    yield ", ".join(info.scales)


def _commands() -> str:
    top = click.Context(commands, info_name="crowdsweep")
    return "\n\n".join(_command_parts(commands, top, "##"))


def _command_parts(group: click.Group, above: click.Context, mark: str) -> Iterator[str]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=above)
        yield f"{mark} {context.command_path.removeprefix('crowdsweep ')}"
        yield "\n\n".join(map(_help, cleandoc(command.help or "").split("\n\n")))
        if isinstance(command, click.Group):
            yield from _command_parts(command, context, f"{mark}#")
            continue
        yield f"```\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
        records = [param.get_help_record(context) for param in command.get_params(context)]
        rows = [_option(*record) for record in filter(None, records) if record[1] and "--help" not in record[0]]
        if rows:
            yield _table(["option", "what it does"], rows)


def _option(words: str, about: str) -> list[str]:
    """Returns an option and what it does; of several choices, they stand in the sentence, where a line may break."""
    name, _, choices = words.partition(" [")
    told = f"{_sentence(about)} One of `{'`, `'.join(choices.rstrip(']').split('|'))}`." if "|" in choices else about
    return [f"`{name if '|' in choices else words}`", told]


def _help(paragraph: str) -> str:
    """Returns a paragraph of a command's help; what click is asked to leave as it is (`\\b`), as a block."""
    told = paragraph.removeprefix("\b\n")
    return told if told == paragraph else f"```\n{told}\n```"


def _anchored(name: str) -> str:
    return f'<span id="{name}">`{name}`</span>'


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _table(head: list[str], rows: Any) -> str:
    """Returns a table of which each row is a paragraph where the window is narrow (`site.css`)."""
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    return f'<div class="rows" markdown="1">\n\n{table}\n\n</div>'


def _cell(text: str) -> str:
    """Returns text for a cell of a table: bars outside of code would end it."""
    return re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or r"\|", text)


_PARTS = {"commands": _commands, "keys": _keys, "metrics": _metrics, "models": _models}
_GENERATE = re.compile(rf"^<!-- generate ({'|'.join(_PARTS)}) -->$", re.MULTILINE)
