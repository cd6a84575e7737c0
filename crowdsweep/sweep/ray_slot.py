"""One slot of a Ray cluster: a long-lived actor that runs batches and tells of them as they go."""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.registry.carried import CarriedFolder, search_here
from crowdsweep.sweep.reports import Reports
from crowdsweep.trial.events import TrialProgressed
from crowdsweep.trial.result import TrialResult
from crowdsweep.trial.runner import look_up_models, run_batch
from crowdsweep.trial.spec import TrialSpec
from crowdsweep.trial.watch import Watch

CONTROL = "control"
DATASETS_KEPT = 2
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

News = TrialProgressed | TrialResult


class Slot:
    """Runs one batch at a time; `stop` and `ping` are answered while it does, in the concurrency group `CONTROL`.

    Args:
        device: a torch device, given to every batch; the slot never looks for one.
        plugins: folders of the driver.
    """

    def __init__(self, device: str, plugins: Sequence[CarriedFolder] = ()) -> None:
        search_here(plugins, Path.cwd())
        self._device = device
        self._stopped: set[str] = set()
        self._datasets: OrderedDict[str, CrowdDataset] = OrderedDict()

    def run(
        self,
        specs: Sequence[TrialSpec],
        fingerprint: str,
        place: Sequence[Any],
        watch: Watch | None,
        says_when_it_begins: bool = False,
    ) -> Iterator[Sequence[News]]:
        """Runs a batch, and yields what is new of it, a handful of records at a time.

        Args:
            specs: the trials.
            fingerprint: of their base dataset.
            place: the reference to it in the object store, in a list so that Ray does not fetch it for every call.
            watch: what is scored while the fits go on.
            says_when_it_begins: whether nothing at all is yielded first, once models and data are there.
        """
        keys = [spec.key for spec in specs]
        base = self._dataset(fingerprint, place)
        news: SimpleQueue[Sequence[News] | BaseException | None] = SimpleQueue()
        reports = Reports(lambda event: news.put([event]), keys, self._stopped)

        def work() -> None:
            try:
                news.put(run_batch(specs, base, self._device, reports, watch))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
                news.put(error)
            news.put(None)

        if says_when_it_begins:
            look_up_models(specs)
            yield []
        thread = Thread(target=work, name="batch")
        thread.start()
        while (item := news.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
        thread.join()
        self._stopped.difference_update(keys)

    def stop(self, key: str) -> None:
        """Asks that a trial end early."""
        self._stopped.add(key)

    def ping(self) -> int:
        """Returns the process id; that it answers says that the slot is up."""
        return os.getpid()

    def _dataset(self, fingerprint: str, place: Sequence[Any]) -> CrowdDataset:
        if fingerprint not in self._datasets:
            self._datasets[fingerprint] = ray.get(place[0])
        self._datasets.move_to_end(fingerprint)
        while len(self._datasets) > DATASETS_KEPT:
            self._datasets.popitem(last=False)
        return self._datasets[fingerprint]


def slot_options(cpu: float, gpu: float) -> dict[str, Any]:
    """Returns Ray's options for a slot of this shape.

    It gets as many threads as it has CPUs.
    """
    variables = dict.fromkeys(THREAD_VARIABLES, str(max(1, int(cpu))))
    return {
        "num_cpus": cpu,
        "num_gpus": gpu,
        "max_restarts": 0,
        "runtime_env": {"env_vars": variables},
    }
