"""Finds the roles of a table's columns by their names or, if these do not tell, by their contents.

A name is split into words (`amt_worker_ids`: amt, worker, id), and each role has words that people use for it. A role
that no name tells is decided by contents, and surely so only if a single column is left for it; otherwise there is a
doubt.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from crowdsweep.errors import shown

MOST_CLASSES = 100
"""Most classes in a column that is taken for labels by its contents alone."""
_FEW = 20
_WORDS: Mapping[str, tuple[str, ...]] = {  # the surest words first
    "item": (
        *("item", "task", "question", "example", "sample", "instance", "object", "record", "case", "document", "doc"),
        *("image", "picture", "photo", "img", "video", "clip", "audio", "sentence", "tweet", "post", "comment"),
        *("review", "product", "hit", "unit", "file", "filename", "url", "text", "id", "index", "idx", "row"),
        *("study", "scan", "slide", "patient", "pair", "prompt", "article", "page"),
    ),
    "annotator": (
        *("annotator", "worker", "rater", "labeler", "labeller", "coder", "grader", "judge", "turker", "assessor"),
        *("contributor", "volunteer", "participant", "respondent", "reviewer", "user", "username", "person", "player"),
        *("member", "student", "email", "who", "by"),
        *("reader", "observer", "evaluator", "scorer", "moderator", "radiologist", "pathologist", "physician"),
    ),
    "label": (
        *("label", "answer", "response", "class", "category", "annotation", "judgment", "judgement", "rating", "vote"),
        *("choice", "tag", "verdict", "opinion", "decision", "grade", "score", "said", "value", "output"),
        *("finding", "diagnosis", "preference", "preferred", "sentiment", "emotion", "stance"),
    ),
    "weight": ("weight", "weights"),
}
# The other words may also name a remark, a group or a row.
_SURELY_ITEMS = _WORDS["item"][: _WORDS["item"].index("sentence")]
_GOLD = (
    *("gold", "truth", "groundtruth", "goldlabel", "labelgold", "goldstandard", "goldanswer", "truelabel", "labeltrue"),
    *("ytrue", "trueanswer", "gt", "correctlabel", "correctanswer", "expertlabel"),
)
_SURELY_GOLD = ("gold", "truth", "groundtruth")
PERHAPS_GOLD = ("correct", "expert", "target")  # if the column has no role and has the labels' classes
_EXACTLY: tuple[Mapping[str, str], ...] = (
    {"item": "item", "annotator": "annotator", "label": "label"},
    {"item": "task", "annotator": "worker", "label": "label"},
)
_SURELY_LABELS = (
    *("label", "answer", "response", "annotation", "judgment", "judgement", "rating", "vote", "choice", "verdict"),
    *("opinion", "decision", "said"),
)
_TEXTS = (
    *("text", "sentence", "tweet", "post", "comment", "review", "headline", "title", "question", "document", "content"),
    *("body", "utterance", "passage", "snippet", "description", "message"),
)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_IMAGE = re.compile(r"[^/]\.(jpe?g|png|webp|gif|bmp|tiff?)$", re.IGNORECASE)
_LISTED = r"\s*[,;|]\s*"
_OF_IDS = ("id", "name", "no", "nr", "code", "key")
_OF_NOTHING = ("time", "date", "timestamp", "duration", "second", "minute", "hour", "confidence", "certainty", "note")
_COUNTS = ("count", "number", "frequency", "freq", "vote", "total", "n")
_HARDLY, _OFTEN = 0.05, 0.2  # shares of answers in which an annotator answers an item again
_DECIMAL = re.compile(r"[+-]?[0-9]*\.[0-9]*[1-9][0-9]*")
_NONE = {
    "item": "no column looks like items",
    "annotator": "no column looks like annotators: if annotators are not known, count each item's labels in a "
    "votes.csv with the columns item, label and count, in a folder of its own, and `crowdsweep init FOLDER`",
    "label": "no column looks like labels",
}
_PART = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*|[^\W\d_a-zA-Z]+")


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
    """

    columns: Mapping[str, str]
    doubts: tuple[str, ...] = field(default=())
    last: str = ""


