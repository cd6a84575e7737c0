"""A fit that gets no more memory: its batch is halved, what it held is let go, and who gets none alone fails."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from written_models import PREDICTING, VOTES, dataset, silent, specs_of

from crowdsweep.data import splits
from crowdsweep.errors import is_out_of_memory
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.trial.runner import run_batch

# Holds an array of its batch while it asks for more than there is, as a stacked network does.
GREEDY = (
    VOTES
    + """
import weakref
import torch

HELD = []
KINDS = {
    "torch": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "python": MemoryError("Unable to allocate 2.00 GiB for an array"),
    "runtime": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes."),
}

class Table:
    pass

@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    kind: str = "torch"
    most: int = 2
    hungry: tuple[int, ...] = ()

    def fit_batch(self, data, contexts):
        seeds = [context.seeds.seed for context in contexts]
        CALLS.append((seeds, [table() is None for table in HELD]))
        table = Table()
        HELD.append(weakref.ref(table))
        if len(seeds) > self.most or set(seeds) & set(self.hungry):
            raise KINDS[self.kind]
        return [votes(part, context) for part, context in zip(data, contexts)]
"""
)


def kinds(*, quick: str) -> list[Any]:
    """The ways to say that there is no more memory; all of them in the long suite."""
    return [
        kind if kind == quick else pytest.param(kind, marks=pytest.mark.long) for kind in ("torch", "python", "runtime")
    ]


def comparable(result: TrialResult) -> TrialResult:
    return replace(result, wall_s=0.0, batch_wall_s=0.0, batch_size=1, peak_bytes=0)


@pytest.mark.parametrize("kind", kinds(quick="python"))
def test_a_batch_that_is_too_large_is_halved(kind: str, add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-greedy", GREEDY)
    base = dataset()
    specs = specs_of("probe-greedy", base, params={"kind": kind})
    results = run_batch(specs, base, "cpu", silent)
    assert {result.status for result in results} == {Status.OK}
    assert [len(seeds) for seeds, _ in calls] == [8, 4, 2, 2, 4, 2, 2]
    alone = [run_batch([spec], base, "cpu", silent)[0] for spec in specs]
    assert list(map(comparable, results)) == list(map(comparable, alone))


def test_what_the_larger_batch_held_is_let_go_before_the_next(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-greedy", GREEDY)
    base = dataset()
    run_batch(specs_of("probe-greedy", base), base, "cpu", silent)
    assert all(all(gone) for _, gone in calls)


@pytest.mark.parametrize("kind", kinds(quick="torch"))
def test_who_gets_none_alone_fails_with_the_reason(kind: str, add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-greedy", GREEDY)
    base = dataset()
    results = run_batch(specs_of("probe-greedy", base, params={"kind": kind, "hungry": [3]}), base, "cpu", silent)
    assert [result.status for result in results] == ["ok"] * 3 + ["failed"] + ["ok"] * 4
    failure = results[3].failure
    assert failure is not None
    assert failure.kind == "OutOfMemory"
    assert not failure.of_infrastructure
    assert "needs more memory than its slot has" in failure.message
    assert "llocate" in failure.message
    assert "fit_batch" in failure.traceback


def test_data_that_memory_does_not_hold(add_model: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a model is asked: its data are made by the seed."""
    add_model("probe-votes", PREDICTING)
    base, prepare = dataset(), splits.prepare

    def too_much(base: Any, params: Any, seed: int, heldout: float) -> Any:
        if seed == 3:
            raise MemoryError
        return prepare(base, params, seed, heldout)

    monkeypatch.setattr(splits, "prepare", too_much)
    results = run_batch(specs_of("probe-votes", base, heldout_fraction=0.1), base, "cpu", silent)
    assert [result.status for result in results] == ["ok"] * 3 + ["failed"] + ["ok"] * 4
    assert results[3].failure is not None
    assert results[3].failure.kind == "OutOfMemory"


CROWDED = (
    VOTES
    + """
@dataclass
class Crowded:
    most: int
    fits: int
    uses = ("soft",)

    def predict(self, items, use):
        if self.fits > self.most:
            raise MemoryError
        return np.full((items.n_items, 2), 0.5)

@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    most: int = 1

    def fit_batch(self, data, contexts):
        CALLS.append(len(data))
        found = [votes(part, context) for part, context in zip(data, contexts)]
        return [replace(one, predictor=Crowded(self.most, len(data))) for one in found]
"""
)


def test_scores_that_memory_does_not_hold_beside_the_others_fits(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-crowded", CROWDED)
    base = dataset()
    results = run_batch(specs_of("probe-crowded", base, range(3)), base, "cpu", silent)
    assert [result.status for result in results] == ["ok"] * 3
    assert calls == [3, 1, 2, 1, 1]
    (result,) = run_batch(specs_of("probe-crowded", base, range(1), params={"most": 0}), base, "cpu", silent)
    assert result.failure is not None
    assert result.failure.kind == "OutOfMemory"


def test_another_failure_is_none_of_memory(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-greedy", GREEDY.replace("raise KINDS[self.kind]", "raise ZeroDivisionError('out of memory')"))
    base = dataset()
    (result,) = run_batch(specs_of("probe-greedy", base, range(1), params={"hungry": [0]}), base, "cpu", silent)
    assert result.failure is not None
    assert result.failure.kind == "ZeroDivisionError"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        SystemError("error return without exception set"),
    ],
)
def test_what_is_full_is_known_by_its_words(error: Exception) -> None:
    assert is_out_of_memory(error)
