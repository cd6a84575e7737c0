"""How tables of a room of the report are laid out."""

from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.studies.contract import StudyTable
from crowdsweep.views.page.tables import certainty_table, metrics_tables, one_below_another, study_table


def table(title: str, note: str) -> StudyTable:
    rows = [("fmm", "as it is", 3, "", "< .001"), ("pd", None, "12 %", "", "[0.1, 0.2]")]
    return StudyTable(title=title, columns=("model", "prediction", "n", "nothing", "p"), rows=rows, note=note)


def test_columns_of_names_stand_to_the_left_and_numbers_to_the_right() -> None:
    shown = study_table(table("a", ""))
    assert shown.words == {0, 1}
    assert [list(row.cells) for row in shown.rows] == [
        ["fmm", "as it is", "3", "", "< .001"],
        ["pd", "", "12 %", "", "[0.1, 0.2]"],
    ]


def test_a_note_that_tables_share_is_read_once() -> None:
    tables = [table("a", "how it is made"), table("b", "how it is made"), table("c", "another")]
    shown = one_below_another(map(study_table, tables))
    assert [(one.title, one.note) for one in shown] == [("a", "how it is made"), ("b", ""), ("c", "another")]


def test_every_use_of_the_models_has_a_table_of_its_own() -> None:
    """Side by side they were cut at the edge of a sheet of paper."""
    metrics = {"test_accuracy": 0.8, "test_kl": 0.3, "test_kl.soft": 0.2, "dev_kl": 0.3, "heldout_loglik": -0.5}
    events = made_up_trials("a", "d", [metrics, metrics])
    (block,) = comparison_of(folded(made_up_sweep(events, models=[]))).datasets
    tables = metrics_tables(block)
    assert [(table.title, len(table.columns)) for table in tables] == [
        ("On test items", 3),
        ("On test items, soft", 2),
        ("On dev items", 2),
        ("Of annotators and their answers", 2),
    ]
    assert [bool(table.note) for table in tables] == [False, False, False, True]


def test_no_mean_stands_without_its_interval() -> None:
    scores = {"good": (0.8, 0.84, 0.79, 0.85), "worse": (0.6, 0.7, 0.65, 0.66)}
    events = [
        event
        for model, values in scores.items()
        for event in made_up_trials(model, "d", [{"test_accuracy": value} for value in values])
    ]
    (block,) = comparison_of(folded(made_up_sweep(events, models=[]))).datasets
    shown = certainty_table(block)
    place = shown.columns.index
    for row, score in zip(shown.rows, block.scores, strict=True):
        ours = score.metrics["test_accuracy"]
        assert ours.low is not None
        assert ours.high is not None
        assert row.cells[place("95 % interval")] == f"[{100 * ours.low:.1f}, {100 * ours.high:.1f}]"
    behind = shown.rows[1].cells[place("its 95 % interval")]
    assert behind.startswith("["), behind
