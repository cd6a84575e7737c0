"""Every figure, drawn with matplotlib's objects: the one place that imports it."""

from crowdsweep.report.figures.bars import Bar, mean_ranks, means_with_intervals
from crowdsweep.report.figures.curves import Steps, curve, training_curves
from crowdsweep.report.figures.drawing import to_png, to_svg
from crowdsweep.report.figures.maps import annotator_map, cluster_labels, heat_map, item_map
from crowdsweep.report.figures.searches import (
    SearchedPoints,
    importances,
    parallel_coordinates,
    search_curve,
    slices,
)

__all__ = [
    "Bar",
    "SearchedPoints",
    "Steps",
    "annotator_map",
    "cluster_labels",
    "curve",
    "heat_map",
    "importances",
    "item_map",
    "mean_ranks",
    "means_with_intervals",
    "parallel_coordinates",
    "search_curve",
    "slices",
    "to_png",
    "to_svg",
    "training_curves",
]
