"""How many replicas are trained together is what free memory holds, a GPU's or the machine's; no number changes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crowdsweep import machine
from crowdsweep.models import devices, registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all
from crowdsweep.models.networks.replicas import numbers_held, replica_chunks
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.model_fits import short_params
from crowdsweep.testing.pretend_device import pretend_device
from crowdsweep.testing.small_data import small_data


def sizes(
    free: int, monkeypatch: pytest.MonkeyPatch, *, device: str = "cuda:0", floats: int = 1000, numbers: int = 0
) -> list[int]:
    monkeypatch.setattr(devices, "free_bytes", lambda device: free)
    return [part.stop - part.start for part in replica_chunks(10, floats, device, numbers)]


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_half_of_what_is_free_is_filled(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = 4 * 8 * 1000
    assert sizes(1 << 40, monkeypatch, device=device) == [10]
    assert sizes(2 * 4 * one, monkeypatch, device=device) == [4, 4, 2]
    assert sizes(2 * 4 * one, monkeypatch, device=device, numbers=8000) == [2] * 5
    assert sizes(0, monkeypatch, device=device) == [1] * 10  # it is tried; what does not fit then fails with its reason


def test_on_a_cpu_a_cache_bounds_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sizes(1 << 40, monkeypatch, device="cpu", floats=1 << 20) == [2] * 5
    assert sizes(1 << 40, monkeypatch, floats=1 << 20) == [10]


def test_the_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "cores", torch.get_num_threads)
    assert devices.free_bytes("cpu") is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 4000 kB\nHugePages_Total: 0\n")
    assert devices.free_bytes("cpu") == 4000 * 1024
    for name, text in {
        "memory.max": "max",
        "memory.current": "700",
        "memory.stat": "anon 5\ninactive_file 200",
    }.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert devices.free_bytes("cpu") == 4000 * 1024
    (tmp_path / "memory.max").write_text("1000\n")
    assert devices.free_bytes("cpu") == 500
    monkeypatch.setattr(machine, "cores", lambda: 5 * torch.get_num_threads())
    assert devices.free_bytes("cpu") == 100


def test_data_count() -> None:
    small, large = small_data().training, small_data(n_items=48).training
    assert numbers_held([small]) < numbers_held([small, large]) == numbers_held([large])


@pytest.mark.parametrize("model", ["cmm", "lia", "speelfc", "ldl-nm", "semi-lfc", "pd"])
def test_one_by_one_gives_the_same(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = short_params(registered.model_info(model))
    built = registered.build_model(
        model, {name: min(value, 2) if name == "iterations" else value for name, value in params.items()}
    )
    data = [small_data(seed, n_items=9).training for seed in range(2)]

    def fitted() -> list[np.ndarray]:
        with pretend_device() as device:
            contexts = [FitContext(seeds=SeedStream(seed), device=device.name) for seed in range(2)]
            return [one.item_probs for one in fit_all(built, data, contexts)]

    together = fitted()
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1)
    for one, other in zip(fitted(), together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
