"""The texts of starter sweep files, with comments, ready to run."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import yaml

from crowdsweep.data.computed.kinds import as_written
from crowdsweep.metrics.metric_table import ACCURACY, HELDOUT, KL
from crowdsweep.metrics.wording import words
from crowdsweep.models import registered
from crowdsweep.models.default_model import DEFAULT_MODEL
from crowdsweep.record.stores import DEFAULT_STORES
from crowdsweep.sweep.requirements import default_metric
from crowdsweep.sweep.starter.choices import HELDOUT as SHARE
from crowdsweep.sweep.starter.choices import POINTS, REPORT_SEEDS, SEARCH_SEEDS, Chosen, Facts

SWEEP_FILE, STUDY_FILE = "sweep.yaml", "redundancy.yaml"
HOURS = 0.1
_AT_ONCE_S = 60.0  # a sweep of at most so many seconds on one core runs without Ray
_LEVELS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40)  # close together where curves bend; four points fit a curve
_FEWEST_LABELS = 3  # per item, that a redundancy study takes
_STUDIED = 4  # largest number of models in that study
_COLUMNS = 100


def sweep_name(folder: Path) -> str:
    """Returns the name of the sweep on a dataset's folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:150] or "labels"


def sweep_text(
    folder: Path, facts: Facts, chosen: Sequence[Chosen], *, dataset: str = ".", notes: Sequence[str] = ()
) -> str:
    """Returns the starter sweep file of a dataset.

    Args:
        folder: the dataset's folder, as the user writes it.
        chosen: the chosen models, including those that are left out.
        dataset: name of the dataset in the sweep file; by default the folder in which the file stands.
        notes: sentences on the dataset's parameters.
    """
    taken = [one for one in chosen if not one.left_out]
    lines = [
        *_comment(f"Which model labels {folder.name or folder} best? {_sizes(facts)}."),
        "#",
        *(f"#   {command}" for command in next_commands(folder)),
        "#",
        *_comment("Everything here may be changed; `crowdsweep explain KEY` says what a key takes and does."),
        "",
        yaml.safe_dump({"name": sweep_name(folder)}).strip(),
        "datasets:",
        *(line for note in notes for line in _comment(note, "  ")),
        f"  - {_dataset_entry(dataset, facts)}",
        "",
        *_comment(_metric_words(facts, taken)),
        *_several_objectives(facts, taken),
        "",
        "models:",
    ]
    for one in taken:
        lines += [f"  # {one.candidate.name}: {one.candidate.why}", f"  - {_entry(one)}"]
    if late := [one for one in chosen if one.left_out]:
        lines += _comment("Left out, as they would take long here; take the `#` away where there is time:", "  ")
        lines += [f"  # - {_entry(one)}  # {one.candidate.why}; {one.left_out}" for one in late]
    if facts.has_text:
        lines += _comment(
            "A classifier that reads the texts word by word, and labels items without answers; slow to train:", "  "
        )
        lines += ["  # - {name: soft-mv, label: text-cnn, params: {network: text_cnn}}"]
    lines += ["", *_limits(taken), "", *_comment(_study_words(folder, facts))]
    return "\n".join(lines) + "\n"


def redundancy_text(folder: Path, facts: Facts, chosen: Sequence[Chosen]) -> str | None:
    """Returns the sweep file of a redundancy study; None where items have too few labels to leave any out.

    The arguments are those of `sweep_text`.
    """
    levels = _levels(facts)
    if not levels:
        return None
    studied = _studied(chosen, DEFAULT_MODEL)
    lines = [
        *_comment(
            f"How many labels does an item of {folder.name or folder} need? The labels of each item are thinned, and "
            f"all are run as well; samples are nested, and the same for every model."
        ),
        "#",
        f"#   crowdsweep run {shlex.quote(str(folder / STUDY_FILE))}",
        "",
        yaml.safe_dump({"name": f"{sweep_name(folder)}-redundancy"}).strip(),
        "study:",
        "  template: redundancy",
        f"  labels_per_item: {levels}",
        *_more_of_the_study(facts),
        "datasets:",
        f"  - {_dataset_entry('.', facts)}",
        "models:",
        *(f"  - {_entry(one, search=False)}" for one in studied),
        f"seeds: {{report: {REPORT_SEEDS}}}  # each thins again",
        f"budget: {{hours: {HOURS}}}",
        f"engine: {_engine((len(levels) + 1) * sum(one.seconds for one in studied))}",
    ]
    return "\n".join(lines) + "\n"


