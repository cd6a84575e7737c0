"""The script for whoever has a GPU runs, small and on the CPU; and where there is no GPU it says so."""

import pytest
from benchmarks import on_a_gpu


def test_it_measures_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert on_a_gpu.main(["--device", "cpu", "--seeds", "3", "2", "--small"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [(model, n) for model in on_a_gpu.CELLS for n in ("2", "3")]
    assert all(float(row[3]) > 0 for row in rows)


def test_time_that_is_over_begins_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_a_gpu, "seconds", lambda *_, **__: 1.0)
    assert on_a_gpu.main(["--device", "cpu", "--seeds", "2", "--small", "--minutes", "0"]) == 0
    assert capsys.readouterr().out.count("the time is over") == len(on_a_gpu.CELLS)


def test_a_promise_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_a_gpu, "seconds", lambda model, data, n_seeds, device, small: float(n_seeds))
    monkeypatch.setattr(on_a_gpu, "memory", lambda device: "-")
    assert on_a_gpu.benchmark("cuda:0", [20, 400], small=True, until=float("inf"))
    assert not on_a_gpu.benchmark("cuda:0", [20, 100], small=True, until=float("inf"))


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert on_a_gpu.main(["--device", "cuda:99"]) == 0
    assert capsys.readouterr().out.startswith("skipped: torch")
