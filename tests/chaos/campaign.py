"""`make chaos`: faults drawn by a seed, each on a sweep of its own, and whether everything holds after it.

    SEED=0 FAULTS=100 JOBS=2 python -m chaos.campaign      all of them, two at a time
    SEED=0 FAULTS=100 ONLY=17 python -m chaos.campaign      that one alone

One line a fault, when it is over. The folder of a fault after which something does not hold is kept, and said.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock

from chaos import commands, disks, edits, forged, halts, kills, links, records, trackers
from chaos.faults import FAULTS, Fault
from chaos.holds import broken_promises
from chaos.sandbox import SWEEP, Sandbox
from warm import WarmServer

GROUPS = (kills, trackers, disks, records, edits, commands, links, halts, forged)  # importing them fills FAULTS
DEFAULTS = {"SEED": 0, "FAULTS": 100, "JOBS": 2, "ONLY": 0}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one fault.

    Attributes:
        kind: of the fault.
        where: it hit.
        broken: promises that do not hold.
        seconds: that it took, with the run that went on.
        folder: of its sweep, where it was kept.
    """

    kind: str
    where: str
    broken: Sequence[str]
    seconds: float
    folder: Path


@dataclass(kw_only=True)
class Undisturbed:
    """Sweeps that nobody disturbs, one for each sweep file; `warm` starts their commands, and those of faults."""

    warm: WarmServer | None = None
    _boxes: dict[str, Sandbox] = field(default_factory=dict[str, Sandbox])
    _guard: Lock = field(default_factory=Lock)

    def store_of(self, mapping: dict[str, object]) -> Path:
        """Returns the store of a sweep with this file; tracking changes no number and is left out."""
        what = {**mapping, "tracking": SWEEP["tracking"]}
        name = json.dumps(what, sort_keys=True)
        with self._guard:
            if name not in self._boxes:
                box = Sandbox(mapping=what, warm=self.warm)
                if why := box.go_on():
                    raise RuntimeError(f"a sweep that nobody disturbed: {why}")
                self._boxes[name] = box
            return self._boxes[name].store

    def close(self) -> None:
        for box in self._boxes.values():
            box.close()


def drawn(faults: int, seed: int) -> list[Fault]:
    """Returns so many faults in a drawn order: as many of each kind as it says, at least one where there is room."""
    kinds = list(FAULTS.values())
    whole = sum(kind.draws for kind in kinds)
    counts = {kind.kind: max(1, kind.draws * faults // whole) for kind in kinds}
    order = Random(f"{seed} kinds")
    all_of_them = [kind for kind in kinds for _ in range(counts[kind.kind])]
    all_of_them += order.choices(kinds, [kind.draws for kind in kinds], k=max(0, faults - len(all_of_them)))
    order.shuffle(all_of_them)
    return all_of_them[:faults]


def endure(fault: Fault, draw: Random, undisturbed: Undisturbed) -> Verdict:
    """Has a fault strike, goes on, and looks whether everything holds."""
    began, where, broken = time.monotonic(), "before it hit", list[str]()
    reference = undisturbed.store_of(dict(SWEEP))
    box = Sandbox(undisturbed=reference, warm=undisturbed.warm)
    try:
        where = fault.strike(box, draw)
        box.take_stock()
        why = box.go_on()
        fresh = undisturbed.store_of(dict(box.mapping))
        broken = [why] if why else list(broken_promises(box, fresh))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this fault's, and the next one comes
        broken = [f"{type(error).__name__}: {error}"]
    finally:
        box.close(keep=bool(broken))
    return Verdict(kind=fault.kind, where=where, broken=broken, seconds=time.monotonic() - began, folder=box.folder)


def main() -> int:
    """Runs the campaign that the environment asks for; returns 1 where something did not hold."""
    seed, faults, jobs, only = (int(os.environ.get(name) or default) for name, default in DEFAULTS.items())
    undisturbed, verdicts = Undisturbed(), list[Verdict]()
    wanted = [(n, fault) for n, fault in enumerate(drawn(faults, seed), start=1) if only in (0, n)]
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(jobs) as pool:
            numbers = {pool.submit(endure, fault, Random(f"{seed} {n}"), undisturbed): n for n, fault in wanted}
            for future in as_completed(numbers):
                verdicts.append(future.result())
                again = f"make chaos SEED={seed} FAULTS={faults} ONLY={numbers[future]}"
                print(f"{numbers[future]:>4}  {line_of(verdicts[-1], again)}", flush=True)
    finally:
        undisturbed.close()
    print(f"\n{summary(verdicts)}, {(time.monotonic() - began) / 60:.1f} min in all")
    return int(any(verdict.broken for verdict in verdicts))


def line_of(verdict: Verdict, again: str) -> str:
    """Returns the line of a fault; where something is broken also what, and how to have that fault `again` alone."""
    word = "BROKEN" if verdict.broken else "holds"
    line = f"{verdict.kind:<28} {verdict.where:<36} {word:<7} {verdict.seconds:6.1f} s"
    if not verdict.broken:
        return line
    promises = [f"      {promise[:600]}" for promise in verdict.broken[:5]]
    return "\n".join([line, *promises, f"      kept in {verdict.folder}; this one alone: {again}"])


def summary(verdicts: Sequence[Verdict]) -> str:
    """Returns a table of kinds: how many, how many held, median seconds."""
    lines = [f"{'kind':<28} faults  held  median s"]
    for kind in sorted({verdict.kind for verdict in verdicts}):
        of_kind = [verdict for verdict in verdicts if verdict.kind == kind]
        held, seconds = sum(not one.broken for one in of_kind), statistics.median(one.seconds for one in of_kind)
        lines.append(f"{kind:<28} {len(of_kind):>6} {held:>5} {seconds:>9.1f}")
    held, seconds = sum(not one.broken for one in verdicts), statistics.median(one.seconds for one in verdicts)
    lines.append(f"{'all':<28} {len(verdicts):>6} {held:>5} {seconds:>9.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