def roles_of(table: Table, chosen_columns: Mapping[str, str]) -> Roles:
    """Returns the roles of the columns of a table with a row per answer.

    Args:
        table: the table.
        told: columns that the user named, by role.
    """
    known = next((names for names in (_exact(table, roles) for roles in _EXACTLY) if names), {})
    found = {**known, **chosen_columns}
    if "gold" not in found and (gold := [name for name in table.header if is_gold(name)]):
        found["gold"] = min(gold, key=lambda name: not set(_SURELY_GOLD) & set(_words_of(name)))
    sure = {**chosen_columns, **known}
    doubts = [*_by_names(table, found), *_better_items(table, found, sure), *_by_contents(table, found, sure)]
    doubts += _said_of_items(table, found, sure)
    last = ""
    if "item" not in found and (last := _last_item(table, found)):
        found["item"] = last
        doubts.remove(_NONE["item"])
    if "gold" in found and "gold" not in chosen_columns and not _agrees(table, found):
        del found["gold"]
    elif "gold" not in found:
        perhaps = [name for name in table.header if name not in found.values() and name.lower() in PERHAPS_GOLD]
        if perhaps and _agrees(table, {**found, "gold": perhaps[0]}):
            found["gold"] = perhaps[0]
    if text := _text_of_items(table, found):
        found["text"] = text
    return Roles(columns=found, doubts=tuple(dict.fromkeys(doubts)), last=last)


def _exact(table: Table, roles: Mapping[str, str]) -> dict[str, str]:
    """Returns the columns by role if all of them have exactly these names; else nothing."""
    plain = {name.strip().lower(): name for name in table.header}
    return {role: plain[name] for role, name in roles.items()} if plain.keys() >= set(roles.values()) else {}


def _said_of_items(table: Table, found: dict[str, str], sure: Mapping[str, str]) -> Iterator[str]:
    """Drops a label column that is the same for every answer to an item, unless its name is certain; yields doubts."""
    label = found.get("label", "")
    if "label" in sure or "item" not in found or set(_SURELY_LABELS) & set(_words_of(label)):
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
    if set(_TEXTS) & set(_words_of(item)):
        same = [name for name in left if "id" in _words_of(name) and _names_the_same(table, item, name)]
        if same:
            found["item"] = same[0]
            return item
    texts = [name for name in left if set(_TEXTS) & set(_words_of(name)) and is_of_items(table, item, name)]
    return next((name for name in texts if any(" " in cell.strip() for cell in table.column(name))), "")


def _names_the_same(table: Table, one: str, other: str) -> bool:
    places = [table.place(name) for name in (one, other)]
    pairs = {tuple(row[place] for place in places) for row in table.rows}
    return len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})


def likely_features(table: Table, found: Mapping[str, str]) -> list[str]:
    """Returns the columns of numbers that describe the items."""
    left = [name for name in table.header if name not in found.values() and not {"id", "index"} & set(_words_of(name))]
    numbers = [name for name in left if table.column(name) and all(map(_NUMBER.fullmatch, table.column(name)))]
    return [name for name in numbers if "item" in found and is_of_items(table, found["item"], name)]


def likely_gold(table: Table, found: Mapping[str, str]) -> str:
    """Returns a column with one of the labels' classes for some items and nothing for the others; empty if none."""
    if not {"item", "label"} <= found.keys() or "gold" in found:
        return ""
    classes, rows = set(table.column(found["label"])), len(table.rows)
    for name in table.header:
        cells = table.column(name)
        sparse = name not in found.values() and 0 < len(cells) < rows and set(cells) <= classes
        if sparse and _agrees(table, {**found, "gold": name}):
            return name
    return ""


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
    if len(rest) != 1 or not set(_words_of(rest[0])) & set(_COUNTS) or _named(table, "annotator", taken):
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
    words = _words_of(found["item"])
    if "label" not in found or set(_SURELY_ITEMS) & {*words, "".join(words)}:
        left = [name for name in left if set(_SURELY_ITEMS) & set(_words_of(name))]
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


