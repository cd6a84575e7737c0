"""Whether scikit-learn asks for an estimator's tags because of answers of several annotators.

Cross-validation and searches ask once, before they part `y`. For a classifier they would check that `y` holds one label
an item, which refuses NaN and mixed objects, and would part it by class; answers are parted as they stand. scikit-learn
has no tag for this and does not say which `y` it asks for, so it is looked up where it asks.
"""

import inspect
from types import FrameType

import numpy as np

_ASK_ON = ("__sklearn_tags__", "get_tags", "is_classifier")  # pipelines and searches ask what is inside them
_CHECKERS = ("jaxtyping.", "beartype.")  # of types at run time, where somebody turned them on


def asked_for_answers() -> bool:
    """Whether the function that asks for tags holds a two-dimensional `y`: items × annotators.

    Only of use inside `__sklearn_tags__`. Whoever holds no `y`, or one label an item, hears of a classifier.
    """
    frame = inspect.currentframe()
    frame = None if frame is None else frame.f_back
    while frame is not None and (frame.f_code.co_name in _ASK_ON or _module(frame).startswith(_CHECKERS)):
        frame = frame.f_back
    if frame is None or not _module(frame).startswith("sklearn."):
        return False
    given = frame.f_locals.get("y")
    if isinstance(given, list | tuple):
        return bool(given) and isinstance(given[0], list | tuple | np.ndarray)
    return getattr(given, "ndim", None) == 2


def _module(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "")