def next_commands(folder: Path) -> list[str]:
    """Returns the commands that the user types next, one a line, each with what it does."""
    file = shlex.quote(str(folder / SWEEP_FILE))
    store = shlex.quote(str(DEFAULT_STORES / sweep_name(folder)))
    told = {
        f"crowdsweep plan {file}": "what it will run, and about how long",
        f"crowdsweep run {file}": "runs it; if stopped, it continues where it was",
        f"crowdsweep label {store}": "labels.csv by the model that came out first",
    }
    width = max(map(len, told))
    return [f"{command:<{width}}   {what}" for command, what in told.items()]


def _metric_words(facts: Facts, taken: Sequence[Chosen]) -> str:
    """Returns a text on how the models are compared."""
    offer = facts.offer
    if facts.unseen:
        kind = ACCURACY if offer.scored[facts.unseen] else KL
        told = (
            f"Models are ranked by {words(f'{facts.unseen}_{kind}')}: on items that no fit sees. Models of labels "
            f"alone say nothing of these, and are left out"
        )
    elif offer.training_gold:
        told = (
            "Models are ranked by accuracy against gold, on the very items that they label (transductive): none sees "
            "gold"
            + (", but those that are marked and ranked apart" if any("gold" in _needs(one) for one in taken) else "")
        )
    elif facts.holds_out:
        return (
            f"There is no gold. Models are ranked by how likely they find answers that were held out, {SHARE:.0%} of "
            f"all ({HELDOUT}); never by agreement with the votes, where majority vote wins by construction. Searches "
            f"choose by the same, on other seeds."
        )
    else:
        return (
            "Nothing can rank the models here: there is no gold, and no answer can be held out, since items have one "
            "label each. The sweep compares what they cost; more labels per item, or gold for some, would rank them."
        )
    metrics = _searched_by(facts, taken)
    by = {HELDOUT: "the likelihood of answers that are held out"}
    chooses = " or ".join(by.get(name, words(name)) for name in sorted(metrics))
    if not metrics:
        return f"{told}."
    return f"{told}. Searches choose settings by {chooses}, so a setting is not ranked by what chose it."


def _searched_by(facts: Facts, taken: Sequence[Chosen]) -> set[str]:
    """Returns the metrics that searches optimise."""
    return {default_metric(registered.model_info(one.candidate.name), facts.offer).name for one in taken if one.search}


def _several_objectives(facts: Facts, taken: Sequence[Chosen]) -> Iterator[str]:
    """Yields a commented-out line that adds seconds as an objective of searches.

    It comes only where a named metric would not change how the models are ranked.
    """
    metrics = _searched_by(facts, taken)
    if len(metrics) == 1 and (facts.unseen or not facts.offer.training_gold):
        yield f"# metric: [{metrics.pop()}, seconds]  # searches that show what better scores cost: a Pareto front"


def _limits(taken: Sequence[Chosen]) -> Iterator[str]:
    if any(one.search for one in taken):
        yield f"budget: {{points: {POINTS}, hours: {HOURS}}}  # settings that each search tries, and when it is enough"
        yield f"seeds: {{search: {SEARCH_SEEDS}, report: {REPORT_SEEDS}}}  # fits per point, and per reported score"
    else:
        yield f"budget: {{hours: {HOURS}}}  # when it is enough"
        yield f"seeds: {{report: {REPORT_SEEDS}}}  # fits of each model"
    seconds = sum(one.seconds for one in taken)
    why = {"inline": "this process; `ray`: all cores, or a cluster", "ray": "all cores; `inline`: this process alone"}
    yield f"engine: {_engine(seconds)}  # {why[_engine(seconds)]}"
    yield "tracking: {enabled: true}  # runs in MLflow: `crowdsweep ui`"


