"""One dimension of a search space, which is a searched hyper-parameter: its kinds, and their form in a sweep file.

The forms are those of W&B: `{value: 3}`, `{values: [1, 2]}`, `{min: 1, max: 9}` (two integers mean integers only),
`{min: 1, max: 9, q: 2}`, `{distribution: log_uniform_values, min: 1e-4, max: 1}`, … `log_uniform` is refused, since W&B
reads its limits as exponents of e, which users rarely mean.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist
from typing import Any, final

from crowdsweep.errors import SpaceError, Where, shortened, suggestion
from crowdsweep.meant import instead
from crowdsweep.record.spec import canonical_json
from crowdsweep.search.other_shapes import is_other_key, kind_here, written_here
from crowdsweep.units import listed

Number = int | float
NORMAL_TAIL = 1e-4  # a normal dimension is truncated at this quantile on either side: 3.7 standard deviations
_GRID_SLACK = 1e-9  # so that 0.1 + 3 × 0.1 counts as reaching 0.4
_SIGNIFICANT = 12  # digits to which a grid's values are rounded, so that 0.1 + 2 × 0.1 is 0.3


@final
@dataclass(frozen=True)
class Choice:
    """Dimension with a list of values, in the order given; a single value is a constant."""

    values: tuple[Any, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    def enumerate(self) -> Iterator[Any]:
        yield from self.values

    def probes(self) -> Iterator[Any]:
        """Yields the values that a model must accept for the whole dimension to be accepted."""
        yield from self.values

    def index(self, value: Any) -> int:
        """Returns the position of a value; 1, 1.0 and true are different values.

        Raises:
            ValueError: the dimension does not have the value.
        """
        return [canonical_json(known) for known in self.values].index(canonical_json(value))

    def holds(self, value: Any) -> bool:
        return canonical_json(value) in map(canonical_json, self.values)

    def to_mapping(self) -> dict[str, Any]:
        return {"values": list(self.values)}

    def __str__(self) -> str:
        return "one of " + ", ".join(canonical_json(value) for value in self.values)


@final
@dataclass(frozen=True)
class IntRange:
    """Dimension of integers from `low` to `high`, both included.

    Attributes:
        shorthand: whether it was written as `{min: 1, max: 9}`, and may have been meant as a range of floats.
    """

    low: int
    high: int
    shorthand: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def enumerate(self) -> Iterator[int]:
        yield from range(self.low, self.high + 1)

    def probes(self) -> Iterator[int]:
        yield from (self.low, self.high)

    def holds(self, value: Any) -> bool:
        return _is_int(value) and self.low <= value <= self.high

    def to_mapping(self) -> dict[str, Any]:
        return {"distribution": "int_uniform", "min": self.low, "max": self.high}

    def __str__(self) -> str:
        return f"whole numbers {self.low} to {self.high}"


@final
@dataclass(frozen=True)
class FloatRange:
    """Dimension of floats from `low` to `high`, both included; with `log`, drawn evenly on a log scale."""

    low: float
    high: float
    log: bool = False

    @property
    def size(self) -> None:
        return None

    def probes(self) -> Iterator[float]:
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        # An integer as the middle value would not reveal a model that accepts no fractions.
        yield from (self.low, self.high, math.nextafter(middle, math.inf))

    def holds(self, value: Any) -> bool:
        return isinstance(value, float) and self.low <= value <= self.high

    def to_mapping(self) -> dict[str, Any]:
        kind = "log_uniform_values" if self.log else "uniform"
        return {"distribution": kind, "min": self.low, "max": self.high}

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', log scale' if self.log else ''}"


@final
@dataclass(frozen=True)
class Steps:
    """Dimension with the values `low, low + step, …` up to `high`; integers where `low` and `step` are.

    With `log`, values are drawn evenly on a log scale and rounded to the grid.
    """

    low: Number
    high: Number
    step: Number
    log: bool = False

    @property
    def size(self) -> int:
        return math.floor((self.high - self.low) / self.step + _GRID_SLACK) + 1

    def enumerate(self) -> Iterator[Number]:
        yield from (self.at(position) for position in range(self.size))

    def probes(self) -> Iterator[Number]:
        yield from (self.at(position) for position in sorted({0, min(1, self.size - 1), self.size - 1}))

    def at(self, position: int) -> Number:
        """Returns the grid's value at a position (from 0)."""
        value = self.low + position * self.step
        return value if isinstance(value, int) else float(f"{value:.{_SIGNIFICANT}g}")

    def position(self, value: Number) -> int:
        """Returns the position of the grid's nearest value."""
        return min(max(round((value - self.low) / self.step), 0), self.size - 1)

    def holds(self, value: Any) -> bool:
        is_number = isinstance(value, Number) and not isinstance(value, bool)
        return is_number and canonical_json(self.at(self.position(value))) == canonical_json(value)

    def to_mapping(self) -> dict[str, Any]:
        kind = "q_log_uniform_values" if self.log else "q_uniform"
        return {"distribution": kind, "min": self.low, "max": self.high, "q": self.step}

    def __str__(self) -> str:
        last = self.at(self.size - 1)
        return f"{self.low:g} to {last:g} in steps of {self.step:g}{', log scale' if self.log else ''}"


