"""Which hyper-parameters the values of a search hang on."""

import numpy as np
import pytest

from crowdsweep.search.importances import importances
from crowdsweep.search.space import Space

SPACE = Space.parse(
    {
        "groups": {"min": 1, "max": 9},
        "rate": {"distribution": "log_uniform_values", "min": 0.001, "max": 1.0},
        "hidden": {"values": [[16], [32], None]},
        "only": {"min": 1, "max": 9, "when": {"hidden": [[32]]}},
    }
)


def points(n: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    made: list[dict[str, object]] = []
    for _ in range(n):
        point: dict[str, object] = {"groups": int(rng.integers(1, 10)), "rate": float(10 ** rng.uniform(-3, 0))}
        point["hidden"] = [[16], [32], None][int(rng.integers(3))]
        made.append({**point, "only": 2} if point["hidden"] == [32] else point)
    return made


def test_what_alone_moves_the_values_explains_them() -> None:
    tried = points(60)
    shares = importances(SPACE, [(point, float(np.log10(point["rate"]))) for point in tried])  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert set(shares) == {"groups", "rate", "hidden"}  # not the one that only some points have
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["rate"] > 0.9
    of_choice = importances(SPACE, [(point, float(point["hidden"] is None)) for point in tried])
    assert of_choice["hidden"] > 0.8
    assert importances(SPACE, [(point, float(point["hidden"] is None)) for point in tried]) == of_choice


def test_where_nothing_can_be_told_nothing_is() -> None:
    tried = points(12)
    assert importances(SPACE, [(point, 0.5) for point in tried]) == {}
    assert importances(Space.parse({"groups": {"min": 1, "max": 9}}), [({"groups": n}, float(n)) for n in (1, 5)]) == {}
