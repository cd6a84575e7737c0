"""What a sweep's record answers: its models compared as its file asks for it, and the summary of its study."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from crowdsweep.journal.journal import open_rows, read_journal
from crowdsweep.journal.state import JournalState
from crowdsweep.report.compare import Comparison, compare
from crowdsweep.report.kept_scores import KeptScores
from crowdsweep.report.references import References
from crowdsweep.report.table import comparison_rows
from crowdsweep.studies.contract import (
    ScoredBy,
    StudyReport,
    StudyTemplate,
    check_knobs,
    find_template,
    with_datasets,
    with_gold_models,
)
from crowdsweep.sweepfile.records import Metric, PublishedValue
from crowdsweep.trial.item_scores import ItemScores, no_item_scores
from crowdsweep.trial.naming import short_name
from crowdsweep.trial.spec import canonical_json


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedSweep:
    """A sweep's record as it stood at one moment, with its models compared: what page, terminal and MLflow tell."""

    store: Path
    state: JournalState
    comparison: Comparison


def compared_sweep(store: Path) -> ComparedSweep:
    """Reads a record and compares its models: seconds for thousands of trials, to be done once.

    Raises:
        JournalError: there is no sweep in that folder.
    """
    state = read_journal(store)
    return ComparedSweep(store=store, state=state, comparison=comparison_of(state, store))


def template_of(state: JournalState) -> StudyTemplate | None:
    """Returns the sweep's study template; None where it has none."""
    entry = state.config.get("study")
    return find_template(entry["template"]) if entry else None


def study_report(state: JournalState, store: Path | None = None) -> StudyReport | None:
    """Returns the section of the sweep's study template; None where it has none. Folders stand in it by their names, as
    in all else that a report shows.

    Args:
        state, store: as for `comparison_of`.
    """
    template = template_of(state)
    if template is None:
        return None
    knobs = {name: value for name, value in state.config["study"].items() if name != "template"}
    rows = comparison_rows(state)
    among = {row.dataset for row in state.plan.datasets} | set(_datasets(rows))
    table = with_gold_models(_by_short_names(rows.filter(rows["chosen"]), among), _gold_labels(state))
    datasets = {
        short_name(row.dataset, among): ScoredBy(training_gold=row.gold.get("train", True), heldout=row.heldout)
        for row in sorted(state.plan.datasets, key=lambda row: row.heldout)
    }
    told, checked = with_datasets(table, datasets), check_knobs(template, knobs)
    if template.summarise_by_item is not None:
        return template.summarise_by_item(told, checked, _item_scores(state, store))
    return template.summarise(told, checked)


def comparison_of(state: JournalState, store: Path | None = None) -> Comparison:
    """Compares the models of a sweep, as its file asks for it.

    Args:
        state: what its journal says.
        store: where the scores of single items lie; without, intervals and tests vary over seeds alone.
    """
    wanted = state.config.get("metric")
    printed = (state.config.get("published") or {}).get("values", ())
    return compare(
        comparison_rows(state),
        metric=Metric(name=wanted["name"], goal=wanted["goal"]) if wanted else None,
        published=[PublishedValue(**value) for value in printed],
        gold_models=_gold_labels(state),
        references={
            (row.dataset, canonical_json(dict(row.dataset_params))): References(gold=row.gold, heldout=row.heldout)
            for row in state.plan.datasets
        },
        item_scores=_item_scores(state, store),
    )


def _item_scores(state: JournalState, store: Path | None) -> ItemScores:
    return no_item_scores if store is None else KeptScores(state, open_rows(store, write=False))


def _datasets(table: pa.Table) -> list[str]:
    return [str(dataset) for dataset in table["dataset"].to_pylist()]


def _by_short_names(table: pa.Table, among: Collection[str]) -> pa.Table:
    names = [short_name(dataset, among) for dataset in _datasets(table)]
    place = table.schema.get_field_index("dataset")
    return table.set_column(place, table.schema.field(place), pa.array(names, table.schema.field(place).type))


def _gold_labels(state: JournalState) -> frozenset[str]:
    """Returns the labels of models that need gold."""
    return frozenset(cell.label for cell in [*state.plan.cells, *state.plan.searches] if cell.sees_gold)
