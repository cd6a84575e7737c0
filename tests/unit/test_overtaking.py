"""Where one model overtakes another along an axis, and how costs grow: against curves that are known."""

import numpy as np
import pytest

from crowdsweep.studies.axis import AxisPoint, ModelsAlong
from crowdsweep.studies.costs_along import costs_table, growing, growth
from crowdsweep.studies.crossovers import crossovers

SIZES = (100, 1000, 10000)


def along(noise: float, seeds: int = 20, **lines: tuple[float, float, float]) -> ModelsAlong:
    """Models whose means at `SIZES` are given; noise differs by seed and model."""
    random = np.random.default_rng(0)
    return {
        name: {
            size: AxisPoint(by_seed={"m": {seed: mean + noise * random.standard_normal() for seed in range(seeds)}})
            for size, mean in zip(SIZES, means, strict=True)
        }
        for name, means in lines.items()
    }


def test_the_place_is_between_the_values_on_a_log_scale() -> None:
    (found,) = crossovers(along(0.0, a=(0.9, 0.8, 0.5), b=(0.8, 0.8 - 0.1, 0.7)), "m")
    assert (found.before, found.after, found.share) == ("a", "b", 1.0)
    assert found.at == pytest.approx(10 ** (3 + 1 / 3))
    assert found.low is None, "an interval of width zero would claim a certainty that seeds cannot give"


def test_the_place_is_where_the_best_model_changes() -> None:
    """Once b was already before a, while c led; then a leads, and b overtakes it."""
    models = along(0.0, a=(0.6, 0.8, 0.5), b=(0.7, 0.7, 0.7), c=(0.9, 0.1, 0.1))
    found = list(crossovers(models, "m"))
    assert [(one.before, one.after) for one in found] == [("c", "a"), ("a", "b")]
    assert found[1].at == pytest.approx(10**3.333, rel=0.01)


def test_who_leads_all_along_is_overtaken_by_nobody() -> None:
    assert not list(crossovers(along(0.0, a=(0.9, 0.8, 0.7), b=(0.8, 0.7, 0.6)), "m"))


def test_the_interval_covers_and_doubt_is_told() -> None:
    """Lines that cross at 1,000, with noise: the 95 % interval covers that in most draws of it."""
    covered: list[bool] = []
    for draw in range(60):
        random = np.random.default_rng(draw)
        models: ModelsAlong = {
            name: {
                size: AxisPoint(by_seed={"m": {s: mean + 0.05 * random.standard_normal() for s in range(10)}})
                for size, mean in zip(SIZES, means, strict=True)
            }
            for name, means in {"a": (0.9, 0.8, 0.7), "b": (0.8, 0.8, 0.8)}.items()
        }
        for found in crossovers(models, "m"):
            assert found.low is not None
            assert found.high is not None
            covered.append(found.low <= 1000 <= found.high)
    assert len(covered) >= 55
    assert np.mean(covered) >= 0.85
    unsure = list(crossovers(along(0.3, a=(0.9, 0.8, 0.5), b=(0.8, 0.7, 0.7)), "m"))
    assert any(found.share < 0.95 and "not certain" in found.words("annotators") for found in unsure)


def test_one_seed_gives_a_place_without_an_interval() -> None:
    (found,) = crossovers(along(0.0, seeds=1, a=(0.9, 0.8, 0.5), b=(0.8, 0.7, 0.7)), "m")
    assert found.low is None
    assert found.words("annotators") == "b overtakes a at about 2,200 annotators"


def test_an_exponent_is_the_slope_of_logarithms() -> None:
    exact = growth(SIZES, [3.0 * size**1.5 for size in SIZES])
    assert exact is not None
    assert (exact.exponent, exact.low, exact.high) == pytest.approx((1.5, 1.5, 1.5))
    rough = growth(SIZES, [1.0, 12.0, 90.0])
    assert rough is not None
    assert rough.low < 1 < rough.high
    assert growth(SIZES[:2], [1.0, 2.0]) is None


def test_seconds_and_memory_grow_by_their_exponents() -> None:
    """Memory without the floor that every process holds; what grows less than the allocator's noise is not told."""
    floor = 400_000_000
    models: ModelsAlong = {
        "heavy": {n: AxisPoint(wall_s=[0.001 * n] * 2, peak_bytes=[floor + 300_000 * n]) for n in SIZES},
        "light": {n: AxisPoint(wall_s=[0.5 * n**0.5], peak_bytes=[floor + n]) for n in SIZES},
    }
    seconds, memory = growing(models, "number of annotators")
    assert "to the power of: heavy 1.00 [1.00, 1.00], light 0.50 [0.50, 0.50]" in seconds
    assert memory.endswith("to the power of: heavy 1.00 [1.00, 1.00]")
    table = costs_table("costs", models, "annotators", SIZES)
    assert [row[0] for row in table.rows] == ["100", "1,000", "10,000"]
    assert table.rows[0][1:] == ["100 ms, 410 MiB", "5.0 s, 381 MiB"]


def test_who_began_as_good_overtakes_nobody() -> None:
    assert not list(crossovers(along(0.0, a=(0.8, 0.7, 0.6), b=(0.8, 0.75, 0.7)), "m"))
