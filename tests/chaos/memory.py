"""Processes that get no more memory (address space) than they have, or a little more, from a drawn moment on."""

import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.faults import Strike, fault, rows_in_words
from chaos.sandbox import SWEEP, Command, Sandbox

from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import Status

LAST_ROW = 60
MORE = (0, 1 << 20, 16 << 20)  # bytes


def _limited(find: Callable[[Sandbox, Command], list[int | None]]) -> Strike:
    """Trials that fail for want of memory say so, and a person has them tried again with more."""

    def strike(box: Sandbox, draw: Random) -> str:
        box.cold_forkservers = True
        # Without the model that fails by itself: to try again what failed would run its trials twice.
        own = [model for model in SWEEP["models"] if "poisoned" not in str(model)]
        box.write(models=[*own, {"name": "hungry", "params": {"mib": 64}}])
        command = box.start()
        box.until_rows(draw.randint(1, LAST_ROW), command)
        where, more = rows_in_words(box), draw.choice(MORE)
        for process in find(box, command):
            if process is not None:
                _limit(process, more)
        box.finish(command)
        failed = _failed_for_memory(box)
        if failed:
            box.code = None
            box.options.append("--retry-failed")
        return f"{where}, {more >> 20} MiB more, {failed} trials failed"

    return strike


def _limit(process: int, more: int) -> None:
    with suppress(OSError):  # it has ended
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more
        resource.prlimit(process, resource.RLIMIT_AS, (limit, limit))


def _failed_for_memory(box: Sandbox) -> int:
    """Returns how many trials failed; they are no part of what has to stay.

    Raises:
        AssertionError: one failed for another reason.
    """
    if not box.rows():
        return 0
    results = read_journal(box.store).results
    failed = [key for key, result in results.items() if result.status is Status.FAILED]
    for key in failed:
        failure = results[key].failure
        assert failure is not None
        named = "emory" in f"{failure.kind} {failure.message}" or failure.of_infrastructure
        assert named, f"a trial failed otherwise: {failure.kind}: {failure.message}"
    box.known = {key: result for key, result in results.items() if key not in failed}
    box.to_be_retried = set(failed)
    return len(failed)


fault("memory used up", draws=2)(_limited(lambda box, command: [command.process.pid]))
fault("no memory for a trial", draws=2)(_limited(lambda box, command: [box.worker()]))
fault("no memory for the machine", draws=2)(
    _limited(lambda box, command: [box.process("forkserver.serve"), box.worker(), command.process.pid])
)
