"""The search space of a model as domains of Ray Tune."""

from collections.abc import Callable
from typing import Any

from ray import tune
from ray.tune.search import sample

from crowdsweep.errors import BadInput
from crowdsweep.models import registered
from crowdsweep.search.dimensions import NORMAL_TAIL, Choice, Dimension, FloatRange, IntRange, Normal, Steps
from crowdsweep.search.space import Space


def param_space(model: str, **fixed: Any) -> dict[str, Any]:
    """Returns a model's default search space as Tune domains, by hyper-parameter.

    Tune draws conditional hyper-parameters in every trial; `trainable` drops them where they do not apply. A grid
    becomes a choice among its values. A grid on a log scale, and a normal distribution with its tails cut off, are none
    of Tune's: they are drawn here, for Tune's random search and its schedulers. Its other searchers refuse them.

    Args:
        model: registered name.
        fixed: hyper-parameters that are not searched; give them to `trainable` as well.

    Raises:
        UnknownName: there is no such model, or it has no such hyper-parameter.
        BadInput: no hyper-parameter is left to search.
    """
    registered.full_params(model, fixed)
    space = Space.parse(registered.model_info(model).space, f"default space of {model}").fixing(fixed)
    if not space.dimensions:
        raise BadInput(f"expected a model with something to search, got {model!r}, which has nothing beside {fixed}")
    return {name: _domain(dimension) for name, dimension in space.dimensions.items()}


def _domain(dimension: Dimension) -> Any:
    match dimension:
        case Choice():
            return tune.choice(list(dimension.values))
        case Steps(log=True):
            return _log_steps(dimension)
        case Steps():
            return tune.choice(list(dimension.enumerate()))
        case IntRange():
            return tune.randint(dimension.low, dimension.high + 1)
        case FloatRange():
            return (tune.loguniform if dimension.log else tune.uniform)(dimension.low, dimension.high)
        case Normal():
            return _normal(dimension)


class _Drawn(sample.Sampler):
    """Draws what none of Tune's own samplers does, with Tune's random numbers.

    Args:
        at: returns the value at a quantile from 0 to 1.
    """

    def __init__(self, at: Callable[[float], float]) -> None:
        self._at = at

    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:  # noqa: ARG002 - Tune's
        drawn: Any = tune.uniform(0.0, 1.0).sample(size=size, random_state=random_state)
        return self._at(drawn) if size == 1 else [self._at(one) for one in drawn]


def _drawn(low: float, high: float, at: Callable[[float], float]) -> sample.Float:
    domain = sample.Float(low, high)
    domain.set_sampler(_Drawn(at))
    return domain


def _log_steps(dimension: Steps) -> sample.Float:
    low, high = float(dimension.low), float(dimension.high)
    return _drawn(low, high, lambda at: dimension.at(dimension.position(low * (high / low) ** at)))


def _normal(dimension: Normal) -> sample.Float:
    tails = 1 - 2 * NORMAL_TAIL
    return _drawn(
        dimension.at(NORMAL_TAIL), dimension.at(1 - NORMAL_TAIL), lambda at: dimension.at(NORMAL_TAIL + tails * at)
    )
