"""How tables of a room of the report are laid out."""

from crowdsweep.report.page_tables import study_table, study_tables
from crowdsweep.studies.contract import StudyTable


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
    shown = study_tables([table("a", "how it is made"), table("b", "how it is made"), table("c", "another")])
    assert [(one.title, one.note) for one in shown] == [("a", "how it is made"), ("b", ""), ("c", "another")]
