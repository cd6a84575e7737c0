"""The names of all metrics."""

from crowdsweep.errors import UnknownName

ITEM_METRICS = ("accuracy", "macro_f1", "log_loss", "brier", "ece", "kl", "kl_reverse", "js")
CROWD_METRICS = ("heldout_loglik", "js_annotators", "js_global", "js_global_weighted")
METRIC_NAMES = (*(f"{split}_{metric}" for split in ("train", "dev", "test") for metric in ITEM_METRICS), *CROWD_METRICS)


def check_metric_name(name: str, where: str = "") -> None:
    """Checks a metric's name; `dev_kl.snap` is `dev_kl` of one of a model's test-time uses, which only the model
    knows.

    Raises:
        UnknownName: there is no such metric.
    """
    plain, dot, use = name.partition(".")
    if plain not in METRIC_NAMES or (dot and not use) or (use and plain in CROWD_METRICS):
        raise UnknownName("metric", name, METRIC_NAMES, where)
