"""The highest resident memory of this process."""

import resource
import sys
from pathlib import Path

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_peak() -> None:
    """Starts a new high-water mark where the system can (Linux); elsewhere it stays that of the process's life."""
    try:
        _RESET.write_text("5")
    except OSError:
        return


def peak_bytes() -> int:
    """Returns the high-water mark in bytes."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
