"""Finds the roles of a table's columns by their names or, if these do not tell, by their contents.

Each role has words that people use for it (`column_words`). A role that no name tells is decided by contents, and
surely so only if a single column is left for it; otherwise there is a doubt.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from crowdsweep.errors import shown
from crowdsweep.importing.column_words import (
    COUNTS,
    EXACTLY,
    OF_IDS,
    OF_NOTHING,
    SURELY_GOLD,
    SURELY_ITEMS,
    SURELY_LABELS,
    TEXTS,
    WORDS,
    is_gold,
    is_of_votes,
    perhaps_gold,
    words_of,
)

MOST_CLASSES = 100
"""Most classes in a column that is taken for labels by its contents alone."""
FEW = 20
"""Cells or classes of which little can be said."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_IMAGE = re.compile(r"[^/]\.(jpe?g|png|webp|gif|bmp|tiff?)$", re.IGNORECASE)
_LISTED = r"\s*[,;|]\s*"
_HARDLY, _OFTEN = 0.05, 0.2  # shares of answers in which an annotator answers an item again
_DECIMAL = re.compile(r"[+-]?[0-9]*\.[0-9]*[1-9][0-9]*")
_NONE = {
    "item": "no column looks like items",
    "annotator": "no column looks like annotators: if annotators are not known, count each item's labels in a "
    "votes.csv with the columns item, label and count, in a folder of its own, and `crowdsweep init FOLDER`",
    "label": "no column looks like labels",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """First rows of a table.

    Attributes:
        header: names of the columns.
        rows: cells of the rows that are looked at; empty if the value is missing.
    """

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def column(self, name: str) -> list[str]:
        """Returns the cells of a column that are not empty."""
        place = self.place(name)
        return [row[place] for row in self.rows if row[place]]

    def place(self, name: str) -> int:
        """Returns the position of a column; of two with the same name, the first."""
        return self._places[name]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in reversed(list(enumerate(self.header)))}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Roles of the columns of a table.

    Attributes:
        columns: column of each role: item, annotator, label, and gold, weight and text if there are any.
        doubts: what is not sure, in sentences; empty if everything is.
        last: the item column, if its name suggests something else and it was the only column left; else empty.
        not_gold: a column that is named for gold and has other classes than the labels, or several for an item; else
            empty.
    """

    columns: Mapping[str, str]
    doubts: tuple[str, ...] = field(default=())
    last: str = ""
    not_gold: str = ""


def roles_of(table: Table, chosen_columns: Mapping[str, str]) -> Roles:
    """Returns the roles of the columns of a table with a row per answer.

    Args:
        table: the table.
        chosen_columns: columns that the user named, by role.
    """
    known = next((names for names in (_exact(table, roles) for roles in EXACTLY) if names), {})
    found = {**known, **chosen_columns}
    if "gold" not in found and (gold := [name for name in table.header if is_gold(name)]):
        found["gold"] = min(gold, key=lambda name: not set(SURELY_GOLD) & set(words_of(name)))
    sure = {**chosen_columns, **known}
    doubts = [*_by_names(table, found), *_better_items(table, found, sure), *_by_contents(table, found, sure)]
    doubts += _said_of_items(table, found, sure)
    last = ""
    if "item" not in found and (last := _last_item(table, found)):
        found["item"] = last
        doubts.remove(_NONE["item"])
    disagrees = ""
    if "gold" in found and "gold" not in chosen_columns and not _agrees(table, found):
        disagrees = found.pop("gold")
        others = [name for name in table.header if is_gold(name) and _agrees(table, {**found, "gold": name})]
        if others:
            found["gold"], disagrees = others[0], ""
    elif "gold" not in found:
        perhaps = [name for name in table.header if name not in found.values() and perhaps_gold(name)]
        if perhaps and _agrees(table, {**found, "gold": perhaps[0]}):
            found["gold"] = perhaps[0]
    if text := _text_of_items(table, found):
        found["text"] = text
    return Roles(columns=found, doubts=tuple(dict.fromkeys(doubts)), last=last, not_gold=disagrees)


def _exact(table: Table, roles: Mapping[str, str]) -> dict[str, str]:
    """Returns the columns by role if all of them have exactly these names; else nothing."""
    plain = {name.strip().lower(): name for name in table.header}
    return {role: plain[name] for role, name in roles.items()} if plain.keys() >= set(roles.values()) else {}


def _said_of_items(table: Table, found: dict[str, str], sure: Mapping[str, str]) -> Iterator[str]:
    """Replaces a label column that is the same for every answer to an item by one named alike; yields doubts.

    Without such a column it is dropped, unless its name is certain.
    """
    label = found.get("label", "")
    if "label" not in sure and "item" in found and label and is_of_items(table, found["item"], label):
        left = [name for name in _named(table, "label", found) if not is_of_items(table, found["item"], name)]
        if left:
            found["label"] = label = left[0]
    if "label" in sure or "item" not in found or set(SURELY_LABELS) & set(words_of(label)):
        return
    if label and is_of_items(table, found["item"], label):
        del found["label"]
        yield _said_of_an_item(label)


def _said_of_an_item(name: str) -> str:
    return f"no column looks like labels: {shown(name)} is the same for every answer to an item, and describes the item"


def is_of_items(table: Table, item: str, name: str) -> bool:
    """Returns whether a column describes the items: it has one value per item, though items have several answers."""
    place, other = table.place(item), table.place(name)
    held: dict[str, set[str]] = {}
    answers: Counter[str] = Counter()
    for row in table.rows:
        if row[place] and row[other]:
            held.setdefault(row[place], set()).add(row[other])
            answers[row[place]] += 1
    several = sum(count > 1 for count in answers.values())
    distinct = set[str]().union(*held.values())
    return several > 1 and len(distinct) > 1 and all(len(values) == 1 for values in held.values())


def _text_of_items(table: Table, found: dict[str, str]) -> str:
    """Returns the column of the text that annotators saw; empty if there is none.

    If the text column was taken for the items and an id column numbers the same items, the id column takes that role.
    """
    item = found.get("item")
    if item is None or "text" in found:
        return ""
    left = [name for name in table.header if name not in found.values()]
    if set(TEXTS) & set(words_of(item)):
        same = [name for name in left if "id" in words_of(name) and _names_the_same(table, item, name)]
        if same:
            found["item"] = same[0]
            return item
    texts = [name for name in left if set(TEXTS) & set(words_of(name)) and is_of_items(table, item, name)]
    return next((name for name in texts if any(" " in cell.strip() for cell in table.column(name))), "")


def _names_the_same(table: Table, one: str, other: str) -> bool:
    places = [table.place(name) for name in (one, other)]
    pairs = {tuple(row[place] for place in places) for row in table.rows}
    return len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})


def likely_features(table: Table, found: Mapping[str, str]) -> list[str]:
    """Returns the columns of numbers that describe the items."""
    left = [name for name in table.header if name not in found.values() and not {"id", "index"} & set(words_of(name))]
    numbers = [name for name in left if table.column(name) and all(map(_NUMBER.fullmatch, table.column(name)))]
    return [name for name in numbers if "item" in found and is_of_items(table, found["item"], name)]


def likely_gold(table: Table, found: Mapping[str, str]) -> str:
    """Returns a column with one of the labels' classes for items, and for some perhaps nothing; empty if none."""
    if not {"item", "label"} <= found.keys() or "gold" in found:
        return ""
    classes, rows = set(table.column(found["label"])), len(table.rows)
    for name in table.header:
        cells = table.column(name)
        if name in found.values() or is_of_votes(name) or not set(cells) <= classes:
            continue
        of_items = len(cells) < rows or is_of_items(table, found["item"], name)
        if of_items and _agrees(table, {**found, "gold": name}):
            return name
    return ""


