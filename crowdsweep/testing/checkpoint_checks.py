"""The model contract's checks of checkpoints; see `model_checks`."""

from dataclasses import replace

import numpy as np

from crowdsweep.models.contract import FitResult, Model, ModelInfo
from crowdsweep.models.fitting import fit_one
from crowdsweep.testing.model_fits import (
    RecordedCheckpoint,
    context_for,
    fitted_numbers,
    must,
    recorded_fit,
    short_model,
)
from crowdsweep.testing.promises import check
from crowdsweep.testing.small_data import SmallData, small_data
from crowdsweep.trial.checkpoints import NOT_BEGUN, Saved, decode, encode


@check()
def a_lost_fit_goes_on_as_it_was(info: ModelInfo) -> None:
    """A model that declares `checkpoints` resumes from the last one with the numbers of an uninterrupted fit, bit by
    bit, and trains nothing twice; a model that does not declare them makes none.
    """
    fitted, last = recorded_fit(info.name)
    makes = bool(last.written)
    must(makes == info.checkpoints, f"checkpoints is {info.checkpoints}, and it makes {'some' if makes else 'none'}")
    if makes:
        must_go_on(info, short_model(info), small_data(), fitted, last)


def must_go_on(
    info: ModelInfo, model: Model, data: SmallData, undisturbed: FitResult, recorded: RecordedCheckpoint
) -> None:
    """Checks that a fit goes on from the last checkpoint of another.

    Args:
        info: of the model.
        model: at its hyper-parameters.
        data: that it was fitted to, with seed 0.
        undisturbed: the uninterrupted fit.
        recorded: its checkpoint.

    Raises:
        AssertionError: the numbers differ, or finished training is repeated.
    """
    content = encode(Saved(progress=NOT_BEGUN, states=recorded.written), {})
    checkpoint = RecordedCheckpoint(decode(content, {}).states)
    again = fit_one(model, data.training, replace(context_for(info, data), checkpoint=checkpoint))
    missed = set(recorded.written) - checkpoint.asked
    must(not missed, f"trainings of the checkpoint were not resumed: {sorted(missed)}")
    must(not checkpoint.written, "what had been trained was trained again")
    for (what, one), (_, other) in zip(fitted_numbers(undisturbed), fitted_numbers(again), strict=True):
        np.testing.assert_array_equal(other, one, err_msg=what)
