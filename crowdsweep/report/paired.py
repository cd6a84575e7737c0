"""Paired tests over seeds, with Holm's correction for several comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from crowdsweep.metrics.intervals import Estimate, estimate

SIGNIFICANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """One model against the best on the same seeds.

    Attributes:
        test: `paired t`, `Wilcoxon`, or `none` where nothing varies or fewer than two seeds pair.
        difference: best minus this one, in the metric's own units, over the common seeds.
        p: two-sided; None where there is no test.
        p_holm: p after Holm's correction over all comparisons on this dataset.
        reason: why there is no test; empty where there is one.
    """

    test: str
    difference: Estimate | None
    p: float | None = None
    p_holm: float | None = None
    reason: str = ""

    @property
    def distinguishable(self) -> bool:
        """Whether the difference is significant at 5 % after correction, or exact: both constant and unequal."""
        if self.p_holm is not None:
            return self.p_holm < SIGNIFICANCE
        return self.difference is not None and self.difference.constant and self.difference.mean != 0.0


def paired_test(best: Mapping[int, float], other: Mapping[int, float], comparisons: int) -> PairedTest:
    """Tests two models on their common seeds, uncorrected.

    Wilcoxon's signed-rank test where its smallest possible p, 2 / 2ⁿ, times the number of comparisons is within 5 %:
    with fewer seeds it could not reject anything, and the paired t test is used. Differences that are the same at
    every seed leave nothing to test.
    """
    seeds = sorted(best.keys() & other.keys())
    if not seeds:
        return PairedTest(test="none", difference=None, reason="no seed in common")
    differences = [best[seed] - other[seed] for seed in seeds]
    difference = estimate(differences)
    if len(seeds) < 2:
        return PairedTest(test="none", difference=difference, reason="one seed only")
    if difference.constant:
        same = abs(difference.mean) <= 1e-12
        reason = "the same at every seed" if same else "the same difference at every seed"
        exact = replace(difference, mean=0.0) if same else difference
        return PairedTest(test="none", difference=exact, reason=reason)
    if 2.0 * 0.5 ** len(seeds) * comparisons <= SIGNIFICANCE:
        return PairedTest(test="Wilcoxon", difference=difference, p=float(stats.wilcoxon(differences).pvalue))
    p = float(stats.ttest_1samp(differences, 0.0).pvalue)
    return PairedTest(test="paired t", difference=difference, p=p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns Holm's step-down adjusted p values, in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = running
    return adjusted
