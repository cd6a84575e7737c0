"""What a fit costs, roughly, in the unit of `ModelInfo.cost`: a multiply-add on rows that are gathered or counted."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from crowdsweep.models.contract import DataShape

# A multiply-add inside a large matrix product against one on gathered or counted rows: a rough ratio, set so that plans
# of labelme and jobs come within a factor of three of the seconds that their trials took.
MATRIX_PRODUCT = 1 / 64
_SYMBOLS = 20  # of a text, for want of its length
# Shares of the epochs that are run where training stops by itself: by the paper's 3 % rule, and by watched items (of
# the epochs beyond the patience, without which nothing stops).
STOPPED_BY_LOSS = 0.2
STOPPED_BY_WATCHING = 0.3


def network_weights(shape: DataShape, params: Mapping[str, Any]) -> int:
    """Returns the number of weights of the classifier that the hyper-parameters name; of a network on texts, how many a
    text of `_SYMBOLS` symbols, or a token of a sentence, meets."""
    if params["network"] == "text_cnn":
        return _SYMBOLS * sum(params["widths"]) * params["embedding"] * params["filters"]
    if params["network"] == "tagger":
        letters, state = params["characters"], params["state"]
        steps = 2 * 3 * state * (params["embedding"] + letters + state) + 4 * state * (state + shape.n_classes)
        return 5 * (_SYMBOLS * 3 * letters * letters + steps)  # filled-up sentences, and small products step by step
    widths = [shape.n_features, *(params["hidden"] if params["network"] == "mlp" else ()), shape.n_classes]
    return sum(inner * outer for inner, outer in pairwise(widths))


def training_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of `epochs` epochs over the items (three products for each weight); 0 without what is read."""
    if not shape.n_features and params["network"] in ("linear", "mlp"):
        return 0.0
    epochs = params["epochs"] * stopping_share(params)
    return 3.0 * MATRIX_PRODUCT * epochs * shape.n_items * network_weights(shape, params)


def stopping_share(params: Mapping[str, Any]) -> float:
    """Returns the share of the epochs or iterations that is typically run under the rule that stops training."""
    patience = params.get("patience")
    if patience is not None:
        epochs = params["epochs"]
        return min(1.0, (patience + STOPPED_BY_WATCHING * max(0, epochs - patience)) / epochs)
    return STOPPED_BY_LOSS if params.get("protocol") == "paper" else 1.0
