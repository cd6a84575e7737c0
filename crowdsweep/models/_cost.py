"""Cost estimates of fits, in the unit of `ModelInfo.cost`: a multiply-add on rows that are gathered or counted."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from crowdsweep.models.contract import DataShape
from crowdsweep.models.training_length import FEW_UNITS, FOLDS, STEPS, UNSTOPPED_STEPS

# A multiply-add inside a large matrix product against one on gathered or counted rows: a rough ratio, set so that plans
# of labelme and jobs come within a factor of three of the seconds that their trials took.
MATRIX_PRODUCT = 1 / 64
# Of a step of the optimiser, however small its products are: a fifth of a millisecond.
_STEP = 4e4
_SYMBOLS = 20  # of a text, for want of its length
_TEXT_WEIGHTS = (3 + 4 + 5) * 64 * 64  # of `text_cnn` at its defaults
# Shares of the epochs that are run where training stops by itself: by the paper's 3 % rule, and by validation items (of
# the epochs beyond the patience, without which nothing stops).
STOPPED_BY_LOSS = 0.2
STOPPED_BY_VALIDATION = 0.3


def network_weights(shape: DataShape, params: Mapping[str, Any]) -> int:
    """Returns the number of weights of the classifier that the hyper-parameters name; of a network on texts, how many a
    text of `_SYMBOLS` symbols, or a token of a sentence, meets."""
    if params["network"] == "auto" and not shape.n_features:
        return _SYMBOLS * _TEXT_WEIGHTS
    if params["network"] == "text_cnn":
        return _SYMBOLS * sum(params["widths"]) * params["embedding"] * params["filters"]
    if params["network"] == "tagger":
        letters, state = params["characters"], params["state"]
        steps = 2 * 3 * state * (params["embedding"] + letters + state) + 4 * state * (state + shape.n_classes)
        return 5 * (_SYMBOLS * 3 * letters * letters + steps)  # filled-up sentences, and small products step by step
    widths = [shape.n_features, *(params["hidden"] if params["network"] != "linear" else ()), shape.n_classes]
    return sum(inner * outer for inner, outer in pairwise(widths))


def training_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of all passes over the items (three products for each weight), those in folds among them where
    items are few; 0 without what is read."""
    if not shape.n_features and params["network"] in ("linear", "mlp"):
        return 0.0
    passes = passes_over(shape.n_items, params, params["epochs"]) * stopping_share(params)
    validates = params.get("patience") is not None and params.get("protocol", "until_trained") == "until_trained"
    if validates and shape.n_features and shape.n_items < FEW_UNITS:
        passes *= 1 + FOLDS
    steps = passes * max(1.0, shape.n_items / params.get("batch_size", shape.n_items))
    return 3.0 * MATRIX_PRODUCT * passes * shape.n_items * network_weights(shape, params) + _STEP * steps


def passes_over(n_rows: int, params: Mapping[str, Any], epochs: int, *, stops: bool = True) -> float:
    """Returns how often so many rows are gone through in so many epochs: as often, or until `steps` are made.

    Args:
        n_rows: a step takes `batch_size` of.
        stops: whether the model may stop before its last epoch (`Classifier.unstopped`).
    """
    least = params.get("steps")
    if least is None:
        linear = params["network"] == "linear" or params.get("hidden") == []
        least = STEPS if stops or linear else UNSTOPPED_STEPS
        least *= params.get("protocol", "until_trained") == "until_trained"
    return max(float(epochs), least * params["batch_size"] / max(1, n_rows))


def stopping_share(params: Mapping[str, Any]) -> float:
    """Returns the share of the epochs or iterations that is typically run under the rule that stops training."""
    patience, protocol = params.get("patience"), params.get("protocol", "until_trained")
    if patience is not None and protocol == "until_trained":
        epochs = params["epochs"]
        return min(1.0, (patience + STOPPED_BY_VALIDATION * max(0, epochs - patience)) / epochs)
    return STOPPED_BY_LOSS if protocol == "paper" else 1.0
