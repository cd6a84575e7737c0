"""The importance of hyper-parameters in a search: functional analysis of variance, as Optuna computes it."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import create_trial

from crowdsweep.search.optuna_points import QuietOptuna, distribution_of, encoded
from crowdsweep.search.space import Space


def importances(space: Space, scored: Sequence[tuple[Mapping[str, Any], float]]) -> dict[str, float]:
    """Returns hyper-parameter → the share of the values' variance that it explains, alone or with others; they sum to
    one.

    Only parameters that every point has are judged (not those that hang on another's value), and of these only those
    that took several values; nothing where fewer than two of them did, or where all values are the same.

    Args:
        space: what was searched.
        scored: points and their values, at least two.
    """
    names = [name for name in space.dimensions if all(name in point for point, _ in scored)]
    names = [name for name in names if len({repr(point[name]) for point, _ in scored}) > 1]
    if len(names) < 2 or len({value for _, value in scored}) < 2:
        return {}
    with QuietOptuna(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study = optuna.create_study(direction="maximize")  # variance knows no direction
        for point, value in scored:
            study.add_trial(
                create_trial(
                    value=value,
                    params={name: encoded(space.dimensions[name], point[name]) for name in names},
                    distributions={name: distribution_of(space.dimensions[name]) for name in names},
                )
            )
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=names)
    return {name: float(share) for name, share in found.items()}
