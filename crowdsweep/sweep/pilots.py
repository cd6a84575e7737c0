"""Pilots in a process beside this one, as trials of the inline engine: whatever a model does there, a plan is made."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from crowdsweep.data.dataset import TrialData
from crowdsweep.engine.work import BUG, DONE, Call
from crowdsweep.engine.worker import Forkserver, WorkerDied, bug_of
from crowdsweep.models import registered
from crowdsweep.models.contract import ModelInfo
from crowdsweep.sweep.pilot import Gives, Pace, gives, pace_of, pilot_data
from crowdsweep.trial.model_calls import ModelFault, guarded

LONGEST_S = 60.0  # of all fits of one pilot, the import of its model among them


class Pilots:
    """Fits models for a moment; the process is started with the first of them."""

    def __init__(self) -> None:
        self._forkserver = Forkserver()
        self._paces: dict[str, Pace | None] = {}

    def pace(self, key: str, info: ModelInfo, params: Mapping[str, Any], trial: Callable[[], TrialData]) -> Pace | None:
        """Returns what `pace_of` measures, once for each key; None also where the model ends its process or hangs.

        Args:
            key: of what decides it.
            info: the model.
            params: all its hyper-parameters.
            trial: makes a dataset that brings what the model needs.
        """
        if key not in self._paces:
            self._paces[key] = self._answer(_pace, info, params, trial(), None)
        return self._paces[key]

    def gives(self, info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Gives | None:
        """Returns what `gives` tells; None also where the model ends its process or hangs."""
        return self._answer(_gives, info, params, trial, None)

    def close(self) -> None:
        """Ends the process; may be called twice."""
        self._forkserver.close()

    def _answer(
        self,
        function: Callable[[str, Mapping[str, Any], TrialData], Any],
        info: ModelInfo,
        params: Mapping[str, Any],
        trial: TrialData,
        otherwise: Any,
    ) -> Any:
        """Has the process call one of the functions below."""
        until = time.monotonic() + LONGEST_S
        try:
            self._forkserver.worker().send(Call(function=function, arguments=(info.name, params, pilot_data(trial))))
            while (left_s := until - time.monotonic()) > 0:
                match self._forkserver.receive(left_s):
                    case (str() as kind, answer) if kind == DONE:
                        return answer
                    case (str() as kind, (text, trace)) if kind == BUG:
                        raise bug_of(text, trace)
                    case _:
                        pass
        except WorkerDied:
            pass
        self._forkserver.kill_worker()
        return otherwise


def _pace(name: str, params: Mapping[str, Any], trial: TrialData) -> Pace | None:
    try:
        info = guarded(registered.model_info)(name)
    except ModelFault:
        return None
    return pace_of(info, params, trial)


def _gives(name: str, params: Mapping[str, Any], trial: TrialData) -> Gives | None:
    try:
        info = guarded(registered.model_info)(name)
    except ModelFault:
        return None
    return gives(info, params, trial)
