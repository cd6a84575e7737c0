"""`make chaos`: faults drawn by a seed, each on a sweep of its own, and whether everything holds after it.

    SEED=0 FAULTS=100 JOBS=2 python -m chaos.campaign      all of them, two at a time
    SEED=0 FAULTS=100 ONLY=17 python -m chaos.campaign      that one alone
    SEED=0 FAULTS=1000 FROM=480 python -m chaos.campaign    from there on, where a campaign was broken off
    KINDS=Ray,label python -m chaos.campaign                of these, those whose kind has one of the words in it

One line a fault, when it is over, and in the end two tables: by group, for tests/README.md, and by kind. The folder of
a fault after which something does not hold is kept, and said; so is each fault that took long.
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

from chaos import commands, databases, disks, edits, forged, halts, kills, links, memory, nodes, records, trackers
from chaos.faults import FAULTS, Fault
from chaos.holds import broken_promises
from chaos.sandbox import SWEEP, Sandbox
from warm import WarmServer

GROUPS = {
    kills: "processes killed: the driver, its worker and forkserver, each part of Ray; two drivers at once",
    nodes: "nodes of a cluster that was joined killed, silent, drained and taken back; its head lost",
    trackers: "MLflow's server silent, slow, killed, answering 401, 500, 503, HTML; the driver killed while it writes",
    databases: "PostgreSQL down, or killed in mid-run",
    disks: "disk full, store read-only before and during a run, or gone for a while",
    memory: "no more memory for the driver, for trials, for both",
    records: "rows damaged, doubled, swapped, deleted, a torn tail; lock, reports or arrays deleted",
    forged: "rows that no driver wrote",
    edits: "the sweep file edited",
    commands: "`label`, `init`, `add`, `Fit.save`, `stop`, `report --live`, `ui` killed, or two at once",
    links: "links in place of files and folders; a store moved or copied",
    halts: "processes that stand still, clocks that are wrong or jump",
}
"""What each file of kinds is about; importing them fills FAULTS."""

DEFAULTS = {"SEED": 0, "FAULTS": 100, "JOBS": 2, "ONLY": 0, "FROM": 1}
HIT_NOTHING = ("not struck", "after its end")
SLOW_S = 120.0
PROGRESS_EVERY = 20


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

    @property
    def struck(self) -> bool:
        """Whether it hit anything."""
        return not self.where.startswith(HIT_NOTHING)


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
    seed, faults, jobs, only, first = (int(os.environ.get(name) or default) for name, default in DEFAULTS.items())
    words = [word for word in os.environ.get("KINDS", "").split(",") if word]
    wanted = {n: fault for n, fault in enumerate(drawn(faults, seed), start=1) if only in (0, n) and n >= first}
    wanted = {n: fault for n, fault in wanted.items() if not words or any(word in fault.kind for word in words)}
    warm = WarmServer()
    undisturbed, verdicts = Undisturbed(warm=warm), dict[int, Verdict]()
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(jobs) as pool:
            numbers = {pool.submit(endure, fault, Random(f"{seed} {n}"), undisturbed): n for n, fault in wanted.items()}
            for future in as_completed(numbers):
                n = numbers[future]
                verdicts[n] = future.result()
                again = f"make chaos SEED={seed} FAULTS={faults} ONLY={n}"
                print(f"{n:>4}  {line_of(verdicts[n], again)}", flush=True)
                if len(verdicts) % PROGRESS_EVERY == 0:
                    print(progress(list(verdicts.values()), len(wanted), time.monotonic() - began), flush=True)
    finally:
        undisturbed.close()
        warm.close()
    minutes = (time.monotonic() - began) / 60
    print(f"\n{summary(list(verdicts.values()))}\n\n{by_group(list(verdicts.values()))}\n")
    for n, slow in sorted(verdicts.items()):
        if slow.seconds > SLOW_S:
            print(f"took long: {n}, {slow.kind}, {slow.where}: {slow.seconds:.0f} s")
    print(f"seed {seed}, {len(verdicts)} of {faults} faults, {jobs} at a time, {minutes:.1f} min")
    return int(any(verdict.broken for verdict in verdicts.values()))


def progress(verdicts: Sequence[Verdict], of: int, seconds: float) -> str:
    """Returns how far a campaign has come."""
    broken, left_min = sum(bool(one.broken) for one in verdicts), seconds / len(verdicts) * (of - len(verdicts)) / 60
    return f"      {len(verdicts)} of {of} faults, {broken} broken, {seconds / 60:.0f} min, about {left_min:.0f} left"


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


def by_group(verdicts: Sequence[Verdict]) -> str:
    """Returns the table of tests/README.md: what each group struck, and after how many all held."""
    lines = ["| faults | struck | everything held |", "| --- | ---: | ---: |"]
    of_module = {module.__name__: words for module, words in GROUPS.items()}
    for name, words in of_module.items():
        of_group = [one for one in verdicts if one.struck and FAULTS[one.kind].strike.__module__ == name]
        lines.append(f"| {words} | {len(of_group)} | {sum(not one.broken for one in of_group)} |")
    struck = [one for one in verdicts if one.struck]
    lines.append(f"| all | {len(struck)} | {sum(not one.broken for one in struck)} |")
    return "\n".join(
        [*lines, "", f"{len(verdicts) - len(struck)} more hit nothing: all was over, or they cannot be made here."]
    )


if __name__ == "__main__":
    sys.exit(main())
