"""Whether what a redundancy study answers holds as often as it says, where the truth is known: simulated crowds, and
public sets of which more labels were bought."""

from collections import Counter
from pathlib import Path

import pytest
from benchmarks import labels_needed as benchmark

PROMISED = benchmark.SHARE


def test_labels_needed_lie_in_their_intervals() -> None:
    name = "easy, some hard"
    figures = list(benchmark.simulated({name: benchmark.CROWDS[name]}, (100,), 20))
    assert [figure.what.split(":")[0] for figure in figures] == [
        "within a tolerance of all", "to reach a target", "fitted curve, labels for a target",
        "fitted curve, gain of more labels",
    ]  # fmt: skip
    assert sum(figure.inside for figure in figures) >= PROMISED * sum(figure.told for figure in figures)
    assert not any(figure.broken for figure in figures)


@pytest.mark.long
@pytest.mark.parametrize("crowd", benchmark.CROWDS)
def test_labels_needed_lie_in_their_intervals_whatever_the_crowd(crowd: str) -> None:
    for figure in benchmark.simulated({crowd: benchmark.CROWDS[crowd]}, (300,), 100):
        assert not figure.broken, figure


def test_a_figure_that_does_not_hold_is_broken() -> None:
    figure = benchmark.Figure(what="", inside=70, told=100, asked=120)
    assert figure.broken
    assert "70.0 % of 100, 20 refused  BROKEN" in str(figure)


@pytest.mark.long
def test_a_curve_says_what_more_labels_bring_public_sets_or_refuses(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every set with gold and ten labels per item: of all that is told beyond what a curve was fitted to, and of ten
    labels by five, at least 90 % contain what was measured."""
    monkeypatch.setenv("CROWDSWEEP_DATA", str(shared_data))
    asked: Counter[tuple[tuple[int, ...], int]] = Counter()
    told: Counter[tuple[tuple[int, ...], int]] = Counter()
    inside: Counter[tuple[tuple[int, ...], int]] = Counter()
    for name in benchmark.SETS:
        for fit, held in benchmark.public(name, benchmark.SEEDS):
            asked[fit] += 1
            told[fit] += held is not None
            inside[fit] += bool(held)
    ten_by_five = benchmark.FITS[0]
    assert ten_by_five == ((1, 2, 3, 4, 5), 10)
    assert asked[ten_by_five] == len(benchmark.SETS) * len(benchmark.MODELS)
    assert told[ten_by_five] >= 5
    assert inside[ten_by_five] >= PROMISED * told[ten_by_five]
    assert told.total() >= 80
    assert inside.total() >= PROMISED * told.total()
