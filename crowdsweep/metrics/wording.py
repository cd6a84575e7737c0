"""What a metric's name says: which split, which way is better, and how people read it."""

from typing import Literal

_MAXIMISED = ("accuracy", "macro_f1", "heldout_loglik")
_SHARES = ("accuracy", "macro_f1")
_SPLITS = ("train_", "dev_", "test_")
_WORDS = {
    "macro_f1": "macro-F1",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "ece": "ECE",
    "kl": "KL",
    "kl_reverse": "reverse KL",
    "js": "JS",
    "heldout_loglik": "held-out log-likelihood",
    "js_annotators": "JS of annotators",
    "js_global": "JS of the crowd",
    "js_global_weighted": "JS of the crowd, weighted",
}


def metric_kind(metric: str) -> str:
    """Returns a metric without its split and its test-time use: `test_accuracy.crowd` → `accuracy`."""
    name = metric.partition(".")[0]
    return name.partition("_")[2] if name.startswith(_SPLITS) else name


def goal_of(metric: str) -> Literal["maximize", "minimize"]:
    """Returns which way is better: up for accuracies, F1 and likelihoods, down for divergences and losses."""
    return "maximize" if metric_kind(metric) in _MAXIMISED else "minimize"


def is_count(metric: str) -> bool:
    """Whether a metric counts what a trial was given (`n_annotations`) and says nothing of how well it went."""
    return metric.startswith("n_")


def is_share(metric: str) -> bool:
    """Whether a metric is a share of items, which people read in percent."""
    return metric_kind(metric) in _SHARES


def readable(metric: str) -> str:
    """Returns a metric's name as people write it, with its unit: `test_macro_f1` → `test macro-F1, %`."""
    return words(metric) + (", %" if is_share(metric) else "")


def words(metric: str) -> str:
    """Returns a metric's name as people write it: `test_macro_f1` → `test macro-F1`."""
    name, _, use = metric.partition(".")
    kind = metric_kind(metric)
    split = name.removesuffix(kind).replace("_", " ")
    return split + _WORDS.get(kind, kind.replace("_", " ")) + (f" ({use})" if use else "")
