"""The contract of a study template: a kind of sweep with one question, and the report section that answers it.

A template is one file with a constant `TEMPLATE = StudyTemplate(...)`. A sweep file asks for it by the key `study:
{template: NAME, ...knobs}`. Its report is data (sentences, curves, tables), which `views/` draw.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from crowdsweep.errors import BadInput, Mistakes, SweepFileError, UnknownName
from crowdsweep.meant import instead
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.registry import discovery
from crowdsweep.sweepfile.records import DatasetEntry, SweepConfig

Cell = str | float | int | None


@dataclass(frozen=True, kw_only=True)
class StudySetting:
    """One setting of a template.

    Attributes:
        default: the value where the sweep file gives none; `check` accepts it.
        about: description for users, one line.
        check: returns the value as the template uses it. Raises ValueError with a text that says what was expected.
    """

    default: Any
    about: str
    check: Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class CurveLine:
    """One line of a curve.

    Attributes:
        x, y: coordinates of its points, x ascending.
        low, high: 95 % interval of each point, None where there is none.
        reference: whether the line is an upper bound that saw gold, not a competitor; it is drawn apart.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None]
    high: Sequence[float | None]
    reference: bool = False

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y), len(self.low), len(self.high)}
        if len(lengths) > 1:
            raise ValueError(f"curve line {self.label!r}: expected columns of one length, got {sorted(lengths)}")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Lines over one numeric axis.

    Attributes:
        x_ticks: position → text; if empty, the drawing code chooses the ticks.
        percent: whether y values are shares, to be shown times 100.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[CurveLine]
    log_x: bool = False
    x_ticks: Mapping[float, str] = field(default_factory=dict)
    percent: bool = False


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """A table of a study's report; every row has a cell for each column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.title!r}: expected {len(self.columns)} cells in every row")


@dataclass(frozen=True, kw_only=True)
class StudyNumber:
    """One number of a study's answer, for files and programs. Every numeric field is finite or None.

    Attributes:
        dataset: its name, with its other parameters.
        metric: full name of the metric that the number is about.
        quantity: the kind of number: `mean`, `labels_needed`, `gain`, `cost`, `cost_of_a_point`.
        about: details of the quantity: `within 0.01 of all labels`, `fitted curve`; empty where the quantity says it
            all.
        at, until: position or range on the study's axis; None where the number has no position.
        value, low, high: the number and its 95 % interval, in the quantity's own units.
        note: why the number is missing, or what it stands for.
    """

    dataset: str
    model: str
    metric: str
    quantity: str
    about: str = ""
    at: int | float | None = None
    until: int | float | None = None
    value: int | float | None = None
    low: int | float | None = None
    high: int | float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """The answer of a study.

    Attributes:
        findings: sentences, the most important first.
        notes: what a reader must know to trust the numbers.
        numbers: the content of findings and tables as numbers: `study.csv` of the report.
        next_steps: dataset (with its other parameters) → what is worth doing there according to the measured numbers.
    """

    title: str
    findings: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    tables: Sequence[StudyTable] = ()
    notes: Sequence[str] = ()
    next_steps: Mapping[str, str] = field(default_factory=dict[str, str])
    numbers: Sequence[StudyNumber] = ()


@dataclass(frozen=True, kw_only=True)
class ScoredBy:
    """How the models of a dataset are scored.

    Attributes:
        training_gold: whether gold scores training items; else the votes that trained the model do, which says nothing.
        heldout: share of the annotations that report trials hold out.
    """

    training_gold: bool = True
    heldout: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResults:
    """The results that a template answers its question by; of an unfinished sweep, or one where trials failed, too.

    Attributes:
        table: of results, a row per trial; only rows of the phase `report` count.
        gold_models: labels (names) of models that saw gold: upper bounds, which no finding may call best.
        datasets: name of a dataset → how its models are scored; by gold where it is not there.
        item_scores: looks up the scores of single items, for intervals that vary over items.
    """

    table: pa.Table
    gold_models: frozenset[str] = frozenset()
    datasets: Mapping[str, ScoredBy] = field(default_factory=dict[str, ScoredBy])
    item_scores: ItemScores = no_item_scores

    def scored_by(self, dataset: str) -> ScoredBy:
        """Returns how the models of a dataset are scored; parameters in parentheses may follow its name."""
        fitting = (name for name in self.datasets if dataset == name or dataset.startswith(f"{name} ("))
        return self.datasets.get(max(fitting, key=len, default=""), ScoredBy())


@dataclass(frozen=True, kw_only=True)
class StudyTemplate:
    """A kind of sweep with one question.

    Attributes:
        name: its name in sweep files; the file's name with dashes.
        plans: (checked knobs, sweep) → the sweep with the study's axis in its datasets. Pure: the same arguments give
            the same sweep; nothing is run or drawn.
        summarise: (results, checked knobs) → report.
        axis: the dataset parameter that the study varies; empty where it varies something else.
        along: what the axis counts, in words: `labels per item`.
    """

    name: str
    title: str
    knobs: Mapping[str, StudySetting]
    plans: Callable[[Mapping[str, Any], SweepConfig], SweepConfig]
    summarise: Callable[[StudyResults, Mapping[str, Any]], StudyReport]
    axis: str = ""
    along: str = ""


def template_names() -> list[str]:
    """Returns the names of all study templates, sorted, without importing any."""
    return discovery.names("template")


def find_template(name: str) -> StudyTemplate:
    """Imports one study template.

    Raises:
        UnknownName: there is no such template.
        BadInput: the file's `TEMPLATE` is not a `StudyTemplate`.
    """
    place = discovery.locate("template", name)
    found = discovery.load(place)
    if not isinstance(found, StudyTemplate):
        raise BadInput(f"{place}: expected TEMPLATE to be a StudyTemplate, got {type(found).__name__}")
    return found


def check_settings(template: StudyTemplate, given: Mapping[str, Any], where: str = "study") -> dict[str, Any]:
    """Returns the value of every knob, with defaults filled in.

    Raises:
        UnknownName: the template has no such knob; the message offers the nearest.
        SweepFileError: a knob does not take the value.
    """
    checked: dict[str, Any] = {}
    with Mistakes() as mistakes:
        for name in given:
            if name not in template.knobs:
                mistakes.keep(UnknownName(f"setting of template {template.name}", name, template.knobs, where))
        for name, knob in template.knobs.items():
            value = given.get(name, knob.default)
            try:
                checked[name] = knob.check(value)
            except ValueError as error:
                written = instead(value, partial(_accepted, knob))
                mistakes.keep(SweepFileError(f"{where}.{name} ({knob.about}): {error}, got {value!r}{written}"))
    return checked


def _accepted(knob: StudySetting, value: Any) -> bool:
    try:
        knob.check(value)
    except ValueError:
        return False
    return True


def expand_study(config: SweepConfig) -> SweepConfig:
    """Returns the plain sweep that a study asks for: its axis in the datasets, its template removed.

    A sweep without a study is returned as it is.

    Raises:
        UnknownName, SweepFileError: as for `check_settings`; or the sweep's datasets are not what the study needs.
    """
    if config.study is None:
        return config
    template = find_template(config.study.template)
    where = config.study.place or (f"{config.source}: study" if config.source else "study")
    return replace(template.plans(check_settings(template, config.study.knobs, where), config), study=None)


def expand_datasets(
    config: SweepConfig, entries: Sequence[DatasetEntry], param: str, values: Sequence[int | None]
) -> SweepConfig:
    """Returns the sweep with each dataset repeated for each value of a parameter; None leaves the parameter out.

    Raises:
        SweepFileError: a dataset sets the parameter itself.
    """
    expanded: list[DatasetEntry] = []
    for entry in entries:
        if param in entry.params:
            place = entry.place or f"{config.source or config.name}: datasets"
            raise SweepFileError(
                f"{place}: {entry.name} sets {param!r}, which is the axis of this study; expected it among the "
                f"study's settings only"
            )
        expanded += [
            entry if value is None else replace(entry, params={**entry.params, param: value}) for value in values
        ]
    return replace(config, datasets=tuple(expanded))


def whole_numbers(minimum: int) -> Callable[[Any], tuple[int, ...]]:
    """Returns a knob's check for a list of different whole numbers of at least `minimum`; it returns them ascending."""

    def check(value: Any) -> tuple[int, ...]:
        listed = list(value) if isinstance(value, (list, tuple)) else [value]
        wrong = [number for number in listed if isinstance(number, bool) or not isinstance(number, int)]
        if not listed or wrong or min(listed) < minimum:
            raise ValueError(f"expected a list of whole numbers of at least {minimum}")
        if len(set(listed)) < len(listed):
            raise ValueError("expected each number once")
        return tuple(sorted(listed))

    return check


def positive_number(value: Any) -> float:
    """Checks a knob's value: a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError("expected a positive number")
    return float(value)


def amount(value: Any) -> float:
    """Checks a knob's value: a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ValueError("expected a number of at least 0")
    return float(value)


def true_or_false(value: Any) -> bool:
    """Checks a knob's value: true or false."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def unless_left_out(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a knob's check that also accepts None, for a knob that may be left out."""
    return lambda value: None if value is None else check(value)
