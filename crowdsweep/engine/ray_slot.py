"""One slot of a Ray cluster: a long-lived actor that runs batches and streams their progress and results."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ray
from ray.exceptions import RayError

from crowdsweep.engine import devices
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.versions import differences
from crowdsweep.engine.work import BEGUN, BUG, DONE, NEWS, PROGRESS, Work
from crowdsweep.engine.worker import THREAD_VARIABLES, Forkserver, WorkerDied, bug_from_worker
from crowdsweep.errors import BadInput
from crowdsweep.record.events import TrialProgressed, TrialSaved, TrialsNoted
from crowdsweep.record.result import TrialResult
from crowdsweep.registry.plugin_transfer import PluginFolder, use_plugin_folders
from crowdsweep.resources import Resources

CONTROL = "control"
DATASETS_KEPT = 2
RECEIVE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class WorkerLost:
    """Update that says that the worker process of a batch ended: trials without a result so far get none from it."""

    reason: str


Update = TrialProgressed | TrialSaved | TrialsNoted | TrialResult | WorkerLost


class Slot:
    """Actor that runs one batch at a time, and answers `stop` and `ping` meanwhile, in the concurrency group `CONTROL`.

    Models run in a worker process under a forkserver, as in the inline executor (`forkserver`): whatever they do to
    their process or its parent does not affect the actor, nor the part of the cluster on this machine.

    Args:
        device: torch device of every batch; the slot does not choose it.
        plugins: the driver's folders of plug-ins.
        versions: the driver's versions of Python and the libraries that its numbers depend on.

    Raises:
        BadInput: this node has other versions.
    """

    def __init__(
        self, device: str, plugins: Sequence[PluginFolder] = (), versions: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        if others := differences(versions):
            raise BadInput(
                f"expected the versions that the driver has, since numbers may differ with them: {'; '.join(others)}"
            )
        use_plugin_folders(plugins, Path.cwd())
        self._device = device
        self._stopped: set[str] = set()
        self._forkserver = Forkserver()

    def run(
        self,
        batch: Batch,
        place: Sequence[Any],
        saved: Mapping[str, Any] = MappingProxyType({}),
        *,
        reports_begin: bool = False,
    ) -> Iterator[Sequence[Update]]:
        """Runs a batch, and yields its progress and results, a few records at a time.

        Args:
            batch: the batch, without checkpoints.
            place: reference to its dataset in the object store, in a list so that Ray does not fetch it for every call.
            saved: references to the checkpoints that trials continue from, by key, each in a list like `place`.
            reports_begin: whether an empty list is yielded first, once models and data are loaded.
        """
        keys = {spec.key for spec in batch.specs}
        try:
            worker = self._forkserver.worker()
            older = [held for held in worker.has if held != batch.dataset]
            worker.send(
                Work(
                    batch=replace(batch, saved=_fetched(saved)),
                    dataset=None if batch.dataset in worker.has else ray.get(place[0]),
                    device=self._device,
                    forget=older[: max(0, len(older) + 1 - DATASETS_KEPT)],
                )
            )
            yield from self._updates(keys, reports_begin)
        except WorkerDied as death:
            self._forkserver.kill_worker()
            yield [WorkerLost(reason=f"its process died: {death}")]
        self._stopped -= keys

    def stop(self, key: str) -> None:
        """Requests that a trial end at its next report."""
        self._stopped.add(key)

    def why_unusable(self) -> str:
        """Returns why models cannot use the slot's device; empty where they can: the slot is up."""
        return devices.why_unusable(self._device, self._forkserver)

    def ping(self) -> int:
        """Returns the process id; an answer says that the slot is up."""
        return os.getpid()

    def _updates(self, keys: set[str], reports_begin: bool) -> Iterator[Sequence[Update]]:
        """Yields the progress and results of a batch until its end.

        Raises:
            WorkerDied: the worker ended before the batch.
        """
        while True:
            match self._forkserver.receive(RECEIVE_S):
                case (str() as kind, _) if kind == BEGUN:
                    if reports_begin:
                        yield []
                case (str() as kind, TrialProgressed() as event) if kind == PROGRESS:
                    self._forkserver.reply(keys & self._stopped)
                    yield [event]
                case (str() as kind, TrialSaved() | TrialsNoted() as event) if kind == NEWS:
                    yield [event]
                case (str() as kind, results) if kind == DONE:
                    yield results
                    return
                case (str() as kind, (text, trace)) if kind == BUG:
                    raise bug_from_worker(text, trace)
                case _:
                    pass


def _fetched(saved: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the checkpoints that can be fetched, by key; a trial whose checkpoint is lost begins anew."""
    found: dict[str, bytes] = {}
    for key, place in saved.items():
        with suppress(RayError):
            found[key] = ray.get(place[0])
    return found


def slot_options(shape: Resources) -> dict[str, Any]:
    """Returns Ray's actor options for a slot of this shape, with as many threads as it has CPUs (at least one)."""
    variables = dict.fromkeys(THREAD_VARIABLES, str(max(1, int(shape.cpu))))
    return {
        "num_cpus": float(shape.cpu),
        "num_gpus": float(shape.gpu),
        "resources": dict(shape.custom),
        "max_restarts": 0,
        "runtime_env": {"env_vars": variables},
    }
