"""A search space: its dimensions and their conditions, checked and counted before anything runs.

In a sweep file, a space is a mapping from hyper-parameter to dimension (`dimensions.py`); `when` makes one conditional:

    network: {values: [linear, mlp]}
    hidden: {values: [[64], [128, 64]], when: {network: mlp}}

`hidden` is then a part of a point only where the point has `network: mlp`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import Any

from crowdsweep.errors import BadInput, Mistakes, SpaceError, Where, suggestion
from crowdsweep.models import registered
from crowdsweep.record.spec import canonical_json
from crowdsweep.search.dimensions import Choice, Dimension, FloatRange, IntRange, Steps, parse_dimension
from crowdsweep.units import counted

_WEYL = 0.6180339887498949  # multiples of its powers are spread evenly modulo 1
When = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Space:
    """Search space of a model.

    Attributes:
        dimensions: dimension of each parameter; sorted by name, but each parameter after those that it depends on.
        when: for each conditional parameter, the admitted values of the parameters that it depends on; all must hold.
    """

    dimensions: Mapping[str, Dimension]
    when: Mapping[str, When] = field(default_factory=dict)

    @classmethod
    def parse(cls, mapping: Mapping[str, Any], where: str | Where = "") -> "Space":
        """Reads a space from its form in a sweep file.

        Raises:
            SpaceError: the form is no space; the message says where, what was expected and what was found.
        """
        where = Where.of(where)
        if not isinstance(mapping, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]: it comes from YAML
            raise SpaceError(where.says(f"expected a mapping from parameter to values or range, got {mapping!r}"))
        dimensions: dict[str, Dimension] = {}
        when: dict[str, When] = {}
        with Mistakes() as mistakes:
            for name, shape in mapping.items():
                with mistakes.apart():
                    inner = where.at(name)
                    if isinstance(shape, Mapping) and "when" in shape:
                        when[name] = _conditions(shape["when"], inner.at("when"))
                        shape = {key: part for key, part in shape.items() if key != "when"}
                    dimensions[name] = parse_dimension(shape, inner)
        with Mistakes() as mistakes:
            for name, conditions in when.items():
                with mistakes.apart():
                    _check_conditions(conditions, dimensions, where.at(name, "when"))
        return cls({name: dimensions[name] for name in _in_order(dimensions, when, where)}, when)

    @cached_property
    def size(self) -> int | None:
        """Number of points; None where it is not finite."""
        return self._count(list(self.dimensions), {})

    @property
    def is_conditional(self) -> bool:
        """Whether the space has conditional parameters, which only some points have."""
        return bool(self.when)

    @cached_property
    def hash(self) -> str:
        """Digest of the space (16 hex digits), which does not depend on the order in which the space is written."""
        return sha256(canonical_json(self.to_mapping()).encode()).hexdigest()[:16]

    def is_active(self, name: str, point: Mapping[str, Any]) -> bool:
        """Returns whether a parameter belongs to a point, which must have the parameters that this one depends on."""
        return all(
            key in point and canonical_json(point[key]) in {canonical_json(value) for value in values}
            for key, values in self.when.get(name, {}).items()
        )

    def point_in(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the point of this space for a model's hyper-parameters; None where one of them lies outside.

        Args:
            params: all hyper-parameters, also those that are not searched.
        """
        point: dict[str, Any] = {}
        for name, dimension in self.dimensions.items():
            if self.is_active(name, point):
                written = _as_written(params[name]) if name in params else ()
                held = [value for value in written if dimension.holds(value)]
                if not held:
                    return None
                point[name] = held[0]
        return point

    def enumerate(self) -> Iterator[dict[str, Any]]:
        """Yields every point, the last parameter changing fastest.

        Raises:
            SpaceError: the space has infinitely many points.
        """
        if self.size is None:
            infinite = next(name for name, dimension in self.dimensions.items() if dimension.size is None)
            raise SpaceError(
                f"cannot list every point: {infinite} is a range of real numbers; give values, or q_uniform"
            )
        yield from self._points(list(self.dimensions), {})

    def fixing(self, params: Mapping[str, Any]) -> "Space":
        """Returns the space without these fixed parameters, and without those whose conditions they violate."""
        dimensions: dict[str, Dimension] = {}
        when: dict[str, When] = {}
        ruled_out: set[str] = set()
        for name, dimension in self.dimensions.items():
            conditions = self.when.get(name, {})
            given = {key: params[key] for key in conditions if key in params}
            met = all(canonical_json(given[key]) in map(canonical_json, conditions[key]) for key in given)
            if name in params:
                continue
            if not met or not ruled_out.isdisjoint(conditions):
                ruled_out.add(name)
                continue
            dimensions[name] = dimension
            if left := {key: values for key, values in conditions.items() if key not in given}:
                when[name] = left
        return Space(dimensions, when)

    def check_fits(self, model: str, params: Mapping[str, Any], where: str | Where = "") -> None:
        """Checks that a model accepts each parameter, and its values (of a range, both ends and some others).

        Raises:
            SpaceError: the model does not accept one, or a parameter is both fixed and searched; the message names the
                parameter and what the model accepts.
            UnknownName: there is no such model.
        """
        with Mistakes() as mistakes:
            for name in self.dimensions:
                with mistakes.apart():
                    self._check_fits(name, model, params, Where.of(where).at(name))

    def _check_fits(self, name: str, model: str, params: Mapping[str, Any], where: Where) -> None:
        dimension = self.dimensions[name]
        if name in params:
            raise SpaceError(where.says(f"{name!r} is both fixed in params and searched; remove one"))
        given = {**params, **self._admitting(name)}
        if isinstance(dimension, IntRange) and dimension.shorthand and _takes_fractions(model, name, given):
            raise SpaceError(
                where.says(
                    f"{name!r} takes real numbers, but min {dimension.low} and max {dimension.high} mean whole"
                    f" numbers; write {dimension.low}.0 and {dimension.high}.0, or distribution: int_uniform"
                )
            )
        for value in dimension.probes():
            try:
                registered.build_model(model, {**given, name: value})
            except BadInput as error:
                raise SpaceError(where.says(str(error))) from None

    def settings(self) -> Iterator[dict[str, Any]]:
        """Yields points that together have every named setting (a choice among texts) at each of its values.

        They have no other parameters, except those that a setting depends on.
        """
        named = {
            name: dimension.values
            for name, dimension in self.dimensions.items()
            if isinstance(dimension, Choice) and all(isinstance(value, str) for value in dimension.values)
        }
        base = {name: values[0] for name, values in named.items() if name not in self.when}
        yield base
        for name, values in named.items():
            yield from ({**base, **self._admitting(name), name: value} for value in values)

    def spread(self, number: int) -> Iterator[dict[str, Any]]:
        """Yields `number` points spread evenly over the space, always the same, to estimate what a search costs."""
        for place in range(number):
            point: dict[str, Any] = {}
            for order, (name, dimension) in enumerate(self.dimensions.items(), start=1):
                if self.is_active(name, point):
                    point[name] = _at(dimension, ((place + 0.5) * _WEYL**order + 0.5 / number) % 1.0)
            yield point

    def to_mapping(self) -> dict[str, Any]:
        """Returns the form in a sweep file, JSON-able, with every default written out; `parse` reads it."""
        mapping = {name: dimension.to_mapping() for name, dimension in self.dimensions.items()}
        for name, conditions in self.when.items():
            mapping[name]["when"] = {key: list(values) for key, values in conditions.items()}
        return mapping

    def __str__(self) -> str:
        lines: list[str] = []
        for name, dimension in self.dimensions.items():
            conditions = " and ".join(
                f"{key} is {' or '.join(map(canonical_json, values))}"
                for key, values in self.when.get(name, {}).items()
            )
            lines.append(f"{name}: {dimension}{f' (when {conditions})' if conditions else ''}")
        points = "infinitely many points" if self.size is None else counted(self.size, "point")
        return "\n".join([*lines, points])

    def _count(self, names: Sequence[str], point: Mapping[str, Any]) -> int | None:
        """Returns the number of points that extend a partial point by these parameters; None for infinitely many.

        Branches only over parameters that others depend on.
        """
        deciding = {key for conditions in self.when.values() for key in conditions}
        total = 1
        for index, name in enumerate(names):
            if not self.is_active(name, point):
                continue
            dimension = self.dimensions[name]
            if isinstance(dimension, Choice) and name in deciding:
                parts = [self._count(names[index + 1 :], {**point, name: value}) for value in dimension.values]
                counts = [part for part in parts if part is not None]
                return None if len(counts) < len(parts) else total * sum(counts)
            if dimension.size is None:
                return None
            total *= dimension.size
        return total

    def _points(self, names: Sequence[str], point: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if not names:
            yield dict(point)
        elif not self.is_active(names[0], point):
            yield from self._points(names[1:], point)
        else:
            dimension = self.dimensions[names[0]]
            if isinstance(dimension, Choice | IntRange | Steps):
                for value in dimension.enumerate():
                    yield from self._points(names[1:], {**point, names[0]: value})

    def _admitting(self, name: str) -> dict[str, Any]:
        """Returns values of other parameters for which this one is active."""
        needed: dict[str, Any] = {}
        for key, values in self.when.get(name, {}).items():
            needed = {**needed, **self._admitting(key), key: values[0]}
        return needed


def _at(dimension: Dimension, quantile: float) -> Any:
    """Returns the value at a quantile of a dimension, in [0, 1)."""
    match dimension:
        case Choice():
            return dimension.values[int(quantile * dimension.size)]
        case IntRange():
            return dimension.low + int(quantile * dimension.size)
        case Steps():
            return dimension.at(int(quantile * dimension.size))
        case FloatRange(low=low, high=high, log=True):
            return low * (high / low) ** quantile
        case FloatRange(low=low, high=high):
            return low + (high - low) * quantile
        case _:
            return dimension.at(quantile)


def _takes_fractions(model: str, name: str, params: Mapping[str, Any]) -> bool:
    known = registered.parameters(model, params)
    return name in known and known[name].allowed.startswith("number")


def _conditions(given: Any, where: Where) -> When:
    if not isinstance(given, Mapping) or not given:
        raise SpaceError(where.says(f"expected a mapping from parameter to value, got {given!r}"))
    # A list means any of its values; a value that is itself a list is written as a list in a list.
    return {str(key): tuple(value) if isinstance(value, list | tuple) else (value,) for key, value in given.items()}


def _as_written(value: Any) -> Iterator[Any]:
    """Yields a value and, for a whole number, the same number as int or float: a space may have 1 for a model's 1.0."""
    yield value
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield float(value)


def _check_conditions(conditions: When, dimensions: Mapping[str, Dimension], where: Where) -> None:
    for key, values in conditions.items():
        deciding = dimensions.get(key)
        if deciding is None:
            raise SpaceError(where.at(key).says(f"{key!r} is not searched here; {suggestion(key, dimensions)}"))
        if not isinstance(deciding, Choice):
            raise SpaceError(where.at(key).says(f"expected {key!r} to be a list of values, it is {deciding}"))
        for value in values:
            if canonical_json(value) not in map(canonical_json, deciding.values):
                raise SpaceError(where.at(key).says(f"{key!r} is never {value!r}: it is {deciding}"))


def _in_order(dimensions: Mapping[str, Dimension], when: Mapping[str, When], where: Where) -> list[str]:
    sorter = TopologicalSorter({name: sorted(when.get(name, ())) for name in sorted(dimensions)})
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        raise SpaceError(where.says(f"circular conditions: {cycle}; remove one `when`")) from None
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order.extend(ready)
        sorter.done(*ready)
    return order
