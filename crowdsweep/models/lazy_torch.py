"""torch, imported when it is first used: importing it takes a second, and who only describes a model trains none.

Models say `from crowdsweep.models.lazy_torch import torch` for `import torch`. While a module is imported they may name
`torch.Tensor` and `torch.device` as types, decorate with `without_gradients`, and use nothing else of it: classes
derived from torch's stand in modules of their own (`networks.written_gradients`, `networks.averaged`), imported where
they are used.
"""

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - to be imported from here
else:

    class _Named(type):
        """The type of a stand-in for one of torch's types, whose instances are those of that type."""

        def __call__(cls, *args: Any, **named: Any) -> Any:
            return getattr(_imported(), cls.__name__)(*args, **named)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, getattr(_imported(), cls.__name__))

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, getattr(_imported(), cls.__name__))

    def _imported() -> ModuleType:
        import torch  # noqa: PLC0415 - that is what this file is for

        return torch

    def _first_used(name: str) -> Any:
        """Fills the module below, which then is looked up in as fast as torch itself."""
        vars(torch).update(vars(_imported()))
        return getattr(torch, name)

    torch = ModuleType("torch")
    torch.Tensor, torch.device = _Named("Tensor", (), {}), _Named("device", (), {})
    torch.__getattr__ = _first_used


def without_gradients(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function run under `torch.no_grad`."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.no_grad():
            return function(*args, **kwargs)

    return run