def likely_labels(table: Table, found: Mapping[str, str]) -> list[str]:
    """Returns the columns that may be answers as well; none if the name of the column of labels is certain."""
    if not {"item", "label"} <= found.keys() or set(SURELY_LABELS) & set(words_of(found["label"])):
        return []
    left = [name for name in table.header if name not in found.values() and _can_be(table, "label", name)]
    left = [name for name in left if not {"id", "index", "round", "order", "position"} & set(words_of(name))]
    return [name for name in left if is_answered(table, found["item"], name)]


def is_answered(table: Table, item: str, name: str) -> bool:
    """Returns whether a column has several values for some item, and so may be what annotators answered."""
    places = [table.place(column) for column in (item, name)]
    pairs = {tuple(row[place] for place in places) for row in table.rows if row[places[1]]}
    return len(pairs) > len({pair[0] for pair in pairs})


def likely_images(table: Table, found: Mapping[str, str]) -> str:
    """Returns a column of image file names: the item column or one that describes the items; empty if there is none."""
    for name in table.header:
        cells = table.column(name)
        if cells and all(map(_IMAGE.search, cells)) and "item" in found:
            item = found["item"]
            if name == item or is_of_items(table, item, name):
                return name
    return ""


def holds_lists(table: Table, found: Mapping[str, str]) -> str:
    """Returns an annotator cell that lists several annotators, if most rows list several and as many labels.

    Otherwise, the result is empty.
    """
    if not {"annotator", "label"} <= found.keys():
        return ""
    places = [table.place(found[role]) for role in ("annotator", "label")]
    pairs = [tuple(re.split(_LISTED, row[place]) for place in places) for row in table.rows if row[places[0]]]
    several = [names for names, labels in pairs if len(names) == len(labels) > 1]
    return ",".join(several[0]) if several and 2 * len(several) > len(pairs) else ""


