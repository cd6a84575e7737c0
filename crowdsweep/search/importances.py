"""The importance of hyper-parameters in a search, by Optuna's functional analysis of variance (fANOVA)."""

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
    """Returns the importance of each hyper-parameter: its share of the variance of the points' values.

    The importances, which include interactions with other hyper-parameters, sum to one. Only hyper-parameters that
    every point has (not conditional ones) and that took several values are included. Empty where there are fewer than
    two of these, or where all points have the same value.

    Args:
        scored: points and their values, at least two.
    """
    names = [name for name in space.dimensions if all(name in point for point, _ in scored)]
    names = [name for name in names if len({repr(point[name]) for point, _ in scored}) > 1]
    if len(names) < 2 or len({value for _, value in scored}) < 2:
        return {}
    with QuietOptuna(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study = optuna.create_study(direction="maximize")  # either direction has the same variance
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