def _study_words(folder: Path, facts: Facts) -> str:
    if _levels(facts):
        return f"How many labels does an item need? {shlex.quote(str(folder / STUDY_FILE))} asks that."
    return (
        f"How many labels an item needs cannot be asked of these data: half of the items have {facts.labels_per_item} "
        f"or fewer, and some would have to be left out (study: {{template: redundancy}})."
    )


def _levels(facts: Facts) -> list[int]:
    """Returns the numbers of labels per item of a redundancy study; empty where the study is not possible.

    They are smaller than what at least half of the items have. Without gold they start at 2, since an item that is
    scored by a held-out label has to keep one.
    """
    least = 2 if facts.offer.only_own_votes else 1
    enough = facts.labels_per_item >= _FEWEST_LABELS and (facts.holds_out or not facts.offer.only_own_votes)
    return [level for level in _LEVELS if least <= level < facts.labels_per_item] if enough else []


def _more_of_the_study(facts: Facts) -> list[str]:
    """Returns commented-out lines with further settings of the study; a target needs gold."""
    has_gold = facts.offer.training_gold or any(facts.offer.scored.values())
    return [
        *(["  # target: 0.9            # how many labels for 90 %?"] if has_gold else []),
        "  # price_per_label: 0.05  # what a label costs, in any currency: the report then says what a point costs",
        "  # fixed_cost: 20         # what is paid once, however many labels",
    ]


def _dataset_entry(dataset: str, facts: Facts) -> str:
    return _flow({"name": dataset, **{key: as_written(value) for key, value in facts.params.items()}})


def _entry(one: Chosen, *, search: bool = True) -> str:
    name, params = one.candidate.name, dict(one.candidate.params)
    given = {"name": name, **({"params": params} if params else {})}
    if search and one.search:
        given["search"] = "default"
    return name if len(given) == 1 else _flow(given)


def _studied(chosen: Sequence[Chosen], default: str) -> list[Chosen]:
    """Returns the cheapest of the models that the sweep runs and that need no gold.

    The default model is among them if the sweep runs it.
    """
    taken = [one for one in chosen if not one.left_out and "gold" not in _needs(one)]
    first = sorted(taken, key=lambda one: one.candidate.name != default)[:_STUDIED]
    return [one for one in taken if one in first]


def _needs(one: Chosen) -> frozenset[str]:
    return frozenset(registered.model_info(one.candidate.name).needs)


def _engine(seconds: float) -> str:
    return "inline" if seconds <= _AT_ONCE_S else "ray"


def _sizes(facts: Facts) -> str:
    training, evaluation = facts.trial.training, facts.trial.evaluation
    labels = training.annotations
    apart = {split: evaluation[split] for split in ("dev", "test") if split in evaluation}
    crowd = f"{labels.n_active_annotators:,} annotators" if facts.known else "anonymous annotators"
    told = f"{training.n_items:,} items" + (" to train on" if apart else "")
    told += "".join(f", {part.items.n_items:,} {split} items" for split, part in apart.items())
    told += f", {crowd}, {len(labels):,} labels, {training.n_classes:,} classes"
    if features := facts.offer.shape.n_features:
        told += f", {features:,} features"
    n_gold = len(np.unique(facts.trial.gold.item)) + sum(int(part.has_gold.sum()) for part in apart.values())
    return told + (f", gold of {n_gold:,} items" if n_gold else ", no gold")


def _flow(given: Mapping[str, Any]) -> str:
    return yaml.safe_dump(
        dict(given), default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
    ).strip()


def _comment(text: str, indent: str = "") -> list[str]:
    return wrap(text, _COLUMNS, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False)
