"""What only a real GPU shows: it agrees with the CPU, gives the same bits twice, and says when it is full.

Skipped where there is none; `tests/benchmarks/on_a_gpu.py` runs it, and then measures.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crowdsweep.models import devices, registered
from crowdsweep.models.contract import FitResult
from crowdsweep.models.fitting import fit_all
from crowdsweep.testing.model_fits import context_for, fitted_numbers, short_model
from crowdsweep.testing.small_data import multilabel_data, small_data

GPU = "cuda:0"
AGREE = 1e-4

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.xdist_group("gpu"),
    # Of an operation that adds in another order each time torch warns; which models have one is not promised.
    pytest.mark.filterwarnings("ignore:.*deterministic"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine's torch sees no GPU"),
]


def with_networks() -> list[str]:
    """The models of the rooms that compute with tensors."""
    modules = {name: registered.model_info(name).model.__module__ for name in registered.model_names()}
    return [name for name, module in modules.items() if ".joint." in module or ".two_stage." in module]


def fitted(model: str, device: str) -> list[FitResult]:
    devices.prepare(device)
    info = registered.model_info(model)
    sets = [small_data(), small_data(1), small_data(2, n_items=17, n_annotators=9)]
    if "multilabel" in info.supports:
        sets = [multilabel_data()]
    contexts = [replace(context_for(info, data, seed), device=device) for seed, data in enumerate(sets)]
    return fit_all(short_model(info), [data.training for data in sets], contexts)


@pytest.mark.parametrize("model", with_networks())
def test_posteriors_and_winners_are_the_cpus(model: str) -> None:
    for here, there in zip(fitted(model, "cpu"), fitted(model, GPU), strict=True):
        for (what, one), (_, other) in zip(fitted_numbers(here), fitted_numbers(there), strict=True):
            scale = np.maximum(1.0, np.abs(one))  # of objectives; what is a probability is below
            np.testing.assert_allclose(other / scale, one / scale, atol=AGREE, err_msg=what)
        best = np.sort(here.item_probs, axis=1)
        clear = best[:, -1] - best[:, -2] > 2 * AGREE
        np.testing.assert_array_equal(there.item_probs.argmax(axis=1)[clear], here.item_probs.argmax(axis=1)[clear])


@pytest.mark.parametrize("model", ["cmm", "lia", "speelfc", "ldl-nm", "conal", "mtl"])
def test_the_same_bits_twice(model: str) -> None:
    for one, other in zip(fitted(model, GPU), fitted(model, GPU), strict=True):
        np.testing.assert_array_equal(one.item_probs, other.item_probs)
        np.testing.assert_array_equal(one.objective, other.objective)


def test_it_can_be_used_and_says_what_is_free() -> None:
    assert devices.why_unusable(GPU) == ""
    free = devices.free_bytes(GPU)
    assert free is not None
    assert free > 1 << 20


def test_what_is_let_go_is_free_again() -> None:
    devices.release(GPU)
    before = devices.free_bytes(GPU)
    held = torch.zeros(1 << 28, device=GPU)
    during = devices.free_bytes(GPU)
    del held
    devices.release(GPU)
    after = devices.free_bytes(GPU)
    assert before is not None
    assert during is not None
    assert after is not None
    assert before - during >= 1 << 30
    assert after - during >= 1 << 30


def test_a_gpu_that_is_full_says_so_in_known_words() -> None:
    from crowdsweep.errors import is_out_of_memory

    with pytest.raises(RuntimeError) as raised:
        torch.zeros(1 << 44, device=GPU)
    assert is_out_of_memory(raised.value)
    devices.release(GPU)
    assert devices.why_unusable(GPU) == ""
