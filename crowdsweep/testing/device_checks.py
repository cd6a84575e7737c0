"""The model contract's checks of devices; see `model_checks`.

They use a pretend device (`pretend_device`), as most machines that run tests have no GPU.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crowdsweep.models.contract import FitResult, Model, ModelInfo
from crowdsweep.models.fitting import fit_all
from crowdsweep.testing.model_fits import context_for, fitted_numbers, must, short_model
from crowdsweep.testing.pretend_device import PretendDevice, pretend_device
from crowdsweep.testing.promises import check
from crowdsweep.testing.small_data import SmallData, small_data


@check()
def stays_on_its_device(info: ModelInfo) -> None:
    """On a GPU it computes there, and gives the same numbers: nothing that it needs is left behind on the CPU."""
    sets = [small_data(n_items=12), small_data(1, n_items=9)]
    early = short_model(info, patience=2, epochs=2, iterations=3)  # early stopping has tensors of its own
    compare_devices(info, early, sets)


def compare_devices(info: ModelInfo, model: Model, sets: Sequence[SmallData]) -> PretendDevice:
    """Fits a batch on the CPU and on the pretend device; returns what happened on the device.

    Args:
        info: of the model.
        model: at its hyper-parameters.
        sets: what it is fitted to.

    Raises:
        AssertionError: the numbers differ, or it computes with tensors and none of them were on the device.
        WrongDevice: it did what CUDA refuses.
    """
    data = [one.training for one in sets]
    contexts = [context_for(info, one, seed) for seed, one in enumerate(sets)]
    here = [_all_numbers(fitted) for fitted in fit_all(model, data, contexts)]
    with pretend_device() as device:
        given = [replace(context, device=device.name) for context in contexts]
        there = [_all_numbers(fitted) for fitted in fit_all(model, data, given)]
    for one, other in zip(here, there, strict=True):
        for (what, numbers), (_, others) in zip(one, other, strict=True):
            np.testing.assert_array_equal(others, numbers, err_msg=f"{what}: a device decides the numbers")
    must(
        bool(device.computed) or not device.left_out,
        f"it computes with tensors ({device.left_out} operations) and none of it on the device that it is given "
        f"(`FitContext.device`)",
    )
    return device


def _all_numbers(fitted: FitResult) -> list[tuple[str, np.ndarray]]:
    """Returns what a fit says, what it says of labels that it did not see, and what it keeps."""
    found = list(fitted_numbers(fitted))
    if fitted.label_probs is not None:
        item = np.arange(min(6, len(fitted.item_probs)), dtype=np.int32)
        found.append(("label_probs", fitted.label_probs(item, np.arange(len(item), dtype=np.int32) % 3)))
    return [*found, *fitted.extras.items()]
