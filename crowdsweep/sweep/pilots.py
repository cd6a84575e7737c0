"""Pilots in a process beside this one, as trials of the inline engine: whatever a model does there, a plan is made."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from crowdsweep.data.dataset import TrialData
from crowdsweep.engine.work import BUG, DONE, Call
from crowdsweep.engine.worker import Forkserver, WorkerDied, bug_of
from crowdsweep.models import registered
from crowdsweep.models.contract import ModelInfo
from crowdsweep.sweep.pilot import LinearCost, Outputs, measured_cost, outputs_of, pilot_data
from crowdsweep.trial.model_calls import ModelFault, guarded

LONGEST_S = 60.0  # of all fits of one pilot, the import of its model among them


class Pilots:
    """Fits models for a moment; the process is started with the first of them."""

    def __init__(self) -> None:
        self._forkserver = Forkserver()
        self._costs: dict[str, LinearCost | None] = {}

    def cost(
        self, key: str, info: ModelInfo, params: Mapping[str, Any], trial: Callable[[], TrialData]
    ) -> LinearCost | None:
        """Returns what `measured_cost` finds, once for each key; None also where the model ends its process or hangs.

        Args:
            key: of what decides it.
            info: the model.
            params: all its hyper-parameters.
            trial: makes a dataset that brings what the model needs.
        """
        if key not in self._costs:
            self._costs[key] = self._call(measured_cost, info, params, trial())
        return self._costs[key]

    def outputs(self, info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Outputs | None:
        """Returns what `outputs_of` does; None also where the model ends its process or hangs."""
        return self._call(outputs_of, info, params, trial)

    def close(self) -> None:
        """Ends the process; may be called twice."""
        self._forkserver.close()

    def _call(self, function: Callable[..., Any], info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Any:
        """Calls a function of `pilot` in the process; None where it does not return."""
        until = time.monotonic() + LONGEST_S
        try:
            call = Call(function=_called, arguments=(function, info.name, params, pilot_data(trial)))
            self._forkserver.worker().send(call)
            while (left_s := until - time.monotonic()) > 0:
                match self._forkserver.receive(left_s):
                    case (str() as kind, result) if kind == DONE:
                        return result
                    case (str() as kind, (text, trace)) if kind == BUG:
                        raise bug_of(text, trace)
                    case _:
                        pass
        except WorkerDied:
            pass
        self._forkserver.kill_worker()
        return None


def _called(function: Callable[..., Any], name: str, params: Mapping[str, Any], trial: TrialData) -> Any:
    """Calls a function of `pilot` in the process, which finds the model by its name."""
    try:
        info = guarded(registered.model_info)(name)
    except ModelFault:
        return None
    return function(info, params, trial)