@final
@dataclass(frozen=True)
class Normal:
    """Dimension with a normal distribution, truncated 3.7 standard deviations from its mean."""

    mu: float
    sigma: float

    @property
    def size(self) -> None:
        return None

    def probes(self) -> Iterator[float]:
        yield from (self.at(NORMAL_TAIL), self.at(0.5 + NORMAL_TAIL), self.at(1 - NORMAL_TAIL))

    def at(self, quantile: float) -> float:
        """Returns the value at a quantile of the distribution."""
        return NormalDist(self.mu, self.sigma).inv_cdf(quantile)

    def quantile(self, value: float) -> float:
        """Returns the quantile of a value, clipped to the dimension's limits."""
        return min(max(NormalDist(self.mu, self.sigma).cdf(value), NORMAL_TAIL), 1 - NORMAL_TAIL)

    def holds(self, value: Any) -> bool:
        return isinstance(value, float) and self.at(NORMAL_TAIL) <= value <= self.at(1 - NORMAL_TAIL)

    def to_mapping(self) -> dict[str, Any]:
        return {"distribution": "normal", "mu": self.mu, "sigma": self.sigma}

    def __str__(self) -> str:
        return f"normal, mean {self.mu:g}, standard deviation {self.sigma:g}"


Dimension = Choice | IntRange | FloatRange | Steps | Normal


def parse_dimension(shape: Any, where: Where) -> Dimension:
    """Reads one dimension from its form in a sweep file, without `when`.

    Raises:
        SpaceError: the form is no dimension; the message names the key, what was expected and what was found.
    """
    if not isinstance(shape, Mapping):
        raise SpaceError(
            where.says(
                f"expected values or a range, for example {{values: [1, 2]}} or {{min: 0.1, max: 1.0}}; "
                f"got {shortened(repr(shape))}{written_here(shape)}"
            )
        )
    kind = _kind(shape, where)
    needed, read = _KINDS[kind]
    for key in shape:
        if key not in (*needed, "distribution"):
            told = written_here(shape).removeprefix("; ") if is_other_key(key) else ""
            told = told or suggestion(str(key), needed)
            raise SpaceError(where.at(str(key)).says(f"unknown key {key!r} of {kind}; {told}"))
    for key in needed:
        if key not in shape:
            raise SpaceError(where.says(f"{kind} needs {listed(list(needed))}; {key} is missing"))
    return read(shape, where)


def _kind(shape: Mapping[str, Any], where: Where) -> str:
    if "distribution" in shape:
        kind = shape["distribution"]
        if not isinstance(kind, str):
            raise SpaceError(where.at("distribution").says(f"expected one of {', '.join(_KINDS)}; got {kind!r}"))
        if kind in _REFUSED:
            raise SpaceError(where.at("distribution").says(f"{kind!r} is not supported: {_REFUSED[kind]}"))
        if kind not in _KINDS:
            told = written_here(shape).removeprefix("; ") if kind_here(kind) else ""
            told = told or suggestion(kind_here(kind) or kind, _KINDS)
            raise SpaceError(where.at("distribution").says(f"unknown distribution {kind!r}; {told}"))
        return kind
    if "value" in shape:
        return "constant"
    if "values" in shape:
        return "categorical"
    if "q" in shape:
        return "q_uniform"
    if "min" in shape or "max" in shape:
        limits = [shape[key] for key in ("min", "max") if key in shape]
        return "int_uniform" if all(_is_int(limit) for limit in limits) else "uniform"
    raise SpaceError(
        where.says(
            f"expected value, values, min and max, or distribution; got {', '.join(map(str, shape)) or 'nothing'}"
            f"{written_here(shape)}"
        )
    )


