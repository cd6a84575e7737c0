"""What a machine has, and what a container leaves of it: control groups of both versions, at any height."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crowdsweep import machine

GIB = 1 << 30
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the files of a made-up system; a name may lead into folders."""
    monkeypatch.setattr(machine, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_MINE", tmp_path / "mine")
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(8)))

    def write(**files: str | int) -> None:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    write(meminfo=f"MemTotal: {8 * GIB // 1024} kB\nMemAvailable: {5 * GIB // 1024} kB")
    return write


def test_without_groups_it_is_the_machine(write: Write) -> None:
    assert (machine.memory_bytes(), machine.free_bytes(), machine.usable_cores()) == (8 * GIB, 5 * GIB, 8)


def test_where_nobody_tells_nothing_is_known(write: Write, tmp_path: Path) -> None:
    (tmp_path / "meminfo").unlink()
    assert (machine.memory_bytes(), machine.free_bytes()) == (None, None)


def test_a_limit_of_version_two_counts_wherever_it_stands(write: Write) -> None:
    write(mine="0::/slice/job")
    write(groups__slice__job__memory_dot_max="max")
    assert machine.memory_bytes() == 8 * GIB
    write(groups__slice__memory_dot_max=3 * GIB, groups__slice__memory_dot_current=2 * GIB)
    write(groups__slice__memory_dot_stat=f"anon 7\ninactive_file {GIB // 2}")
    assert (machine.memory_bytes(), machine.free_bytes()) == (3 * GIB, 3 * GIB // 2)
    write(groups__slice__job__cpu_dot_max="max 100000")
    assert machine.usable_cores() == 8
    write(groups__slice__cpu_dot_max="150000 100000")
    assert machine.usable_cores() == 2


def test_a_limit_of_version_one_counts_also_where_its_path_is_the_host_s(write: Write) -> None:
    write(mine="4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/")
    write(groups__memory__memory_dot_limit_in_bytes=2 * GIB, groups__memory__memory_dot_usage_in_bytes=GIB)
    write(groups__memory__memory_dot_stat="total_inactive_file 0")
    write(groups__cpu__cpu_dot_cfs_quota_us=400_000, groups__cpu__cpu_dot_cfs_period_us=100_000)
    assert (machine.memory_bytes(), machine.free_bytes(), machine.usable_cores()) == (2 * GIB, GIB, 4)
    write(groups__memory__memory_dot_limit_in_bytes=(1 << 63) - 4096, groups__cpu__cpu_dot_cfs_quota_us=-1)
    assert (machine.memory_bytes(), machine.free_bytes(), machine.usable_cores()) == (8 * GIB, 5 * GIB, 8)


def test_fewer_cores_may_be_given_than_time(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 5, 6})
    write(mine="0::/", groups__cpu_dot_max="600000 100000")
    assert machine.usable_cores() == 3
    write(groups__cpu_dot_max="1000 100000")
    assert machine.usable_cores() == 1


def test_a_group_s_path_leads_nowhere_else(write: Write, tmp_path: Path) -> None:
    write(mine="0::/../outside", outside__memory_dot_max=5, groups__x="")
    assert machine.memory_bytes() == 8 * GIB