def count_of_votes(table: Table) -> str:
    """Returns the count column of a table of votes: how many unnamed annotators gave an item a label.

    The result is empty if the table is no table of votes.
    """
    taken: dict[str, str] = {}
    for role in ("label", "item"):
        named = _named(table, role, taken)
        if len(named) != 1:
            return ""
        taken[role] = named[0]
    rest = [name for name in table.header if name not in taken.values() and not is_gold(name)]
    if len(rest) != 1 or not set(words_of(rest[0])) & set(COUNTS) or _named(table, "annotator", taken):
        return ""
    item, label, count = (table.place(name) for name in (taken["item"], taken["label"], rest[0]))
    pairs = {(row[item], row[label]) for row in table.rows}
    counted = all(row[count].strip().isdecimal() for row in table.rows)
    return rest[0] if counted and len(pairs) == len(table.rows) else ""


def _by_names(table: Table, found: dict[str, str]) -> Iterator[str]:
    """Finds the roles that column names tell, and yields doubts."""
    for role in ("annotator", "label", "item", "weight"):  # some words of `item` also occur in names of other roles
        if role not in found and (named := _named(table, role, found)):
            found[role] = named[0]
            if len(named) > 1:
                yield f"{role} may be {' or '.join(map(shown, named[:4]))}"


def _better_items(table: Table, found: dict[str, str], chosen_columns: Mapping[str, str]) -> Iterator[str]:
    """Replaces an item column with an ambiguous name by a better one, and yields doubts.

    It does so if annotators often answer the same value of the item column again, but hardly ever that of the other.
    """
    if not {"item", "annotator"} <= found.keys() or "item" in chosen_columns:
        return
    if _again(table, found["item"], found["annotator"]) < _OFTEN:
        return
    left = [name for name in table.header if name not in found.values() and _can_be(table, "item", name)]
    words = words_of(found["item"])
    if "label" not in found or set(SURELY_ITEMS) & {*words, "".join(words)}:
        left = [name for name in left if set(SURELY_ITEMS) & set(words_of(name))]
    better = [name for name in left if _again(table, name, found["annotator"]) <= _HARDLY]
    if better:
        found["item"] = better[0]
    if len(better) > 1:
        yield f"item may be {' or '.join(map(shown, better[:4]))}"


def _again(table: Table, item: str, annotator: str) -> float:
    """Returns the share of answers in which an annotator answers an item again."""
    places = [table.place(name) for name in (item, annotator)]
    pairs = [tuple(row[place] for place in places) for row in table.rows]
    return 1 - len(set(pairs)) / len(pairs)