def wide_columns(table: Table) -> tuple[str | None, str | None] | None:
    """Returns the columns of item ids and of gold in a table with a column per annotator; None for any other table.

    Either column is None if there is none. Annotators answer with one small set of classes, so each of their columns
    shares most of its values with other columns; ids and texts do not.
    """
    gold = [name for name in table.header if is_gold(name)]
    rest = [name for name in table.header if name not in gold[:1]]
    column = {name: table.column(name) for name in rest}
    first = rest[0] if rest else ""
    ids = len(column.get(first, [])) == len(table.rows) == len(set(column.get(first, [])))
    for answers, item in ((rest[1:], first), (rest, None)):
        if (item is None or ids) and len(answers) > 1 and _share_classes([column[name] for name in answers]):
            return item, gold[0] if gold else None
    return None


def one_of_each(table: Table) -> bool:
    """Returns whether exactly one column is named for annotators and another one for labels, so a row is an answer."""
    by, label = _named(table, "annotator", {}), _named(table, "label", {})
    return len(by) == len(label) == 1 and by != label


def looks_headless(table: Table) -> bool:
    """Returns whether the first line is an answer, no header: a cell occurs again below, and no name tells a role."""
    known = any(_named(table, role, {}) for role in ("annotator", "label"))
    again = [name for name in dict.fromkeys(table.header) if name and name in set(table.column(name))]
    return not known and bool(again)


def _share_classes(columns: Sequence[Sequence[str]]) -> bool:
    """Returns whether columns share one small set of classes."""
    sets = [set(column) - {"-1", "-1.0"} for column in columns]
    filled = sum(map(len, columns))
    classes = set[str]().union(*sets)
    if not 2 <= len(classes) <= min(MOST_CLASSES, max(_FEW, filled // 2)):
        return False
    times = {name: sum(name in held for held in sets) for name in classes}
    return all(not held or 2 * sum(times[name] > 1 for name in held) >= len(held) for held in sets)


@lru_cache(maxsize=1 << 16)  # each role asks for the words of every column, and there may be thousands
def _words_of(name: str) -> tuple[str, ...]:
    """Returns the words of a name, in singular and in lower case."""
    words = (part.lower() for part in _PART.findall(name))
    return tuple(word if word.endswith("ss") else word.removesuffix("s") for word in words)


def is_gold(name: str) -> bool:
    """Returns whether the name of a column says that it holds gold."""
    words = _words_of(name)
    return "".join(word for word in words if word not in _OF_IDS) in _GOLD or bool(set(_SURELY_GOLD) & set(words))


def _named(table: Table, role: str, taken: Mapping[str, str]) -> list[str]:
    """Returns the columns whose names fit this role best; several if they fit equally well."""
    ranks: dict[str, tuple[int, int, bool]] = {}
    for name in table.header:
        words = _words_of(name)
        said = [_WORDS[role].index(word) for word in (*words, "".join(words)) if word in _WORDS[role]]
        if not said or name in taken.values() or is_gold(name):
            continue
        if (role == "label" and {"id", *_OF_NOTHING} & set(words)) or (role == "item" and not _repeats(table, name)):
            continue
        more = [word for word in words if word not in _OF_IDS]
        ranks[name] = (min(said), len(more), "id" not in words)
    best = min(ranks.values(), default=None)
    return [name for name, rank in ranks.items() if rank == best]


def _repeats(table: Table, name: str) -> bool:
    cells = table.column(name)
    return len(set(cells)) < len(cells) or len(cells) <= _FEW


def _can_be(table: Table, role: str, name: str, *, named: bool = False) -> bool:
    """Returns whether the contents of a column fit this role: ids repeat, and classes are few."""
    cells = table.column(name)
    distinct = len(set(cells))
    if not named and (set(_OF_NOTHING) & set(_words_of(name)) or any(map(_DECIMAL.fullmatch, cells))):
        return False
    if role == "label":
        return distinct <= max(_FEW, len(cells) // 2) if named else 2 <= distinct <= min(MOST_CLASSES, len(cells) // 2)
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
