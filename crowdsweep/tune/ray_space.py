"""The search space of a model as domains of Ray Tune."""

from typing import Any

from ray import tune

from crowdsweep.errors import BadInput
from crowdsweep.models import registered
from crowdsweep.search.dimensions import Choice, Dimension, FloatRange, IntRange, Normal, Steps
from crowdsweep.search.space import Space


def param_space(model: str, **fixed: Any) -> dict[str, Any]:
    """Returns a model's default search space as Tune domains, by hyper-parameter.

    Tune draws conditional hyper-parameters in every trial; `trainable` drops them where they do not apply. A grid
    becomes a choice among its values, also one on a log scale. A normal domain is not truncated.

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
        case Steps():
            return tune.choice(list(dimension.enumerate()))
        case IntRange():
            return tune.randint(dimension.low, dimension.high + 1)
        case FloatRange():
            return (tune.loguniform if dimension.log else tune.uniform)(dimension.low, dimension.high)
        case Normal():
            return tune.randn(dimension.mu, dimension.sigma)
