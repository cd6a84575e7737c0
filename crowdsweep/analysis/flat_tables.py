"""The comparison of models, and the numbers of a study, as flat tables for files and programs."""

from typing import Any

import pyarrow as pa

from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore
from crowdsweep.analysis.trial_table import encodable
from crowdsweep.studies.contract import StudyReport


def comparison_table(comparison: Comparison) -> pa.Table:
    """Returns the comparison as a flat table: one row per model × dataset, in the metrics' own units."""
    rows = [
        encodable(_flat_row(block, score, comparison.printed(block).get(score.model)))
        for block in comparison.datasets
        for score in block.scores
    ]
    text, number, count = pa.string(), pa.float64(), pa.int64()
    schema = [("dataset", text), ("dataset_params", text), ("rank", count), ("model", text), ("saw_gold", pa.bool_())]
    schema += [("metric", text), ("mean", number), ("low", number), ("high", number), ("sd", number), ("n", count)]
    schema += [
        ("interval_over", text),
        ("collapsed", count),
        ("failed", count),
        ("stopped", count),
        ("difference_to_best", number),
        ("test", text),
    ]
    schema += [("p_holm", number), ("printed", number), ("difference_to_printed", number)]
    schema += [("wall_s", number), ("peak_bytes", count)]
    return pa.Table.from_pylist(rows, schema=pa.schema([*schema, ("point", text)]))


def _flat_row(block: DatasetComparison, score: ModelScore, printed: float | None) -> dict[str, Any]:
    ours, test = score.metrics.get(block.metric), score.versus_best
    return {
        "dataset": block.dataset,
        "dataset_params": block.dataset_params,
        "rank": score.rank,
        "model": score.model,
        "saw_gold": score.saw_gold,
        "metric": block.metric,
        "mean": ours.mean if ours else None,
        "low": ours.low if ours else None,
        "high": ours.high if ours else None,
        "sd": ours.sd if ours else None,
        "n": ours.n if ours else 0,
        "interval_over": ours.varies if ours and ours.low is not None else None,
        "collapsed": ours.collapsed if ours else 0,
        "failed": score.n_failed,
        "stopped": score.n_stopped,
        "difference_to_best": test.difference.mean if test and test.difference else None,
        "test": test.test if test else None,
        "p_holm": test.p_holm if test else None,
        "printed": printed,
        "difference_to_printed": ours.mean - printed if ours and printed is not None else None,
        "wall_s": score.wall_s.mean if score.wall_s else None,
        "peak_bytes": score.peak_bytes,
        "point": score.point,
    }


_TEXTS, _NUMBERS = ("dataset", "model", "metric", "quantity", "about"), ("at", "until", "value", "low", "high")


def study_table(report: StudyReport) -> pa.Table:
    """Returns a study's report as a table: one row per number (`StudyNumber`)."""
    schema = [*((name, pa.string()) for name in _TEXTS), *((name, pa.float64()) for name in _NUMBERS)]
    return pa.Table.from_pylist(
        [encodable(vars(number)) for number in report.numbers], schema=pa.schema([*schema, ("note", pa.string())])
    )
