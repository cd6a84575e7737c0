"""The comparison as a table for reading, in Markdown and LaTeX."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.wording import readable
from crowdsweep.report.amounts import show_interval, show_number, show_p, show_printed
from crowdsweep.report.baselines import MetricValues, baseline_lines
from crowdsweep.report.compare import Comparison, describe_dataset
from crowdsweep.report.table import to_markdown

RIGHT = ("rank", "mean", "n", "p (Holm)", "printed", "seconds")
"""Columns of numbers."""


def without_a_fit(comparison: Comparison, values: Mapping[tuple[str, str], MetricValues]) -> list[str]:
    """Returns the same of all datasets as Markdown; nothing where none compares label distributions."""
    lines = [
        line
        for block in comparison.datasets
        for line in baseline_lines(block, values.get((block.dataset, block.dataset_params), {}))
    ]
    return [to_markdown(pa.Table.from_pylist(lines), right=("value",))] if lines else []


def for_reading(flat: pa.Table) -> pa.Table:
    """Returns the comparison with fewer columns, rounded and with the interval in one cell, for Markdown and LaTeX."""
    among = {str(row["dataset"]) for row in flat.to_pylist()}
    rows = [
        {
            "dataset": describe_dataset(row["dataset"], row["dataset_params"], among),
            "rank": "" if row["rank"] is None else str(row["rank"]),
            "model": row["model"] + (" (saw gold)" if row["saw_gold"] else ""),
            "metric": readable(row["metric"]) if row["metric"] else "",
            "mean": show_number(row["mean"], row["metric"], _as_estimate(row)) if row["mean"] is not None else "",
            "95 % interval": show_interval(_as_estimate(row), row["metric"]) if row["mean"] is not None else "",
            "n": str(row["n"]) + (f" ({row['collapsed']} collapsed)" if row["collapsed"] else ""),
            "p (Holm)": show_p(row["p_holm"]).removeprefix("= "),
            "printed": show_printed(row["printed"], row["metric"]),
            "seconds": "" if row["wall_s"] is None else f"{row['wall_s']:.3g}",
        }
        for row in flat.to_pylist()
    ]
    columns = ["dataset", "rank", "model", "metric", "mean", "95 % interval", "n", "p (Holm)", "printed", "seconds"]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in columns]))


def _as_estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(n=row["n"], mean=row["mean"], sd=row["sd"], low=row["low"], high=row["high"])
