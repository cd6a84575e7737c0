"""`crowdsweep submit`: sends a sweep to a Ray cluster as a job; and the hidden command that runs there."""

import os
import shlex
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.outcome import (
    EXIT_BAD_INPUT,
    EXIT_FAILED_TRIALS,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_OVER_BUDGET,
    next_commands,
)
from crowdsweep.cli.output import say
from crowdsweep.cli.paths import PATH, STORE
from crowdsweep.cli.running import asked_sweep, overrides_option, run_to_the_end, sweep_argument
from crowdsweep.errors import BadInput, Interrupted, plain
from crowdsweep.record.job_note import JobNote, read_job, write_job
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.record.stores import DEFAULT_STORES

if TYPE_CHECKING:
    from crowdsweep.engine.ray_jobs import JobState

ENTRYPOINT = "exec python -P -m crowdsweep submitted"
"""Command of the job; with `exec` the driver replaces the shell, so that signals to the job reach the driver."""


@click.command()
@sweep_argument
@click.option("--address", help="The cluster's dashboard: `http://host:8265`; RAY_API_SERVER_ADDRESS by default.")
@click.option(
    "--store",
    type=STORE,
    help="Where the record goes: a folder that this machine and the cluster see, or s3://BUCKET/PREFIX; "
    "crowdsweep-runs/NAME by default.",
)
@click.option("--cluster-store", type=PATH, help="In place of --store: a folder that only the cluster sees.")
@click.option("--detach", is_flag=True, help="Return when the cluster has it; otherwise its log is followed.")
@click.option("--retry-failed", is_flag=True, help="Run the trials again that failed in earlier runs.")
@click.option("--any-versions", is_flag=True, help="Also on other versions of the libraries than those here.")
@overrides_option
def submit(
    sweep: Path,
    address: str | None,
    store: Store | None,
    cluster_store: Path | None,
    detach: bool,
    retry_failed: bool,
    any_versions: bool,
    overrides: tuple[str, ...],
) -> int:
    """Send a sweep to a Ray cluster, which runs it as a job: sweep file, data and plug-ins go with it.

    The terminal may be closed meanwhile. `status`, `stop` and `results` find the sweep by its store, on any machine.
    """
    set_loading_notice(f"{sweep}: reading it")
    if store is not None and cluster_store is not None:
        raise BadInput("--store, --cluster-store: expected one of them; the first is a folder that this machine sees")
    if cluster_store is not None and not cluster_store.is_absolute():
        raise BadInput(
            f"--cluster-store {plain(str(cluster_store))!r}: expected a path from the root on, as /runs/NAME"
        )
    from crowdsweep.engine.ray_jobs import STOPS_IN_S, Jobs, jobs_address, seal_of
    from crowdsweep.engine.versions import versions
    from crowdsweep.sweepfile.job_package import JobOrder, pack

    config = asked_sweep(sweep, overrides)
    place = store if store is not None else DEFAULT_STORES / config.name
    if isinstance(place, Path):
        place = place.absolute()
    where = jobs_address(address)
    record = place if cluster_store is None else cluster_store
    words = ["crowdsweep", "submit", str(sweep), "--address", where]
    words += ["--store" if cluster_store is None else "--cluster-store", str(record)]
    job = f"crowdsweep-{config.name[:60]}-{uuid4().hex[:10]}"
    note = JobNote(
        job=job,
        address=where,
        submitted=datetime.now(UTC).isoformat(timespec="seconds"),
        elsewhere="" if cluster_store is None else str(cluster_store),
        seal=seal_of(job, where),
    )
    order = JobOrder(
        job=job,
        store=str(record),
        is_shared=cluster_store is None and isinstance(place, Path),
        versions={} if any_versions else versions(),
        again=[*words, *(["--any-versions"] if any_versions else [])],
        overrides=overrides,
        retry_failed=retry_failed,
    )
    jobs = Jobs(where)
    with tempfile.TemporaryDirectory(prefix="crowdsweep-package-") as folder:
        pack(config, order, Path(folder))
        if isinstance(place, Path):  # a record in an object store needs no note, as every machine finds it
            write_job(place, note)
        jobs.submit(note.job, Path(folder), ENTRYPOINT, {"RAY_JOB_STOP_WAIT_TIME_S": str(STOPS_IN_S)})
    again = f"`crowdsweep status {shlex.quote(str(place))}` shows its progress, `crowdsweep stop` ends it"
    say(f"{config.name}: submitted to {where} as {note.job}; {again}", err=not detach)
    if detach:
        return EXIT_OK
    try:
        state = jobs.follow(note.job, lambda text: click.echo(text, nl=False))
    except Interrupted:
        say(f"detached from {note.job}, which continues; {again}", err=True)
        return EXIT_INTERRUPTED
    return _exit_code(state)


@click.command(hidden=True)
def submitted() -> int:
    """Run what `submit` has packaged; for the cluster's side of it."""
    from crowdsweep.sweep.environment import check_versions
    from crowdsweep.sweepfile.job_package import SWEEP_FILE, read_order, search_in
    from crowdsweep.sweepfile.read import load_sweep

    package = Path.cwd()
    order = read_order(package)
    check_versions(order.versions)
    place = store_named(order.store)
    if order.is_shared and isinstance(place, Path):
        _check_is_seen(place, order.job)
    os.environ.update(search_in(package))
    config = load_sweep(package / SWEEP_FILE)
    then = next_commands(order.again, order.overrides, str(place))
    return run_to_the_end(config, place, then, engine="ray", retry_failed=order.retry_failed)


def _check_is_seen(store: Path, job: str) -> None:
    """Checks that this path is, on this machine, the folder that the sweep was submitted with.

    Raises:
        BadInput: it is another folder, or there is none.
    """
    note = read_job(store)
    if note is None or note.job != job:
        raise BadInput(
            f"--store {plain(str(store))}: expected a folder that the cluster sees as well as the machine that the "
            f"sweep was submitted from, and here it is another one, or none; give a folder that both have mounted, or "
            f"say --cluster-store"
        )


def _exit_code(state: "JobState") -> int:
    """Returns the exit code of `run` in the job.

    Where the job has no such code, prints its message, and returns 130 for a stopped job, else 2.
    """
    if state.status == "SUCCEEDED":
        return EXIT_OK
    known = (EXIT_BAD_INPUT, EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, EXIT_INTERRUPTED)
    if state.exit_code not in known and state.message:
        say(f"error: the job has {state.status.lower()}: {plain(state.message)}", err=True)
    if state.exit_code in known:
        return state.exit_code
    return EXIT_INTERRUPTED if state.status == "STOPPED" else EXIT_BAD_INPUT
