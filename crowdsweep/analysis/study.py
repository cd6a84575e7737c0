"""The report section of a sweep's study template, computed from its record."""

from collections.abc import Collection

import pyarrow as pa

from crowdsweep.analysis.trial_table import comparison_rows
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.record.naming import short_name
from crowdsweep.record.state import JournalState
from crowdsweep.studies.contract import (
    ScoredBy,
    StudyReport,
    StudyResults,
    StudyTemplate,
    check_settings,
    find_template,
)


def template_of(state: JournalState) -> StudyTemplate | None:
    """Returns the sweep's study template; None where it has none."""
    entry = state.config.get("study")
    return find_template(entry["template"]) if entry else None


def study_report(
    state: JournalState, item_scores: ItemScores = no_item_scores, known: pa.Table | None = None
) -> StudyReport | None:
    """Returns the report section of the sweep's study template; None where the sweep has no study.

    Datasets in folders have their short names in it, as everywhere in a report.

    Args:
        item_scores: looks up the scores of single items; without it, intervals vary over seeds alone.
        known: `comparison_rows` of the state, where they are known already.
    """
    template = template_of(state)
    if template is None:
        return None
    knobs = {name: value for name, value in state.config["study"].items() if name != "template"}
    rows = comparison_rows(state) if known is None else known
    among = {row.dataset for row in state.plan.datasets} | set(_datasets(rows))
    datasets = {
        short_name(row.dataset, among): ScoredBy(training_gold=row.gold.get("train", True), heldout=row.heldout)
        for row in sorted(state.plan.datasets, key=lambda row: row.heldout)
    }
    results = StudyResults(
        table=_by_short_names(rows.filter(rows["chosen"]), among),
        gold_models=gold_models(state),
        datasets=datasets,
        item_scores=item_scores,
    )
    return template.summarise(results, check_settings(template, knobs))


def gold_models(state: JournalState) -> frozenset[str]:
    """Returns the labels of the models that need gold."""
    return frozenset(cell.label for cell in [*state.plan.cells, *state.plan.searches] if cell.sees_gold)


def _datasets(table: pa.Table) -> list[str]:
    return [str(dataset) for dataset in table["dataset"].to_pylist()]


def _by_short_names(table: pa.Table, among: Collection[str]) -> pa.Table:
    names = [short_name(dataset, among) for dataset in _datasets(table)]
    place = table.schema.get_field_index("dataset")
    return table.set_column(place, table.schema.field(place), pa.array(names, table.schema.field(place).type))
