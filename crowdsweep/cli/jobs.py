"""The cluster job of a submitted sweep, found by the sweep's store: its state, and how to stop it."""

import shlex
from dataclasses import asdict
from pathlib import Path

from crowdsweep.cli.outcome import EXIT_INTERRUPTED
from crowdsweep.cli.output import say
from crowdsweep.errors import BadInput, plain
from crowdsweep.record.job_note import read_job
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import driver_of


def job_of(store: Store) -> dict[str, str] | None:
    """Returns the note and the state of a sweep's job, for programs; None where the sweep was not submitted.

    A cluster that cannot be reached raises nothing: `state` then has the error message.
    """
    note = read_job(store) if isinstance(store, Path) else None
    if note is None:
        return None
    from crowdsweep.engine.ray_jobs import noted_jobs

    try:
        found = noted_jobs(note.job, note.address, note.seal).state(note.job)
        has_failed = found.status == "FAILED" and found.exit_code != EXIT_INTERRUPTED  # all but 0 is a failure to Ray
        status = "stopped" if found.exit_code == EXIT_INTERRUPTED else found.status.lower()
        state = status if found.exit_code is None else f"{status}, exit {found.exit_code}"
        state += f": {plain(found.message)}" if has_failed and found.message else ""
    except BadInput as error:
        state = f"not known: {error}"
    said = {name: value for name, value in asdict(note).items() if name != "seal"}
    return {**said, "state": state}


def job_words(job: dict[str, str]) -> str:
    """Returns the job and its state (of `job_of`) in a sentence."""
    record = f"; its record is {job['elsewhere']} there" if job["elsewhere"] else ""
    return f"job {job['job']} of {job['address']}, submitted {job['submitted']}: {job['state']}{record}"


def has_begun(store: Store) -> bool:
    """Whether the driver of a submitted sweep has written into the sweep's record; true for other sweeps."""
    if not isinstance(store, Path) or read_job(store) is None:
        return True
    try:
        return (store / JOURNAL_FILE).stat().st_size > 0
    except OSError:
        return False


def stop_job(store: Store) -> bool:
    """Stops the job of a sweep that runs on another machine, and says so.

    Returns:
        Whether the job was told to stop. False where the sweep was not submitted, or its driver is on this machine.

    Raises:
        BadInput: the job has ended already, or the cluster cannot be reached.
    """
    note = read_job(store) if isinstance(store, Path) else None
    driver = driver_of(store)
    if note is None or (driver is not None and driver.here):
        return False
    from crowdsweep.engine.ray_jobs import STOPS_IN_S, noted_jobs

    jobs = noted_jobs(note.job, note.address, note.seal)
    if (state := jobs.state(note.job)).has_ended:
        raise BadInput(
            f"{store}: expected a sweep that runs, and its job {note.job} has ended ({state.status.lower()}); "
            f"`crowdsweep status {shlex.quote(str(store))}` shows its progress"
        )
    jobs.stop(note.job)
    say(
        f"{store}: asked the job {note.job} to stop; it finishes what runs first, for at most {STOPS_IN_S // 60} "
        f"minutes, and the sweep continues when it is submitted again"
    )
    return True
