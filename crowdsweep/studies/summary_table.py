"""A short table of several datasets: what the labels of each are enough for, a row each.

The sentences and tables of each dataset say the same; this table serves users who buy labels for several datasets.
"""

from collections.abc import Mapping, Sequence
from math import inf

from crowdsweep.metrics.power_law import Predicted
from crowdsweep.studies.axis import ModelsAlong
from crowdsweep.studies.contract import Cell, StudyNumber, StudyTable
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import Reach
from crowdsweep.studies.more_labels import gain_words, number_words
from crowdsweep.studies.prices import Prices, cheapest, money, point_cost_words, steps_of
from crowdsweep.studies.targets import called, how_sure, means_of_all

Row = Mapping[str, Cell]
"""Column → cell."""
TARGET = "to reach the target"


def summary_row(
    group: Group,
    competitors: ModelsAlong,
    aims: Mapping[str, Mapping[str, Reach]],
    prices: Prices | None,
    beyond: Sequence[StudyNumber],
) -> Row:
    """Returns the row of a dataset in the short table.

    It is empty where no model has sound fits to all labels, or where the group is of models with a metric of their own.

    Args:
        aims: column → model → labels per item that it needs for the aim of the column.
        beyond: study numbers on what more labels than were tried would bring.
    """
    means = means_of_all(group, competitors)
    name = max(means, key=lambda one: means[one], default=None)
    if name is None or group.why:
        return {}
    points = competitors[name]
    best = group.shown(points[None].estimate(group.metric, group.heldout))
    row: dict[str, Cell] = {"dataset": group.dataset, "labels": group.all_words, "best with all": f"{name}, {best}"}
    row |= {column: _fewest(group, competitors, reached, prices) for column, reached in aims.items() if reached}
    if TARGET in row:
        row[TARGET] = f"{next(iter(aims[TARGET].values())).aim}: {row[TARGET]}"
    steps = [] if prices is None else steps_of(points, group, prices)
    if steps:
        row["last step: cost of a point"] = f"{steps[-1].start} → {steps[-1].end}: {point_cost_words(steps[-1].point)}"
    gains = [one for one in beyond if (one.model, one.quantity) == (name, "gain")]
    row["more would bring"] = next((text for one in gains if (text := _gain(one))), "not told")
    return row


def summary_table(rows: Sequence[Row]) -> list[StudyTable]:
    """Returns the table of datasets in a list, which is empty for fewer than two datasets."""
    filled = [row for row in rows if row]
    if len(filled) < 2:
        return []
    columns = list(dict.fromkeys(column for row in filled for column in row))
    return [
        StudyTable(
            title="In short: how many labels per item, and what they cost",
            columns=columns,
            rows=[[row.get(column) for column in columns] for row in filled],
            note="labels per item, of the cheapest model that reaches it, and what is possibly and surely enough",
        )
    ]


def _fewest(group: Group, competitors: ModelsAlong, reached: Mapping[str, Reach], prices: Prices | None) -> str:
    """Returns the fewest labels for an aim in words: `5 by dawid-skene (possibly 3, 7 to be sure), 46.20`."""
    able = [name for name, reach in reached.items() if reach.enough is not None]
    if not able:
        maybe = [name for name, reach in reached.items() if reach.possibly is not None]
        return f"not reached; {', '.join(maybe)} possibly" if maybe else "not reached"
    plan = None if prices is None else cheapest(reached, competitors, group, prices)
    fewest = min(able, key=lambda one: (reached[one].enough or inf, reached[one].surely or inf))
    name, enough = (fewest, reached[fewest].enough or inf) if plan is None else (plan.model, plan.labels)
    sure = how_sure(enough, reached[name].possibly, reached[name].surely, group)
    return f"{called(enough, group)} by {name} ({sure})" + ("" if plan is None else f", {money(plan.cost)}")


def _gain(one: StudyNumber) -> str:
    if one.value is None or one.at is None or one.until is None:
        return ""
    low, high = (one.value if end is None else end for end in (one.low, one.high))
    gain = gain_words(Predicted(value=one.value, low=low, high=high), one.metric)
    return f"{number_words(one.at)} → {number_words(one.until)}: {gain}"
