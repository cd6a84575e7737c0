"""Detection of whether scikit-learn asks for an estimator's tags in order to split a matrix of answers.

Cross-validation and searches ask for the tags once, before they split `y`. For a classifier they would check that `y`
has one label per item, which rejects NaN and mixed objects. They would also stratify the split by class. A matrix of
answers must be split without either. scikit-learn has no tag for this and does not pass `y`, so `y` is looked up in the
frame of the function that asks.
"""

import inspect
from types import FrameType

import numpy as np

_ASK_ON = ("__sklearn_tags__", "get_tags", "is_classifier")  # functions that only pass the question on
_CHECKERS = ("jaxtyping.", "beartype.")  # modules of run-time type checkers, where they are turned on


def splits_answers() -> bool:
    """Whether the scikit-learn function that asks for tags has a local two-dimensional `y`: items × annotators.

    Only meant to be called inside `__sklearn_tags__`. False where that function has no `y`, or one label per item.
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
