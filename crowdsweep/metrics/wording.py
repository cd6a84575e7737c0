"""A metric's goal, words and unit, by its full name; all from the table (`known`)."""

from crowdsweep.metrics.metric_table import CountMetric, Goal, info_of, metric_kind


def goal_of(metric: str) -> Goal | None:
    """Returns which way is better; None where neither is, or where there is no such metric."""
    info = info_of(metric)
    return None if info is None else info.goal


def is_count(metric: str) -> bool:
    """Whether a metric counts what a trial was given (`n_annotations`) and says nothing of how well it went."""
    return isinstance(info_of(metric), CountMetric)


def is_share(metric: str) -> bool:
    """Whether a metric is a share of items, which people read in percent."""
    info = info_of(metric)
    return info is not None and info.is_share


def readable(metric: str) -> str:
    """Returns a metric's name as people write it, with its unit: `test_macro_f1` → `test macro-F1, %`."""
    info = info_of(metric)
    return words(metric) + (f", {info.unit}" if info is not None and info.unit else "")


def words(metric: str) -> str:
    """Returns a metric's name as people write it: `test_macro_f1` → `test macro-F1`."""
    name, _, use = metric.partition(".")
    info, kind = info_of(metric), metric_kind(metric)
    split = name.removesuffix(kind).replace("_", " ").replace("heldout", "held-out")
    known = kind.replace("_", " ") if info is None else info.words
    return split + known + (f" ({use})" if use else "")
