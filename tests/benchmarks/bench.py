"""All promises of speed, one after the other: `make bench`, or `python tests/benchmarks/bench.py [SCRIPT ...]`.

Runs the scripts of this folder that promise something of time or memory, and prints their tables, then which promises
held, with the machine's description. Exit code 1 where one is broken.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from crowdsweep.machine import memory_bytes, usable_cores
from crowdsweep.units import show_bytes, show_seconds

FOLDER = Path(__file__).parent
SCRIPTS: Mapping[str, Sequence[str]] = {
    "beside_crowdkit": ["--rounds", "3"],
    "replicas": [],
    "engine_overhead": [],
    "reports": [],
    "large_inputs": [],
    "million_annotators": [],
}


def main() -> int:
    """Prints what each script does, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", help=f"of {', '.join(SCRIPTS)}; all by default", metavar="SCRIPT")
    asked = parser.parse_args().scripts or list(SCRIPTS)
    if unknown := sorted({*asked} - {*SCRIPTS}):
        parser.error(f"expected scripts of {', '.join(SCRIPTS)}, got {', '.join(unknown)}")
    held: dict[str, tuple[bool, float]] = {}
    for name in asked:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *SCRIPTS[name]], check=False)
        held[name] = (done.returncode == 0, time.monotonic() - began)
    print(f"\n{machine_words()}\n")
    for name, (kept, seconds) in held.items():
        print(f"{name:<20}{'held' if kept else 'BROKEN':<8}{show_seconds(seconds)}")
    return int(not all(kept for kept, _ in held.values()))


def machine_words() -> str:
    """Returns cores, memory, load and versions of what runs this."""
    load = os.getloadavg()[0]
    memory = show_bytes(memory_bytes())
    return (
        f"{usable_cores()} cores ({platform.machine()}), {memory}, load {load:.1f}; Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
