"""A pretend device for tests without a GPU: its tensors report another device, and their numbers are the CPU's.

    with pretend_device() as device:
        fitted = fit_one(model, data, FitContext(seeds=seeds, device=device.name))
    assert device.syncs < 10

It refuses what CUDA refuses: an operation on tensors of two devices, and arrays made of tensors that were not moved to
the CPU first. What is computed is what the CPU computes, so that a fit on it gives the same numbers to the last bit. It
counts what a real device has to wait for.

A tensor on it is a wrapper that says `meta` of itself, around a tensor on the CPU. Operations come by as torch
dispatches them (`TorchDispatchMode`); what Python does with a tensor before that comes by as a function
(`TorchFunctionMode`): `torch.tensor`, lists as an index, and what makes arrays.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

NAME = "meta"
"""What tensors on the pretend device say of themselves."""
_ELSEWHERE = torch.device(NAME)
_MAKES_OF_DATA = (torch.tensor, torch.as_tensor, torch.asarray)
_MAKES_ARRAYS = (torch.Tensor.numpy, torch.Tensor.__array__)
_INDEXES = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
# What waits for the device's answer, since the size of its result stands in the numbers.
_SIZED_BY_NUMBERS = frozenset(
    {"nonzero", "masked_select", "bincount", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"}
)
_TAKES_INDICES = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"})


class WrongDevice(RuntimeError):
    """What CUDA would refuse."""


@final
class PretendDevice:
    """What happened on the device.

    Attributes:
        name: what a fit is given.
        to_device: tensors that came from the CPU.
        to_host: tensors that went to the CPU.
        waits: times that the CPU waited for numbers of the device, for a Python number or the size of a result.
        computed, left_out: operations on the device, and on the CPU meanwhile.
    """

    def __init__(self) -> None:
        self.name = NAME
        self.to_device: Counter[str] = Counter()
        self.to_host: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.computed = 0
        self.left_out = 0

    @property
    def syncs(self) -> int:
        """Times that the CPU had to wait for the device."""
        return self.to_host.total() + self.waits.total()


@contextmanager
def pretend_device() -> Generator[PretendDevice]:
    """Provides the device inside a block, for this thread."""
    device = PretendDevice()
    with _Operations(device), _Functions(device):
        yield device


@final
class _Elsewhere(torch.Tensor):
    """A tensor on the pretend device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls: type["_Elsewhere"], held: torch.Tensor) -> "_Elsewhere":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=_ELSEWHERE,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise WrongDevice(
            f"expected {func} inside `with pretend_device()`, where alone its tensors can be computed with"
        )


@final
class _Operations(TorchDispatchMode):
    """Computes on the CPU what is asked of the device."""

    def __init__(self, device: PretendDevice) -> None:
        super().__init__()
        self._device = device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Answers no: nothing is compiled here, and to skip the compiler it would first have to be imported."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = _tensors_in((args, kwargs))
        there = [one for one in tensors if isinstance(one, _Elsewhere)]
        asked = kwargs.get("device")
        if not there and asked != _ELSEWHERE:
            self._device.left_out += 1
            return func(*args, **kwargs)
        self._device.computed += 1
        if torch.Tag.inplace_view in func.tags:
            raise NotImplementedError(f"expected no {func}, which the pretend device does not know")
        name = str(func.overloadpacket).rpartition(".")[2]
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        ends_there = asked == _ELSEWHERE if asked is not None else True
        if name == "copy_":
            return self._copied(*args, **kwargs)
        if name != "_to_copy":
            self._check(func, name, args, tensors)
        self._count(name, args, kwargs, bool(there), ends_there)
        found = func(*_held(args), **_held(kwargs))
        if not ends_there:
            return found
        written = _written(func, args, kwargs)
        if written is not None:
            return written
        return tree_map_only(torch.Tensor, _Elsewhere, found)

    def _check(self, func: Any, name: str, args: Sequence[Any], tensors: Iterable[torch.Tensor]) -> None:
        """Refuses tensors of the CPU beside those of the device, but for single numbers, and what picks rows."""
        allowed = _tensors_in(args[1]) if name in _TAKES_INDICES and isinstance(args[0], _Elsewhere) else []
        for one in tensors:
            if isinstance(one, _Elsewhere) or not one.dim() or any(one is index for index in allowed):
                continue
            raise WrongDevice(
                f"expected all tensors of {func} to be on one device, got one of shape {tuple(one.shape)} on the CPU "
                f"beside others on the device; move it with `.to(device)`"
            )

    def _count(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], was_there: bool, ends_there: bool
    ) -> None:
        device = self._device
        if name == "_to_copy":
            if not ends_there:
                device.to_host[name] += 1
            elif not was_there:
                device.to_device[name] += 1
        elif name in _TAKES_INDICES:
            device.to_device[name] += sum(not isinstance(one, _Elsewhere) for one in _tensors_in(args[1]))
            device.waits[name] += any(one.dtype in (torch.bool, torch.uint8) for one in _tensors_in(args[1]))
        elif name == "_local_scalar_dense" or name in _SIZED_BY_NUMBERS:
            device.waits[name] += 1
        elif name == "repeat_interleave":
            device.waits[name] += kwargs.get("output_size") is None

    def _copied(self, target: torch.Tensor, source: torch.Tensor, *rest: Any, **kwargs: Any) -> torch.Tensor:
        if not isinstance(target, _Elsewhere):
            self._device.to_host["copy_"] += 1
        elif not isinstance(source, _Elsewhere):
            self._device.to_device["copy_"] += 1
        _held(target).copy_(_held(source), *rest, **kwargs)
        return target


@final
class _Functions(TorchFunctionMode):
    """Looks at what is done with tensors in Python."""

    def __init__(self, device: PretendDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _MAKES_OF_DATA and kwargs.get("device") is not None and torch.device(kwargs["device"]) == _ELSEWHERE:
            return func(*args, **{**kwargs, "device": "cpu"}).to(_ELSEWHERE)
        if not args or not isinstance(args[0], _Elsewhere):
            return func(*args, **kwargs)
        if func in _MAKES_ARRAYS:
            raise WrongDevice(
                "expected a tensor on the CPU to make an array of, got one on the device: call `.cpu()` first"
            )
        if func is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        if func in _INDEXES:
            return func(args[0], self._index(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _index(self, index: Any) -> Any:
        """Returns an index whose lists and arrays have been brought to the device."""
        if isinstance(index, tuple):
            return tuple(map(self._index, index))
        if isinstance(index, list | np.ndarray):
            return torch.as_tensor(index).to(_ELSEWHERE)
        return index


def _tensors_in(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_flatten(value)[0] if isinstance(one, torch.Tensor)]


def _held(value: Any) -> Any:
    return tree_map_only(_Elsewhere, lambda one: one.held, value)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Returns what an operation writes into and returns, as `add_` and `out=` do; None where it makes something new."""
    returns = func._schema.returns
    if not returns or any(one.alias_info is None or not one.alias_info.is_write for one in returns):
        return None
    named = [
        kwargs.get(argument.name, args[place] if place < len(args) else None)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return named[0] if len(returns) == 1 else tuple(named[: len(returns)])
