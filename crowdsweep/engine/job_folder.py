"""The working directory of a Ray job: Ray unpacks it for the job on the cluster, and deletes it some time later."""

import json
import os
from pathlib import Path

from crowdsweep.errors import BadInput, plain
from crowdsweep.record.store_uri import Store

VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Environment variable in which Ray tells a job of its runtime environment; its value is this name too."""


def job_has_working_directory() -> bool:
    """Whether this process belongs to a Ray job that was submitted with a working directory."""
    try:
        job = json.loads(os.environ.get(VARIABLE, "{}"))
        return bool(job.get("runtime_env", {}).get("working_dir"))
    except (ValueError, AttributeError):  # Ray will say what is wrong with it
        return False


def check_outlives_job(store: Store) -> None:
    """Checks that a sweep's record does not lie in the working directory of a Ray job.

    Raises:
        BadInput: it would be deleted with the job.
    """
    if isinstance(store, Path) and job_has_working_directory() and store.resolve().is_relative_to(Path.cwd().resolve()):
        raise BadInput(
            f"--store {plain(str(store))}: expected a place that outlives this job, got one in the job's working "
            f"directory, which Ray deletes: give a folder from the root on, on a disk that you reach, or "
            f"s3://BUCKET/NAME"
        )
