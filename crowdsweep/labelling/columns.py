"""Columns of tables that are called as classes are."""

from collections.abc import Sequence


def class_columns(labels: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns a name of its own for the column of each class: its label, and in brackets, `p(item)`, where another
    column of the table is called so.

    Args:
        labels: of the classes, all different.
        others: names of the table's other columns.
    """
    taken = {*labels, *others}
    names: list[str] = []
    for label in labels:
        name = label
        while name in others or (name != label and name in taken):
            name = f"p({name})"
        taken.add(name)
        names.append(name)
    return names
