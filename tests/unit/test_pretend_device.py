"""A device that is none: it refuses what CUDA refuses, counts what waits for a GPU, and computes what the CPU does."""

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from crowdsweep.models import _answers, _batches, registered
from crowdsweep.models.joint import _lia_answers, _lia_replicas, cmm
from crowdsweep.models.networks import replicas, streams, tables
from crowdsweep.testing.device_checks import compare_devices
from crowdsweep.testing.model_fits import short_model
from crowdsweep.testing.pretend_device import WrongDevice, pretend_device
from crowdsweep.testing.small_data import small_data


def test_tensors_say_that_they_lie_elsewhere_and_hold_the_same_numbers() -> None:
    table = torch.arange(6.0).view(2, 3)
    with pretend_device() as device:
        there = table.to(device.name)
        assert there.device.type == device.name
        assert torch.zeros(2, device=device.name).device == there.device
        assert torch.tensor([1, 2], device=device.name).dtype == torch.int64
        found = torch.softmax(there @ there.T, dim=1)
        assert found.device == there.device
        np.testing.assert_array_equal(found.cpu().numpy(), torch.softmax(table @ table.T, dim=1).numpy())
    assert table.device.type == "cpu"


def test_gradients_and_what_is_written_in_place_are_the_cpus() -> None:
    def steps(device: str) -> np.ndarray:
        weights = torch.arange(6.0).view(2, 3).to(device)
        view = weights[:, 1:]
        for _ in range(3):
            leaf = view.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad((leaf**2 + torch.sin(leaf)).sum(), leaf)
            view.sub_(slope, alpha=0.1)
            torch.mul(view, 0.5, out=view)
            weights[[1], 0] = 7.0
        return weights.cpu().numpy()

    with pretend_device() as device:
        there = steps(device.name)
    np.testing.assert_array_equal(there, steps("cpu"))


REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a sum of both": lambda here, there: here + there,
    "a product of both": lambda here, there: there @ here.T,
    "rows by an index here": lambda here, there: there.index_select(0, torch.tensor([0])),
    "rows by an index there": lambda here, there: here[there[:, 0].long()],
    "joined": lambda here, there: torch.cat([there, here]),
    "written into": lambda here, there: torch.sum(there, dim=1, out=torch.empty(2)),
    "an array": lambda here, there: there.numpy(),
    "an array in passing": lambda here, there: np.asarray(there),
    "an array by numpy's own functions": lambda here, there: np.exp(there),
    "an array after detaching": lambda here, there: there.detach().numpy(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cuda_refuses_is_refused(what: str) -> None:
    here = torch.ones(2, 3)
    with pretend_device() as device, pytest.raises(WrongDevice, match="device"):
        REFUSED[what](here, here.to(device.name))


def test_what_cuda_takes_is_taken() -> None:
    """Single numbers of the CPU, and indices there of what lies on the device."""
    with pretend_device() as device:
        there = torch.ones(2, 3, device=device.name)
        assert float((there * torch.tensor(2.0)).sum()) == 12.0
        assert there[torch.tensor([0])].shape == (1, 3)
        assert there.tolist() == [[1.0] * 3] * 2


WAITS: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    "nothing": (0, lambda there: (there * 2).sum()),
    "a number": (1, lambda there: float(there[0, 0])),
    "a truth": (1, lambda there: bool((there > 0).all())),
    "a copy": (1, lambda there: there.cpu()),
    "a list": (1, lambda there: there.tolist()),
    "a copy into": (1, lambda there: torch.empty(2, 3).copy_(there)),
    "where": (1, lambda there: (there > 0).nonzero()),
    "a mask": (1, lambda there: there[there > 0]),
    "repeated": (1, lambda there: torch.repeat_interleave(there, torch.ones_like(there[:, 0]).long(), 0)),
    "repeated so often": (
        0,
        lambda there: torch.repeat_interleave(there, torch.ones_like(there[:, 0]).long(), 0, output_size=2),
    ),
}


@pytest.mark.parametrize("what", WAITS)
def test_what_the_cpu_waits_for_is_counted(what: str) -> None:
    expected, work = WAITS[what]
    with pretend_device() as device:
        there = torch.ones(2, 3, device=device.name)
        work(there)
    assert device.syncs == expected


def test_transfers_are_counted_both_ways() -> None:
    with pretend_device() as device:
        there = torch.ones(2, 3).to(device.name)
        there[[0, 1]].cpu()
        there.copy_(torch.zeros(2, 3))
    assert (device.to_device.total(), device.to_host.total()) == (3, 1)


def test_its_tensors_are_not_computed_with_outside() -> None:
    with pretend_device() as device:
        there = torch.ones(2, device=device.name)
    with pytest.raises(WrongDevice, match="inside"):
        there + 1


# What brings to the device what a model computes with: of each of four models, its own and the shared ones.
MOVES = {
    "cmm": [cmm.GroupedCrowd.__init__, _batches.StackedRows.of, replicas.ReplicaStack.start],
    "lia": [_lia_answers.StackedSaid.__init__, _lia_replicas._Replicas.__init__, tables.EmbeddingTables.__init__],
    "speelfc": [_answers.StackedAnswers.__init__, _answers.StackedAnswers._tensor, streams.Shuffler.epoch],
    "ldl-nm": [streams.DropoutMasks.draw, _batches.StackedRows.of],
}
"""Functions that move something; each of their moves is one that somebody might forget."""
_MOVE = re.compile(r"\.to\((self\._)?device\)|, device=(self\._)?device\b")


def planted() -> list[Any]:
    """Returns a case for each move of each of these functions."""
    return [
        pytest.param(model, function, number, id=f"{model}-{function.__qualname__}-{number}")
        for model, functions in MOVES.items()
        for function in functions
        for number in range(len(_MOVE.findall(inspect.getsource(inspect.unwrap(function)))))
    ]


def without_move(function: Any, number: int) -> Any:
    """Returns a function whose text lacks one of its moves."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    source = textwrap.dedent(inspect.getsource(plain))
    found = list(_MOVE.finditer(source))[number]
    names = dict(plain.__globals__)
    exec(source[: found.start()] + source[found.end() :], names)
    return names[plain.__name__]


@pytest.mark.parametrize(("model", "function", "number"), planted())
def test_a_move_that_is_forgotten_is_found(
    model: str, function: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, sets = registered.model_info(model), [small_data(n_items=9), small_data(1, n_items=7)]
    owner = getattr(inspect.getmodule(inspect.unwrap(function)), function.__qualname__.split(".")[0])
    monkeypatch.setattr(owner, function.__name__, without_move(function, number))
    with pytest.raises(WrongDevice):
        compare_devices(info, short_model(info, epochs=1, iterations=1, restarts=1, dropout=0.2), sets)
