"""What searches have found before the report's trials have run: all that a page of a young sweep has to show."""

from collections.abc import Sequence

from crowdsweep.analysis.searches import SearchShown
from crowdsweep.metrics.shown import show_number
from crowdsweep.metrics.wording import readable
from crowdsweep.record.naming import show_point
from crowdsweep.views.page.table import PageRow, PageTable

_NOTE = (
    "Means over the search seeds, of the points that have been scored; the best of several such numbers flatters its "
    "point. The report counts fresh seeds alone, which follow."
)


def search_so_far(searches: Sequence[SearchShown]) -> PageTable | None:
    """Returns the best point so far of each search that has none on fresh seeds yet, best first on each dataset; None
    where there is nothing to tell."""
    young = [search for search in searches if not search.fresh and _best(search) is not None]
    if not young:
        return None
    places = list(dict.fromkeys((search.place, search.metric) for search in young))
    order = sorted(young, key=lambda search: (places.index((search.place, search.metric)), _rank(search)))
    columns = ["model", "dataset", "best so far", "by", "points", "settings"]
    return PageTable(
        title="So far, in the search",
        columns=columns,
        rows=[PageRow(cells=_cells(search)) for search in order],
        words=frozenset({0, 1, 3, 5}),
        note=_NOTE,
    )


def _cells(search: SearchShown) -> list[str]:
    best = _best(search)
    if best is None:
        raise ValueError(f"{search.model}: expected a search that has scored a point")
    return [
        search.model,
        search.dataset,
        show_number(search.values[best], search.metric),
        readable(search.metric),
        str(len(search.values)),
        show_point(search.points[best]),
    ]


def _best(search: SearchShown) -> int | None:
    """Returns the number of the best point; None where none has a value."""
    known = {number: value for number, value in search.values.items() if value is not None}
    if not known:
        return None
    return (max if search.goal == "maximize" else min)(known, key=lambda number: known[number])


def _rank(search: SearchShown) -> float:
    values = [value for value in search.values.values() if value is not None]
    return -max(values) if search.goal == "maximize" else min(values)