def _last_item(table: Table, found: Mapping[str, str]) -> str:
    """Returns the only column that is left for the items, whatever its name suggests; empty if there is none."""
    left = [name for name in table.header if name not in found.values()]
    if len(left) != 1 or "annotator" not in found or not _can_be(table, "item", left[0], named=True):
        return ""
    return left[0] if _again(table, left[0], found["annotator"]) < _OFTEN else ""


def _by_contents(table: Table, found: dict[str, str], chosen_columns: Mapping[str, str]) -> Iterator[str]:
    """Finds the remaining roles by the contents of columns, and yields doubts."""
    for role in ("label", "item", "annotator"):
        if role not in found:
            left = [name for name in table.header if name not in found.values() and _can_be(table, role, name)]
            if role == "label" and "item" in found:
                of_items = [name for name in left if is_of_items(table, found["item"], name)]
                left = [name for name in left if name not in of_items]
                if of_items and not left:
                    yield _said_of_an_item(of_items[0])
                    continue
            left.sort(key=lambda name: len(set(table.column(name))), reverse=role == "item")
            if left:
                found[role] = left[0]
            if len(left) != 1:
                may = f"{role} may be {' or '.join(map(shown, left[:4]))}"
                yield may if left else _NONE[role]
        elif role not in chosen_columns and not _can_be(table, role, found[role], named=True):
            yield f"{shown(found[role])} does not look like {role}s"


def one_of_each(table: Table) -> bool:
    """Returns whether exactly one column is named for annotators and another one for labels, so a row is an answer."""
    by, label = _named(table, "annotator", {}), _named(table, "label", {})
    return len(by) == len(label) == 1 and by != label


def looks_headless(table: Table) -> bool:
    """Returns whether the first line is an answer, no header: a cell occurs again below, and no name tells a role."""
    known = any(_named(table, role, {}) for role in ("annotator", "label"))
    again = [name for name in dict.fromkeys(table.header) if name and name in set(table.column(name))]
    return not known and bool(again)


def _named(table: Table, role: str, taken: Mapping[str, str]) -> list[str]:
    """Returns the columns whose names fit this role best; several if they fit equally well."""
    ranks: dict[str, tuple[int, int, bool]] = {}
    for name in table.header:
        words = words_of(name)
        said = [WORDS[role].index(word) for word in (*words, "".join(words)) if word in WORDS[role]]
        if not said or name in taken.values() or is_gold(name):
            continue
        if (role == "label" and {"id", *OF_NOTHING} & set(words)) or (role == "item" and not _repeats(table, name)):
            continue
        more = [word for word in words if word not in OF_IDS]
        ranks[name] = (min(said), len(more), "id" not in words)
    best = min(ranks.values(), default=None)
    return [name for name, rank in ranks.items() if rank == best]


def _repeats(table: Table, name: str) -> bool:
    cells = table.column(name)
    return len(set(cells)) < len(cells) or len(cells) <= FEW


def _can_be(table: Table, role: str, name: str, *, named: bool = False) -> bool:
    """Returns whether the contents of a column fit this role: ids repeat, and classes are few."""
    cells = table.column(name)
    distinct = len(set(cells))
    if not named and (set(OF_NOTHING) & set(words_of(name)) or any(map(_DECIMAL.fullmatch, cells))):
        return False
    if role == "label":
        return distinct <= max(FEW, len(cells) // 2) if named else 2 <= distinct <= min(MOST_CLASSES, len(cells) // 2)
    return role == "annotator" or _repeats(table, name) if named else distinct > 1 and _repeats(table, name)


def _agrees(table: Table, found: Mapping[str, str]) -> bool:
    """Returns whether the gold column has one class per item, and at least half of its classes are labels."""
    if not {"item", "label"} <= found.keys():
        return False
    item, gold = (table.place(found[role]) for role in ("item", "gold"))
    classes: dict[str, set[str]] = {}
    for row in table.rows:
        if row[gold]:
            classes.setdefault(row[item], set()).add(row[gold])
    known, labels = set[str]().union(*classes.values()), set(table.column(found["label"]))
    return bool(known) and all(len(held) == 1 for held in classes.values()) and 2 * len(known & labels) >= len(known)
