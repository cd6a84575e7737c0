"""The CPU cores and memory that this process may use, within the limits of its container or job.

Memory is known on Linux only. Limits are read from the control groups (version 2 or 1) of the process and from all
groups above them.
"""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60  # version 1 writes a huge number for no limit


def cores() -> int:
    """Returns how many cores the machine has."""
    return os.cpu_count() or 1


def usable_cores() -> int:
    """Returns how many cores this process may keep busy: its CPU affinity, limited by the CPU quotas of its groups."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores()
    shares = [share for folder in _group_folders("cpu") if (share := _share_of(folder)) is not None]
    return max(1, min([allowed, *map(math.ceil, shares)]))


def memory_bytes() -> int | None:
    """Returns the memory that this process may use in total, by machine and group limits; None if unknown."""
    found = [limit for folder in _group_folders("memory") if (limit := _limit_of(folder)) is not None]
    with suppress(OSError, KeyError, ValueError):
        found.append(_numbers(_MACHINE)["MemTotal:"] * 1024)
    return min(found, default=None)


def free_bytes() -> int | None:
    """Returns the memory that is free for this process, by machine and group limits; None if unknown."""
    found: list[int] = []
    with suppress(OSError, KeyError, ValueError):
        found.append(_numbers(_MACHINE)["MemAvailable:"] * 1024)
    for folder in _group_folders("memory"):
        limit = _limit_of(folder)
        with suppress(OSError, KeyError, ValueError):
            if limit is not None:
                found.append(limit - _taken_of(folder))
    return max(0, min(found)) if found else None


def _group_folders(controller: str) -> Iterator[Path]:
    """Yields the folders that may hold a limit of this process: its groups and those above, of both versions."""
    named: dict[str, str] = {"": "/", controller: "/"}
    with suppress(OSError, ValueError):
        for line in _MINE.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            named.update({name: path for name in controllers.split(",") if name in named})
    for name, path in named.items():
        root = _GROUPS / name
        inside = (root / path.strip("/")) if ".." not in Path(path).parts else root
        yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(root) and folder.is_dir())


def _limit_of(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # version 2 writes `max` for no limit
            limit = int((folder / name).read_text())
            return limit if limit < _UNLIMITED else None
    return None


def _taken_of(folder: Path) -> int:
    """Returns the memory that a group uses, without inactive file cache, which the system can free at once."""
    numbers = _numbers(folder / "memory.stat")
    if (folder / "memory.current").exists():
        return int((folder / "memory.current").read_text()) - numbers["inactive_file"]
    return int((folder / "memory.usage_in_bytes").read_text()) - numbers["total_inactive_file"]


def _share_of(folder: Path) -> float | None:
    """Returns the CPU quota of a group in cores; None if it has no limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


def _numbers(path: Path) -> dict[str, int]:
    """Returns name → number from the lines of a system file."""
    return {words[0]: int(words[1]) for words in map(str.split, path.read_text().splitlines()) if len(words) > 1}
