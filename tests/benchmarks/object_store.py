"""What a record in an object store costs: `python tests/benchmarks/object_store.py` prints milliseconds and seconds.

On servers on loopback (moto, SeaweedFS), with a delay before each answer as a cloud has where `--delay-ms` says so:

    append     one flush of 20 rows of 1.5 kB, as a driver writes them
    array      twenty arrays of 8 kB beside the rows, put at once, each
    read       3,000 rows from 150 objects, and from 3,000 objects, before packs and with them
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

import pytest
from object_stores import place, served_s3, served_seaweedfs, speak_to

from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.objects import Objects

ROW = '{"kind":"TrialFinished","text":"%s"}' % ("x" * 1450)
FAR = 1 << 40


class Delayed(Objects):
    """Objects that are as far away as a cloud."""

    delay_s = 0.0

    def create(self, name: str, content: bytes) -> bool:
        time.sleep(self.delay_s)
        return super().create(name, content)

    def get(self, name: str) -> bytes | None:
        time.sleep(self.delay_s)
        return super().get(name)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def appended(name: str, flushes: int, rows_each: int, packed: int) -> list[float]:
    """Writes a journal, and returns the seconds of each flush."""
    rows = ObjectWriter(Delayed(place(name)), packed=packed)
    list(rows.read_rows())
    took = [timed(lambda: rows.append_rows([ROW] * rows_each)) for _ in range(flushes)]
    rows.close()
    return took


def read(name: str) -> int:
    return sum(1 for _ in ObjectRows(Delayed(place(name))).read_rows())


def measure(server: str, url: str, flushes: Sequence[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        speak_to(url, patch)
        for number in flushes:
            loose, packed = f"loose-{number}-{os.getpid()}", f"packed-{number}-{os.getpid()}"
            each = 3000 // number
            took = appended(loose, number, each, FAR)
            appended(packed, number, each, 256)
            print(f"{server:10} append of {each:3} rows {1000 * median(took):7.1f} ms", flush=True)
            for what, name in (("loose", loose), ("packed", packed)):
                seconds = min(timed(lambda name=name: read(name)) for _ in range(3))
                print(f"{server:10} read of 3,000 rows, {number:4} objects, {what:6} {seconds:6.2f} s", flush=True)
        rows = ObjectWriter(Delayed(place(f"arrays-{os.getpid()}")))
        files = [{f"{k}-{i}.npy": os.urandom(8192) for i in range(20)} for k in range(5)]
        took = [timed(lambda one=one: rows.put("artifacts", one)) / 20 for one in files]
        rows.close()
        print(f"{server:10} array (of 20 at once) {1000 * median(took):7.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--servers", nargs="+", default=["moto", "seaweedfs"])
    parser.add_argument("--objects", nargs="+", type=int, default=[150, 3000])
    asked = parser.parse_args()
    Delayed.delay_s = asked.delay_ms / 1000
    for server in asked.servers:
        with tempfile.TemporaryDirectory() as folder:
            serving: AbstractContextManager[str] = served_s3() if server == "moto" else served_seaweedfs(Path(folder))
            with serving as url:
                measure(server, url, asked.objects)


if __name__ == "__main__":
    main()
