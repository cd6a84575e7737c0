"""torch, imported when it is first used: importing it takes a second, and describing a model needs none of it.

Models write `from crowdsweep.models.lazy_torch import torch` in place of `import torch`. How it works:

- `torch` is an empty module with two names, `Tensor` and `device`: stand-ins for these types, which annotations keep.
- The first look-up of any other name imports torch and copies all of its names into that module. From then on each
  look-up is as fast as torch's own, and `torch.Tensor` and `torch.device` are the types themselves.
- A stand-in that an annotation kept answers `isinstance`, `issubclass` and calls as the type itself does.
- So a module may use these two types and `without_gradients` while it is imported, and nothing else of torch. Classes
  derived from torch's stand in modules of their own (`networks.written_gradients`, `networks.averaged`), which are
  imported inside the functions that use them.
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
        """The type of a stand-in, named like the type of torch that it stands for."""

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
        """Imports torch, and copies its names into the module below."""
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
