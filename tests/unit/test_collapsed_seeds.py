"""Which seeds collapsed, found for all gaps at once, against a loop over them."""

import numpy as np
import pytest

from crowdsweep.metrics.intervals import collapsed


def by_loops(values: list[float], goal: str, low: float, high: float) -> int:
    ordered = sorted(values if goal == "maximize" else [-value for value in values])
    count, widest = 0, 0.0
    for place in range(1, len(ordered)):
        below, above = ordered[:place], ordered[place:]
        larger = above if len(above) >= len(below) else below
        if len(larger) < 3:
            continue
        gap = above[0] - below[-1]
        size = (high - low) / 10 if np.isfinite(high - low) else abs(float(np.median(larger))) / 2
        if larger is below:
            size *= 3
        if gap > 3 * (larger[-1] - larger[0]) and gap > size and gap > widest:
            count, widest = place, gap
    return count


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
@pytest.mark.parametrize("high", [1.0, np.inf])
def test_every_number_of_seeds_and_every_split(goal, high) -> None:
    rng = np.random.default_rng(0)
    seen: set[int] = set()
    for n in range(1, 12):
        good = rng.uniform(0.88, 0.9, size=(60, n))
        fallen = rng.integers(0, n + 1, 60)
        values = np.where(np.arange(n) < fallen[:, None], rng.uniform(0.1, 0.12, size=(60, n)), good)
        values[::7] = rng.uniform(size=values[::7].shape)
        values[::11] = 0.5  # all alike
        found = collapsed(values, goal, 0.0, high)
        expected = [by_loops(row, goal, 0.0, high) for row in values.tolist()]
        assert found.tolist() == expected
        seen |= set(expected)
    assert len(seen) > 4, "too few kinds of splits were drawn"
