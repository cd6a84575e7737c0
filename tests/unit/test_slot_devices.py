"""A GPU that torch cannot use is refused before anything runs, in words, by both engines."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from executor_checks import batch_of, datasets, drained, finished, specs_on

from crowdsweep import app
from crowdsweep.engine import devices as engine_devices
from crowdsweep.engine import slot_pool
from crowdsweep.engine.devices import device_of
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.ray_slot import Slot
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.models import devices
from crowdsweep.resources import Resources
from crowdsweep.sweepfile.read import parse_sweep

if TYPE_CHECKING:
    from crowdsweep.engine.cluster import Cluster

NO_SUCH = "cuda:99"
"""A GPU that no machine has, with CUDA or without."""
WORDS = r"resources: expected a slot that computes on cuda:99.*`gpu` above 0.*torch \S+.*leave `gpu` out"


@pytest.fixture
def no_such_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_devices, "device_of", lambda resources: NO_SUCH if resources.gpu else "cpu")


def test_the_device_is_what_the_slot_asks_for() -> None:
    assert device_of(Resources()) == "cpu"
    assert device_of(Resources(gpu=0.5)) == "cuda:0"


def test_the_cpu_is_never_refused() -> None:
    assert devices.why_unusable("cpu") == ""


def test_a_device_is_tried_and_the_reason_is_torchs() -> None:
    assert "torch" in devices.why_unusable(NO_SUCH)
    assert "meta" in devices.why_unusable("meta")  # it takes tensors, and has no numbers


def test_inline_refuses_it_up_front(no_such_gpu: None) -> None:
    with pytest.raises(InfeasibleRequest, match=WORDS):
        InlineExecutor(datasets(), [Resources(), Resources(gpu=1.0)])


def test_inline_does_without_a_gpu_that_is_only_preferred(no_such_gpu: None) -> None:
    preferred = Resources(gpu=1.0, gpu_needed=False)
    executor = InlineExecutor(datasets(), [preferred])
    try:
        batch = batch_of(specs_on(next(iter(datasets().values())), "uniform", 1))
        executor.submit(replace(batch, resources=preferred))
        (result,) = finished(drained(executor, 1))
        assert (result.status, result.device) == ("ok", "cpu")
    finally:
        executor.close()


def test_a_sweep_file_whose_model_asks_for_it_is_refused(no_such_gpu: None, tmp_path: Path) -> None:
    config = parse_sweep(
        {
            "name": "gpu",
            "datasets": ["anesthesia"],
            "models": [{"name": "majority-vote", "resources": {"gpu": 1}}],
            "engine": "inline",
            "tracking": {"enabled": False},
        }
    )
    with pytest.raises(InfeasibleRequest, match=WORDS):
        app.run(config, tmp_path / "store", quiet=True)


@pytest.fixture
def slot() -> Iterator[Slot]:
    made = Slot(NO_SUCH)
    yield made
    made._forkserver.close()


def test_a_slot_of_ray_says_why(slot: Slot) -> None:
    assert slot.why_unusable().startswith("torch ")


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_ray_refuses_it_before_a_trial_begins(ray_cluster: "Cluster", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "device_of", lambda resources: NO_SUCH)
    executor = RayExecutor(datasets(), ray_cluster)
    executor._need_gpus = [Resources(gpu=1.0)]  # the cluster has none that could be asked for
    try:
        executor.submit(batch_of(specs_on(next(iter(datasets().values())), "uniform", 2)))
        with pytest.raises(InfeasibleRequest, match=WORDS):
            executor.poll(60.0)
    finally:
        executor.close()