def _constant(shape: Mapping[str, Any], where: Where) -> Choice:
    return Choice((_plain(shape["value"], where.at("value")),))


def _categorical(shape: Mapping[str, Any], where: Where) -> Choice:
    where = where.at("values")
    given = shape["values"]
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        written = instead(given, lambda other: isinstance(other, list))
        raise SpaceError(where.says(f"expected a list of at least one value, got {given!r}{written}"))
    values = tuple(_plain(value, where.at(index)) for index, value in enumerate(given))
    for index, value in enumerate(values):
        if Choice(values).index(value) != index:
            raise SpaceError(where.at(index).says(f"{value!r} appears twice in this list; keep one"))
    return Choice(values)


def _int_uniform(shape: Mapping[str, Any], where: Where) -> IntRange:
    for key in ("min", "max"):
        if not _is_int(shape[key]):
            written = instead(shape[key], _is_int)
            raise SpaceError(where.at(key).says(f"expected a whole number, got {shape[key]!r}{written}"))
    low, high = _limits(shape, where)
    return IntRange(int(low), int(high), shorthand="distribution" not in shape)


def _uniform(shape: Mapping[str, Any], where: Where, *, log: bool = False) -> FloatRange:
    low, high = _limits(shape, where, above_zero=log)
    return FloatRange(float(low), float(high), log=log)


def _steps(shape: Mapping[str, Any], where: Where, *, log: bool = False) -> Steps:
    low, high = _limits(shape, where, above_zero=log)
    step = _number(shape["q"], where.at("q"), above_zero=True)
    if not (_is_int(low) and _is_int(step)):
        low = float(low)
    return Steps(low, high, step, log=log)


def _normal(shape: Mapping[str, Any], where: Where) -> Normal:
    mu = _number(shape["mu"], where.at("mu"))
    return Normal(float(mu), float(_number(shape["sigma"], where.at("sigma"), above_zero=True)))


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any], Where], Dimension]]] = {
    "constant": (("value",), _constant),
    "categorical": (("values",), _categorical),
    "int_uniform": (("min", "max"), _int_uniform),
    "uniform": (("min", "max"), _uniform),
    "q_uniform": (("min", "max", "q"), _steps),
    "log_uniform_values": (("min", "max"), partial(_uniform, log=True)),
    "q_log_uniform_values": (("min", "max", "q"), partial(_steps, log=True)),
    "normal": (("mu", "sigma"), _normal),
}
KEYS_OF: Mapping[str, tuple[str, ...]] = {kind: needed for kind, (needed, _) in _KINDS.items()}
"""The keys that each distribution requires besides `distribution`."""
_EXPONENTS = "its limits are exponents of e; write log_uniform_values with the limits themselves"
_REFUSED = {
    "log_uniform": _EXPONENTS,
    "q_log_uniform": _EXPONENTS.replace("log_uniform_values", "q_log_uniform_values"),
    "inv_log_uniform": _EXPONENTS,
    "inv_log_uniform_values": "write log_uniform_values",
    "q_normal": "write normal, or q_uniform",
    "log_normal": "write log_uniform_values",
    "q_log_normal": "write q_log_uniform_values",
    "beta": "write uniform",
    "q_beta": "write q_uniform",
}


def _limits(shape: Mapping[str, Any], where: Where, *, above_zero: bool = False) -> tuple[Number, Number]:
    low = _number(shape["min"], where.at("min"), above_zero=above_zero)
    high = _number(shape["max"], where.at("max"))
    if low >= high:
        told = f"; for one value write {{value: {low!r}}}" if low == high else ""
        raise SpaceError(where.says(f"expected min below max, got min {low!r} and max {high!r}{told}"))
    return low, high


def _number(value: Any, where: Where, *, above_zero: bool = False) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        written = instead(value, lambda other: _is_int(other) or isinstance(other, float))
        raise SpaceError(where.says(f"expected a number, got {value!r}{written}"))
    if above_zero and value <= 0:
        raise SpaceError(where.says(f"expected a number above 0, got {value!r}"))
    return value


def _plain(value: Any, where: Where) -> Any:
    """Returns a value of JSON types (tuples as lists), since only these can be stored in the journal.

    Raises:
        SpaceError: the value, or a part of it, has another type or is not finite.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part, where.at(index)) for index, part in enumerate(value)]
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise SpaceError(where.says(f"expected a number, text, true, false, null, or a list of these; got {value!r}"))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
