"""Spaces of any shape: written out and read back, counted and listed alike."""

import json
from itertools import islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crowdsweep.record.spec import canonical_json
from crowdsweep.search.contract import Sampler
from crowdsweep.search.optuna_points import OptunaPoints
from crowdsweep.search.space import Space

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9, allow_nan=False), st.text("abc", max_size=2)
)
values = st.one_of(scalars, st.lists(st.integers(1, 9), max_size=2))
choices = st.lists(values, min_size=1, max_size=4, unique_by=canonical_json).map(lambda found: {"values": found})
whole = st.tuples(st.integers(-5, 5), st.integers(1, 4)).map(lambda pair: {"min": pair[0], "max": pair[0] + pair[1]})
steps = st.tuples(st.floats(0.1, 2), st.floats(0.5, 2), st.floats(0.2, 1)).map(
    lambda parts: {"distribution": "q_uniform", "min": parts[0], "max": parts[0] + parts[1], "q": parts[2]}
)
log_steps = st.integers(1, 20).map(
    lambda top: {"distribution": "q_log_uniform_values", "min": 1, "max": 1 + top, "q": 1}
)
ranges = st.tuples(st.floats(0.01, 5), st.floats(0.01, 5), st.sampled_from(["uniform", "log_uniform_values"])).map(
    lambda parts: {"distribution": parts[2], "min": parts[0], "max": parts[0] + parts[1]}
)
normals = st.tuples(st.floats(-3, 3), st.floats(0.1, 3)).map(
    lambda parts: {"distribution": "normal", "mu": parts[0], "sigma": parts[1]}
)
finite = st.one_of(choices, whole, steps, log_steps)


@st.composite
def spaces(draw: st.DrawFn, shapes: Any = finite) -> dict[str, Any]:
    """Draws a space in sweep-file form, some parameters depending on earlier ones."""
    mapping: dict[str, Any] = {}
    for name in draw(st.permutations(["d", "a", "c", "b"]))[: draw(st.integers(0, 4))]:
        shape = dict(draw(shapes))
        deciding = [known for known, other in mapping.items() if "values" in other]
        if deciding and draw(st.booleans()):
            key = draw(st.sampled_from(deciding))
            wanted = draw(st.lists(st.sampled_from(mapping[key]["values"]), min_size=1, max_size=2, unique_by=repr))
            shape["when"] = {key: wanted}
        mapping[name] = shape
    return mapping


@settings(deadline=None)
@given(spaces(st.one_of(finite, ranges, normals)))
def test_a_space_written_out_is_the_same_space(mapping: dict[str, Any]) -> None:
    space = Space.parse(mapping)
    again = Space.parse(json.loads(json.dumps(space.to_mapping())))
    assert again == space
    assert again.hash == space.hash
    assert list(again.dimensions) == list(space.dimensions)


@settings(deadline=None)
@given(spaces())
def test_listing_gives_as_many_different_points_as_counted(mapping: dict[str, Any]) -> None:
    space = Space.parse(mapping)
    points = [canonical_json(point) for point in space.enumerate()]
    assert len(points) == len(set(points)) == space.size


@settings(max_examples=40, deadline=None)
@given(spaces(), spaces())
def test_what_lies_in_a_space_is_what_it_lists(one: dict[str, Any], other: dict[str, Any]) -> None:
    space = Space.parse(one)
    listed = [*map(parts, space.enumerate())]
    alike = [frozenset((name, as_a_number(text)) for name, text in its) for its in listed]
    for point in [*islice(space.enumerate(), 20), *islice(Space.parse(other).enumerate(), 20)]:
        found = space.point_in({**point, "not_searched": 1})
        of_model = {(name, as_a_number(text)) for name, text in parts(point)}
        assert (found is not None) == any(its <= of_model for its in alike)
        assert found is None or parts(found) in listed


def as_a_number(text: str) -> str:
    """Returns 1.0 as 1: a space may say either of a model's value."""
    return text.removesuffix(".0")


def parts(point: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, canonical_json(value)) for name, value in point.items())


@settings(max_examples=40, deadline=None)
@given(spaces())
def test_listing_is_the_product_without_what_conditions_rule_out(mapping: dict[str, Any]) -> None:
    space = Space.parse(mapping)
    naive: set[str] = set()
    pending: list[tuple[list[str], dict[str, Any]]] = [(list(mapping), {})]
    while pending:  # in the order written, in which what decides comes first
        names, point = pending.pop()
        if not names:
            naive.add(canonical_json(point))
            continue
        when = mapping[names[0]].get("when", {})
        if any(
            key not in point or canonical_json(point[key]) not in map(canonical_json, ok) for key, ok in when.items()
        ):
            pending.append((names[1:], point))
        else:
            alone = Space.parse({names[0]: {k: v for k, v in mapping[names[0]].items() if k != "when"}})
            pending.extend((names[1:], {**point, **part}) for part in alone.enumerate())
    assert {canonical_json(point) for point in space.enumerate()} == naive


@settings(max_examples=25, deadline=None)
@given(spaces(), st.integers(0, 99))
def test_every_point_of_a_finite_space_is_proposed_once(mapping: dict[str, Any], seed: int) -> None:
    space = Space.parse(mapping)
    assert space.size is not None
    n = min(space.size, 6)
    searcher = OptunaPoints(space, Sampler(kind="tpe", seed=seed), "maximize", limit=n + 1)
    points: list[str] = []
    while (proposal := searcher.ask()) is not None:
        points.append(canonical_json(proposal.point))
        searcher.tell(proposal.number, float(seed % (proposal.number + 1)))
    assert len(points) == len(set(points)) == min(space.size, n + 1)
    assert set(points) <= {canonical_json(point) for point in space.enumerate()}
