"""The short form of `make chaos`: one fault of each main kind, always at the same place."""

from collections.abc import Iterator
from random import Random

import pytest
from chaos.campaign import Undisturbed, drawn, endure
from chaos.faults import FAULTS, Fault
from warm import WarmServer

TEN = (
    "driver SIGKILL",
    "two drivers at once",
    "driver SIGSTOP",
    "tracking server says HTML",
    "disk full",
    "rows damaged",
    "rows forged",
    "edit: seeds more",
    "label killed",
    "a link in the store",
)
RAY = [pytest.mark.ray, pytest.mark.xdist_group("ray")]


pytestmark = pytest.mark.xdist_group("ten faults")  # the undisturbed sweeps are run once


@pytest.fixture(scope="module")
def undisturbed(warm: WarmServer) -> Iterator[Undisturbed]:
    sweeps = Undisturbed(warm=warm)
    yield sweeps
    sweeps.close()


@pytest.mark.parametrize(
    "fault", [pytest.param(FAULTS[kind], id=kind, marks=RAY if FAULTS[kind].on_ray else []) for kind in TEN]
)
def test_everything_holds(fault: Fault, undisturbed: Undisturbed) -> None:
    verdict = endure(fault, Random(f"ten {fault.kind}"), undisturbed)
    assert not verdict.broken, f"{verdict.where}; kept in {verdict.folder}"


def test_a_hundred_faults_are_of_every_kind_and_ten_of_them_on_ray() -> None:
    kinds = [fault.kind for fault in drawn(100, seed=0)]
    assert len(kinds) == 100
    assert set(kinds) == set(FAULTS)
    assert sum(FAULTS[kind].on_ray for kind in kinds) >= 10
    assert kinds == [fault.kind for fault in drawn(100, seed=0)] != [fault.kind for fault in drawn(100, seed=1)]
