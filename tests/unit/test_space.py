"""Search spaces: what the shapes mean, what conditions do, what is refused."""

import itertools
import math
from typing import Any

import pytest

from crowdsweep.errors import SpaceError
from crowdsweep.record.spec import canonical_json
from crowdsweep.search.dimensions import Choice, Dimension, FloatRange, IntRange, Normal, Steps
from crowdsweep.search.space import Space

CONDITIONAL = {
    "network": {"values": ["linear", "mlp"]},
    "hidden": {"values": [[64], [128, 64]], "when": {"network": "mlp"}},
    "dropout": {"values": [0.0, 0.5], "when": {"network": "mlp", "hidden": [[128, 64]]}},
    "smoothing": {"values": [0, 1, 2]},
}


@pytest.mark.parametrize(
    ("shape", "dimension"),
    [
        ({"value": 3}, Choice((3,))),
        ({"distribution": "constant", "value": [1, 2]}, Choice(([1, 2],))),
        ({"values": ["a", None, True, 0.5]}, Choice(("a", None, True, 0.5))),
        ({"distribution": "categorical", "values": [1]}, Choice((1,))),
        ({"min": 1, "max": 9}, IntRange(1, 9)),
        ({"distribution": "int_uniform", "min": 1, "max": 9}, IntRange(1, 9)),
        ({"min": 1, "max": 9.0}, FloatRange(1.0, 9.0)),
        ({"distribution": "uniform", "min": 1, "max": 9}, FloatRange(1.0, 9.0)),
        ({"distribution": "log_uniform_values", "min": 1e-3, "max": 1}, FloatRange(1e-3, 1.0, log=True)),
        ({"distribution": "q_uniform", "min": 0.1, "max": 0.45, "q": 0.1}, Steps(0.1, 0.45, 0.1)),
        ({"distribution": "q_log_uniform_values", "min": 1, "max": 8, "q": 1}, Steps(1, 8, 1, log=True)),
        ({"distribution": "normal", "mu": 0, "sigma": 2}, Normal(0.0, 2.0)),
    ],
)
def test_the_shapes_are_wandbs(shape: dict[str, object], dimension: object) -> None:
    space = Space.parse({"x": shape})
    assert space.dimensions["x"] == dimension
    assert Space.parse(space.to_mapping()) == space


def test_a_grid_of_steps_has_clean_values_of_one_kind() -> None:
    assert list(Steps(0.1, 0.45, 0.1).enumerate()) == [0.1, 0.2, 0.3, 0.4]
    assert list(Steps(1, 20, 5).enumerate()) == [1, 6, 11, 16]
    assert all(isinstance(value, int) for value in Steps(1, 20, 5).enumerate())
    assert Steps(0.1, 0.4, 0.1).size == 4  # 0.4 - 0.1 is a little less than 3 × 0.1 in floating point


@pytest.mark.parametrize(
    ("dimension", "inside", "outside"),
    [
        (FloatRange(0.1, 2.0), [0.1, 1.0, 2.0], [0.0999, 2.1, 1, True, "1.0", None]),
        (IntRange(1, 9), [1, 9], [0, 10, 2.0, True, "2"]),
        (Normal(0.0, 1.0), [0.0, 3.7], [3.8, 0]),
        (Steps(0.1, 0.45, 0.1), [0.1, 0.3], [0.35, 0.5, 1]),
        (Steps(1, 8, 1, log=True), [1, 8], [1.5, 9, 2.0, False]),
        (Choice((1, None, [2])), [1, None, [2]], [True, 1.0, 2]),
    ],
)
def test_a_value_is_held_as_it_would_be_proposed(dimension: Dimension, inside: list[Any], outside: list[Any]) -> None:
    assert all(map(dimension.holds, inside))
    assert not any(map(dimension.holds, outside))


def test_conditions_leave_out_what_does_not_apply() -> None:
    space = Space.parse(CONDITIONAL)
    networks = [
        {"network": "linear"},
        {"network": "mlp", "hidden": [64]},
        {"network": "mlp", "hidden": [128, 64], "dropout": 0.0},
        {"network": "mlp", "hidden": [128, 64], "dropout": 0.5},
    ]
    expected = [{**network, "smoothing": s} for network, s in itertools.product(networks, [0, 1, 2])]
    points = list(space.enumerate())
    assert sorted(points, key=canonical_json) == sorted(expected, key=canonical_json)
    assert space.size == 12


def test_size_of_a_space_too_large_to_list_and_of_an_infinite_one() -> None:
    wide = {f"x{i}": {"min": 1, "max": 10} for i in range(30)}
    assert Space.parse(wide).size == 10**30
    assert Space.parse({**CONDITIONAL, **wide}).size == 12 * 10**30
    assert Space.parse({"x": {"min": 0.0, "max": 1.0}}).size is None
    assert Space.parse({}).size == 1
    assert list(Space.parse({}).enumerate()) == [{}]
    with pytest.raises(SpaceError, match="cannot list every point: x is a range of real numbers"):
        list(Space.parse({"x": {"min": 0.0, "max": 1.0}}).enumerate())


def test_the_hash_tells_spaces_apart_but_not_how_they_are_written() -> None:
    space = Space.parse(CONDITIONAL)
    assert Space.parse(dict(reversed(CONDITIONAL.items()))).hash == space.hash
    assert Space.parse({**CONDITIONAL, "smoothing": {"values": [0, 1]}}).hash != space.hash
    assert Space.parse({"a": {"values": [1]}}).hash != Space.parse({"a": {"values": [True]}}).hash


