"""The table of results is the same whether the shown trials are handed over or looked for; its columns are typed."""

import pyarrow as pa
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.trial_table import (
    FAILURE_COLUMNS,
    TRIAL_COLUMNS,
    comparison_rows,
    metric_columns,
    results_table,
)
from crowdsweep.record.shown import shown_trials

SCORES = [{"test_accuracy": 0.8, "dev_kl": 0.3}, None, {"test_accuracy": 0.7}]


def test_trials_that_are_known_are_not_looked_for_again() -> None:
    events = made_up_trials("mv", "d", SCORES, label="half a character: \ud800")
    state = folded(made_up_sweep(events, models=[{"name": "mv", "label": "mv", "params": {}}]))
    shown = shown_trials(state)
    table = results_table(state, "all", shown=shown)
    assert table.equals(results_table(state, "all"))
    assert comparison_rows(state, shown).equals(comparison_rows(state))
    assert comparison_rows(state, []).num_rows == 0
    assert metric_columns(table) == ["dev_kl", "test_accuracy"]
    assert table["test_accuracy"].to_pylist() == [0.8, None, 0.7]
    assert table["dev_kl"].to_pylist() == [0.3, None, None]
    assert table["model"].to_pylist() == ["half a character: \\ud800"] * 3
    assert table["failure_kind"].to_pylist() == [None, "FitFailed", None]
    told = [(name, kind) for name, kind in TRIAL_COLUMNS.items() if name != "asked"]
    metrics = [(name, pa.float64()) for name in metric_columns(table)]
    assert table.schema.equals(pa.schema([*told, *metrics, *FAILURE_COLUMNS.items()]))
    assert "asked" in results_table(state, every=True).column_names
