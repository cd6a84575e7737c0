"""Ranks over datasets: which models differ, when nothing can be said of that, and how page and figure say it."""

from html import unescape
from math import inf
from pathlib import Path

import numpy as np
import pytest
from journals import made_up_sweep, made_up_trials
from published_sweeps import scores
from scipy import stats

from crowdsweep.analysis.methods import methods_of
from crowdsweep.analysis.ranks import CriticalDifference, MeanRanks
from crowdsweep.analysis.ranks import mean_ranks as ranked
from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.metrics.rank_tests import critical_difference, friedman_test, not_different
from crowdsweep.record.journal import Journal
from crowdsweep.views.figures.bars import mean_ranks
from crowdsweep.views.figures.of_report import figures_of
from crowdsweep.views.page.page import render_page


def ranks_of(*rows: tuple[float, ...]) -> MeanRanks:
    found = ranked([(f"set {n}", dict(zip("abcdef", row, strict=False))) for n, row in enumerate(rows)])
    assert found is not None
    return found


def sweep_of(folder: Path, n_datasets: int) -> AnalysedSweep:
    """Three models; a is best everywhere, b and c take turns."""
    events = []
    for number in range(n_datasets):
        b, c = (0.7, 0.6) if number % 2 else (0.6, 0.7)
        for shift, (model, mean) in enumerate({"a": 0.9, "b": b, "c": c}.items()):
            events += made_up_trials(model, f"set {number}", scores(mean, shift=shift))
    models = [{"name": name, "label": name, "params": {}} for name in "abc"]
    journal = Journal(folder)
    journal.handle_many(made_up_sweep(events, models=models))
    journal.close()
    return analysed(folder)


def test_where_all_datasets_agree_f_has_no_bound() -> None:
    test = friedman_test(np.tile([1.0, 2.0, 3.0], (6, 1)))
    assert (test.chi2, test.f, test.p) == (pytest.approx(12.0), inf, 0.0)


def test_f_is_that_of_an_analysis_of_variance_of_ranks() -> None:
    """An independent way to Iman and Davenport's F, ties and all: models over models × datasets, on ranks."""
    ranks = stats.rankdata(np.random.default_rng(3).integers(0, 5, (9, 5)), axis=1)
    between = 9 * ((ranks.mean(axis=0) - 3.0) ** 2).sum() / 4
    rest = ((ranks - ranks.mean(axis=0)) ** 2).sum() / (4 * 8)
    assert friedman_test(ranks).f == pytest.approx(between / rest)


@pytest.mark.parametrize(("n_models", "n_datasets"), [(3, 5), (6, 6), (12, 16)])
def test_models_that_are_alike_differ_in_one_of_twenty_sweeps_at_most(n_models: int, n_datasets: int) -> None:
    """All models are equally good: how often do any two of them differ?"""
    drawn = np.random.default_rng(0).random((3000, n_datasets, n_models)).argsort(axis=2) + 1.0
    means = drawn.mean(axis=1)
    wrong = float((np.ptp(means, axis=1) >= critical_difference(n_models, n_datasets)).mean())
    assert 0.02 < wrong < 0.06


def test_runs_of_models_that_do_not_differ_are_as_long_as_can_be() -> None:
    means = [1.0, 1.5, 2.0, 3.0, 5.0]
    assert not_different(means, 1.5) == [(0, 2), (2, 3)], "what is a critical difference apart differs"
    assert not_different(means, 1.0) == [(0, 1), (1, 2)]
    assert not_different(means, 0.1) == []
    assert not_different(means, 9.0) == [(0, 4)]
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    for difference in (0.3, 0.7, 1.2, 2.2, 3.7):
        runs = not_different(means, difference)
        for a, b in pairs:
            assert any(first <= a and b <= last for first, last in runs) == (means[b] - means[a] < difference)


def test_scores_that_differ_in_their_last_bit_tie() -> None:
    assert ranks_of((0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2)).ranks == {"a": 1.5, "b": 1.5}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(1.0, 2.0, 3.0)] * 2, "at least three datasets"),
        ([(1.0, 2.0)] * 9, "three models"),
        ([(1.0, 2.0, 3.0)] * 4, "at least five datasets, these are 4"),
        ([(1.0, 1.0, 1.0)] * 9, "tie everywhere"),
    ],
)
def test_why_nothing_is_said_of_differences(rows: list[tuple[float, ...]], reason: str) -> None:
    found = ranks_of(*rows)
    assert found.critical is None
    assert reason in found.reason


def test_from_five_datasets_on_the_figure_says_which_models_differ(tmp_path: Path) -> None:
    found = sweep_of(tmp_path, 6)
    ranks = found.comparison.ranks
    assert ranks is not None
    assert ranks.critical is not None
    assert ranks.critical.difference == pytest.approx(1.353, abs=5e-4)
    assert ranks.critical.joined == [(1, 2)]
    figure = next(iter(figures_of(found).of("ranks")), None)
    assert figure is not None
    assert "Nemenyi" in figure.caption
    assert "(Benavoli et al., 2016)" in figure.caption
    page = unescape(render_page(found))  # by hand: mean ranks 1, 2.5, 2.5, so χ² = 9 and F = 5 · 9 / (12 - 9)
    assert "F(2, 10) = 15.00, p < 0.001; χ² = 9.00" in page
    assert "1.35 or more apart" in page
    assert "(F(2, 10) = 15.00, p < 0.001; χ² = 9.00), and those of two models by Nemenyi" in " ".join(methods_of(found))


def test_of_four_datasets_the_page_says_that_they_are_too_few(tmp_path: Path) -> None:
    found = sweep_of(tmp_path, 4)
    assert "No critical difference of ranks: it takes at least five datasets, these are 4." in render_page(found)
    figure = next(iter(figures_of(found).of("ranks")), None)
    assert figure is not None
    assert "Nemenyi" not in figure.caption


def test_lines_join_the_models_that_do_not_differ() -> None:
    each = {"a": [1.0, 1.0], "b": [2.0, 3.0], "c": [3.0, 2.0], "d": [4.0, 4.0]}
    axes = mean_ranks(each, CriticalDifference(difference=1.6, joined=[(0, 2), (1, 3)])).axes[0]
    assert [text.get_text() for text in axes.texts][-1] == "critical difference 1.60"
    lines = [(list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))) for line in axes.lines]  # pyright: ignore[reportArgumentType]
    assert ([1.0, 2.6], [3.85, 3.85]) in lines
    heights = [ys for xs, ys in lines if xs[0] > 1.1 and len(set(xs)) == 1 and len(ys) == 2 and ys[0] > ys[1]]
    assert heights == [[3.25, 0.75], [2.25, -0.25]], "the first on top"
