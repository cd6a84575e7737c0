"""The numbers of a study as a flat table, for files and programs."""

import pyarrow as pa

from crowdsweep.analysis.trial_table import encodable
from crowdsweep.studies.contract import StudyReport

_TEXTS, _NUMBERS = ("dataset", "model", "metric", "quantity", "about"), ("at", "until", "value", "low", "high")


def study_table(report: StudyReport) -> pa.Table:
    """Returns a row for each number of a study's report (`StudyNumber`)."""
    schema = [*((name, pa.string()) for name in _TEXTS), *((name, pa.float64()) for name in _NUMBERS)]
    return pa.Table.from_pylist(
        [encodable(vars(number)) for number in report.numbers], schema=pa.schema([*schema, ("note", pa.string())])
    )
