"""The early stopping of searches: the rules that end fits and points, and their description for the plan."""

from collections.abc import Iterable, Mapping, Sequence

from crowdsweep.metrics.metric_table import ItemMetric, info_of
from crowdsweep.record.bar import Bar
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.search.median import FEWEST_RIVALS, MedianRule
from crowdsweep.search.racing import FEWEST_SEEDS
from crowdsweep.sweep.cells import Search
from crowdsweep.sweepfile.records import SweepConfig

RACING_SEEDS = 6  # with fewer, a point pruned after `racing.FEWEST_SEEDS` seeds would save too little


def raced_after(config: SweepConfig) -> int | None:
    """Returns the number of seeds after which a point may be pruned; None where points are not raced.

    It is half of the search seeds, but at least as many as the test needs.
    """
    n_seeds = config.seeds.search
    if config.early_stop.kind != "wilcoxon" or n_seeds < RACING_SEEDS:
        return None
    return max(FEWEST_SEEDS, n_seeds // 2)


def early_stop_of(config: SweepConfig, metric: str) -> MedianRule | None:
    """Returns the rule that ends fits of a search by this metric; None where every fit runs to its end.

    Only dev metrics of items are scored during a fit, so only they can end one.
    """
    rule = config.early_stop
    if rule.kind != "median" or not metric.startswith("dev_") or not isinstance(info_of(metric), ItemMetric):
        return None
    return MedianRule(quantile=rule.quantile, grace=rule.grace)


def early_stop_words(search: Search) -> str:
    """Returns a search's early stopping in words; empty where it has none."""
    rule = search.early_stop
    if search.raced:
        return f"points stopped after {search.raced} seeds that lose to the best one on them"
    if rule is None:
        return ""
    level = "the median" if rule.quantile == 0.5 else f"the {rule.quantile:g} quantile"
    return f"fits stopped below {level} of earlier points, from {100 * rule.grace:g} % of their length on"


def idle_early_stop(config: SweepConfig, searches: Sequence[Search]) -> str | None:
    """Returns why the early stopping that the sweep file asks for has no effect, in words; None where it has one."""
    kind = config.early_stop.kind
    if kind == "none":
        return None
    if not searches:
        return _idle(kind, "in this sweep", "nothing is searched")
    if kind == "wilcoxon":
        least = f"it needs at least {RACING_SEEDS} search seeds, and seeds.search is {config.seeds.search}"
        return None if any(search.raced for search in searches) else _idle(kind, "in this sweep", least)
    unscored = sorted({search.metric.name for search in searches if search.early_stop is None})
    least_points = config.sampler.parallel + FEWEST_RIVALS
    if unscored:
        where = "in this sweep" if all(one.early_stop is None for one in searches) else "in some searches"
        return _idle(kind, where, f"{', '.join(unscored)} is not scored while a fit goes on; dev metrics are")
    if all(search.limit < least_points for search in searches):
        first = f"the first that is compared is number {least_points}: sampler.parallel + {FEWEST_RIVALS}"
        return _idle(kind, "in this sweep", f"no search has as many points: {first}")
    return None


def bars_of(
    rule: MedianRule,
    search: Search,
    specs: Iterable[TrialSpec],
    earlier: Iterable[Sequence[TrialSpec]],
    results: Mapping[str, TrialResult],
) -> dict[str, Bar]:
    """Returns trial key → bar that ends this trial early, for the trials of one point.

    Trials of which too little is known have no bar.

    Args:
        earlier: for each point that this point is compared with, its trials.
    """
    rivals: dict[int, dict[str, TrialResult]] = {}
    for own in earlier:
        for spec in own:
            if spec.key in results:
                rivals.setdefault(spec.seed, {})[spec.key] = results[spec.key]
    made = {
        spec.key: rule.bar(rivals.get(spec.seed, {}).values(), search.metric.name, search.metric.goal) for spec in specs
    }
    return {key: bar for key, bar in made.items() if bar is not None}


def _idle(kind: str, where: str, why: str) -> str:
    return f"early_stop: {kind} does nothing {where}: {why}"
