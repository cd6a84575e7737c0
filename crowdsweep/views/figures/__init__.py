"""Every figure, drawn with matplotlib's objects. No other package imports matplotlib."""

from matplotlib.figure import Figure

from crowdsweep.views.figures.bars import Bar, mean_ranks, means_with_intervals
from crowdsweep.views.figures.costs import score_against_seconds
from crowdsweep.views.figures.curves import curve, training_curves
from crowdsweep.views.figures.drawing import to_png, to_svg
from crowdsweep.views.figures.maps import annotator_map, cluster_labels, heat_map, item_map
from crowdsweep.views.figures.of_report import ReportFigure, ReportFigures, figures_of
from crowdsweep.views.figures.searches import importances, parallel_coordinates, search_curve, slices, stopped_curves

__all__ = [
    "Bar",
    "Figure",
    "ReportFigure",
    "ReportFigures",
    "annotator_map",
    "cluster_labels",
    "curve",
    "figures_of",
    "heat_map",
    "importances",
    "item_map",
    "mean_ranks",
    "means_with_intervals",
    "parallel_coordinates",
    "score_against_seconds",
    "search_curve",
    "slices",
    "stopped_curves",
    "to_png",
    "to_svg",
    "training_curves",
]
