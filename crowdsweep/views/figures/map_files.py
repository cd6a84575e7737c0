"""Maps as files of their own."""

from collections.abc import Iterator
from itertools import chain

from crowdsweep.analysis.maps.found import Maps
from crowdsweep.views.figures.drawing import to_png
from crowdsweep.views.figures.maps import annotator_map, cluster_labels, item_map


def pictures(maps: Maps) -> Iterator[tuple[str, bytes]]:
    """Yields each as a file: `annotators-1.png` …, `items-1.png` …, `clusters-1.png` …, in the order of the page."""
    for number, annotators in enumerate(chain(*maps.annotators.values()), start=1):
        yield f"annotators-{number}.png", to_png(annotator_map(annotators.points, annotators.errors))
    for number, items in enumerate(chain(*maps.items.values()), start=1):
        drawn = item_map(items.points, items.classes, items.class_names)
        yield f"items-{number}.png", to_png(drawn)
    for number, found in enumerate(chain(*maps.clusters.values()), start=1):
        drawn = cluster_labels(found.labels, found.item_sizes, found.annotator_sizes, found.class_names)
        yield f"clusters-{number}.png", to_png(drawn)
