"""Checks that involve several keys of a sweep file, made after all keys are read."""

import re

from crowdsweep.data import catalogue
from crowdsweep.errors import SweepFileError, UnknownName, Where, shortened
from crowdsweep.metrics.metric_table import check_metric_name
from crowdsweep.metrics.wording import is_share
from crowdsweep.models import registered
from crowdsweep.sweepfile.records import SweepConfig


def check_published(config: SweepConfig, where: Where) -> None:
    """Checks the names in published values. Where `--set`, or a file that extends another, has replaced the list of
    models or datasets beside the values, that list may lack models or datasets of the values."""
    beside = where.at("published", "values").file
    replaced = {
        key
        for key in ("models", "datasets")
        if where.at(key).file != beside or where.origins.get((key,), "").startswith("--set")
    }
    models = {*registered.model_names(), *(entry.label for entry in config.models)}
    datasets = {*catalogue.names(), *(entry.name for entry in config.datasets)}
    for index, value in enumerate(config.published.values):
        inner = where.at("published", "values", index)
        if value.model not in models and "models" not in replaced:
            raise UnknownName("model", value.model, models, str(inner.at("model")))
        if value.dataset not in datasets and "datasets" not in replaced:
            raise UnknownName("dataset", value.dataset, datasets, str(inner.at("dataset")))
        check_metric_name(value.metric, str(inner.at("metric")))


def check_shares(config: SweepConfig, where: Where) -> None:
    """Checks that published values of metrics that are shares are not percentages."""
    for index, value in enumerate(config.published.values):
        if is_share(value.metric) and value.value > 1:
            told = (
                f"expected a share, at most 1, got {value.value:g}; write {value.value / 100:g} for {value.value:g} %"
            )
            raise SweepFileError(where.at("published", "values", index, "value").says(told))


def check_grid(config: SweepConfig, where: Where) -> None:
    """Checks that each space is finite, and within the budget of points, where the sampler is a grid."""
    if config.sampler.kind != "grid":
        return
    for index, entry in enumerate(config.models):
        size, inner = entry.space.size, where.at("models", index, "search")
        if size is None:
            raise SweepFileError(
                inner.says("a grid needs a finite space: give values or q_uniform, or take another sampler")
            )
        if size > config.budget.points:
            raise SweepFileError(inner.says(f"the grid has {size} points, budget.points is {config.budget.points}"))


def check_several(config: SweepConfig, where: Where) -> None:
    """Checks the keys that need several objectives, and those that cannot be combined with them."""
    several = config.metric is not None and config.metric.further
    if several and config.early_stop.kind != "none":
        raise SweepFileError(
            where.at("early_stop", "kind").says(
                f"expected none, since `metric` names several objectives; got {config.early_stop.kind}, which stops "
                f"points by one objective, so their other objectives stay unknown"
            )
        )
    if not several and config.sampler.kind == "nsga2":
        raise SweepFileError(
            where.at("sampler", "kind").says(
                "expected several objectives with nsga2, such as metric: [dev_accuracy, seconds]; for one objective "
                "use tpe or gp, or leave it out"
            )
        )


def check_register(config: SweepConfig, where: Where) -> None:
    """Checks the name in MLflow's model registry, which needs tracking to be enabled and a sweep of one dataset."""
    name, place = config.tracking.register, where.at("tracking", "register")
    if not name:
        return
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,199}", name):
        raise SweepFileError(
            place.says(f"expected letters, digits, spaces, `-`, `_`, `.`, at most 200; got {shortened(name)!r}")
        )
    if not config.tracking.enabled:
        raise SweepFileError(place.says("expected tracking.enabled: true with it; MLflow registers what it tracks"))
    names = {dataset.name for dataset in config.datasets}
    if len(names) > 1:
        raise SweepFileError(
            place.says(
                f"expected one dataset, whose recommended model is registered, got {len(names)}; leave it out, and say "
                f"`crowdsweep label DIR --dataset NAME` when the sweep has ended"
            )
        )