def test_fixing_takes_out_what_is_given_and_what_that_rules_out() -> None:
    space = Space.parse(CONDITIONAL)
    assert list(space.fixing({"network": "linear"}).dimensions) == ["smoothing"]
    mlp = space.fixing({"network": "mlp"})
    assert set(mlp.dimensions) == {"hidden", "dropout", "smoothing"}
    assert mlp.size == 3 * (1 + 2)
    assert space.fixing({"hidden": [64]}).size == 2 * 3
    assert space.fixing({}) == space


def test_a_space_can_be_read() -> None:
    assert str(Space.parse({**CONDITIONAL, "rate": {"distribution": "log_uniform_values", "min": 1e-3, "max": 1}})) == (
        'network: one of "linear", "mlp"\n'
        "rate: 0.001 to 1, log scale\n"
        "smoothing: one of 0, 1, 2\n"
        'hidden: one of [64], [128,64] (when network is "mlp")\n'
        'dropout: one of 0.0, 0.5 (when network is "mlp" and hidden is [128,64])\n'
        "infinitely many points"
    )


def test_normal_quantiles_are_those_of_the_tables() -> None:
    normal = Normal(10.0, 2.0)
    assert normal.at(0.975) == pytest.approx(10 + 2 * 1.959964, abs=1e-5)
    assert normal.quantile(12.0) == pytest.approx(0.841345, abs=1e-6)
    assert [round(value, 2) for value in normal.probes()] == [2.56, 10.0, 17.44]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"x": 3}, "here: x: expected values or a range, for example {values: [1, 2]} or {min: 0.1, max: 1.0}; got 3"),
        ({"x": {}}, "here: x: expected value, values, min and max, or distribution; got nothing"),
        ({"x": {"min": 1}}, "here: x: int_uniform needs min and max; max is missing"),
        ({"x": {"min": 3, "max": 3}}, "here: x: expected min below max, got min 3 and max 3"),
        ({"x": {"min": "a", "max": 3}}, "here: x.min: expected a number, got 'a'"),
        ({"x": {"min": True, "max": 3}}, "here: x.min: expected a number, got True"),
        ({"x": {"min": 0.0, "max": math.inf}}, "here: x.max: expected a number, got inf"),
        ({"x": {"values": []}}, "here: x.values: expected a list of at least one value, got []"),
        ({"x": {"values": "abc"}}, "here: x.values: expected a list of at least one value, got 'abc'"),
        ({"x": {"values": [1, 2, 1]}}, "here: x.values.2: 1 appears twice in this list; keep one"),
        ({"x": {"values": [{"a": 1}]}}, "here: x.values.0: expected a number, text, true, false, null, or a list"),
        ({"x": {"values": [math.nan]}}, "here: x.values.0: expected a number, text"),
        ({"x": {"values": [1], "probabilities": [1]}}, "here: x.probabilities: unknown key 'probabilities' of categ"),
        (
            {"x": {"distribution": "uniform", "min": 0, "max": 1, "q": 1}},
            "here: x.q: unknown key 'q' of uniform; write {distribution: q_uniform, min: 0,",
        ),
        ({"x": {"distribution": "unifrom", "min": 0}}, "here: x.distribution: unknown distribution 'unifrom'; did you"),
        (
            {"x": {"distribution": "log_uniform", "min": -3, "max": 0}},
            "here: x.distribution: 'log_uniform' is not supp",
        ),
        (
            {"x": {"distribution": "log_uniform_values", "min": 0, "max": 1}},
            "here: x.min: expected a number above 0, g",
        ),
        ({"x": {"distribution": "int_uniform", "min": 0.5, "max": 1}}, "here: x.min: expected a whole number, got 0.5"),
        ({"x": {"distribution": "normal", "mu": 0, "sigma": 0}}, "here: x.sigma: expected a number above 0, got 0"),
        ({"x": {"values": [1], "when": {"y": 1}}}, "here: x.when.y: 'y' is not searched here; known: x"),
        ({"x": {"values": [1], "when": 3}}, "here: x.when: expected a mapping from parameter to value, got 3"),
        (
            {"y": {"min": 1, "max": 2}, "x": {"values": [1], "when": {"y": 1}}},
            "here: x.when.y: expected 'y' to be a li",
        ),
        (
            {"y": {"values": [1, 2]}, "x": {"values": [1], "when": {"y": 3}}},
            "here: x.when.y: 'y' is never 3: it is one o",
        ),
        (
            {"x": {"values": [1], "when": {"y": 1}}, "y": {"values": [1], "when": {"x": 1}}},
            "here: circular conditions: ",
        ),
    ],
)
def test_what_is_not_a_space_is_refused_with_its_place(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(SpaceError) as raised:
        Space.parse(mapping, "here")
    assert str(raised.value).startswith(message)


def test_a_space_must_fit_every_condition_of_its_model() -> None:
    Space.parse(
        {"network": {"values": ["linear", "mlp"]}, "hidden": {"values": [[8]], "when": {"network": "mlp"}}}
    ).check_fits("pd", {})
    with pytest.raises(SpaceError, match=r"^hidden: model 'pd', parameter 'hidden': expected"):
        Space.parse({"hidden": {"values": [[8], [0]]}}).check_fits("pd", {})
    with pytest.raises(SpaceError, match=r"^epochs: model 'pd', parameter 'epochs': expected"):
        Space.parse({"epochs": {"distribution": "q_uniform", "min": 1.0, "max": 9.0, "q": 0.5}}).check_fits("pd", {})
    with pytest.raises(SpaceError, match=r"^smoothing: model 'dawid-skene', parameter 'smoothing': expected"):
        Space.parse({"smoothing": {"distribution": "normal", "mu": 1, "sigma": 1}}).check_fits("dawid-skene", {})
