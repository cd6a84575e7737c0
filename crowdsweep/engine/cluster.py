"""The Ray cluster that a sweep runs on: joined where there is one, else started on this machine; and what it has."""

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import state as ray_state
from ray._private import utils as ray_utils
from ray._private.node import Node as RayNode
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray._private.services import canonicalize_bootstrap_address
from ray.autoscaler.sdk import request_resources
from ray.experimental.internal_kv import (
    _internal_kv_get,  # pyright: ignore[reportPrivateUsage]: there is no public way to it
)

from crowdsweep.engine.address import check_answers, no_cluster, on_loopback, wanted_address
from crowdsweep.engine.nodes import Node, refusal, wants
from crowdsweep.engine.private_folder import PrivateFolder
from crowdsweep.engine.ray_silence import Silence, end_own_processes
from crowdsweep.errors import BadInput, InfeasibleRequest, SlotLost, error_words
from crowdsweep.machine import usable_cores
from crowdsweep.sweepfile.records import Resources

OBJECT_STORE_BYTES = 512 * 2**20
_GROWS_LABEL = "ray.io/node-group"  # of nodes that an autoscaler started, KubeRay's among them
_MONITOR_S = 10.0
"""How long a head that has just begun may take to say whether it has an autoscaler."""
_BY_HAND = "node_"  # what a monitor calls the types of nodes that nobody's autoscaler started


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A connection of this process to a Ray cluster.

    Attributes:
        started: whether it was started here and ends with `close`; a cluster that was joined goes on.
        folder: of this process, for what Ray keeps here; removed by `close`.
    """

    started: bool
    folder: PrivateFolder | None = None
    _silence: Silence = field(default_factory=Silence, compare=False, repr=False)

    def nodes(self) -> list[Node]:
        """Returns the nodes that are alive now."""
        free, leaving = ray_state.available_resources_per_node(), ray_state.state.get_draining_nodes()
        return [
            Node(
                id=entry["NodeID"],
                name=entry["NodeManagerHostname"],
                has=entry["Resources"],
                free=free.get(entry["NodeID"]),
                labels=entry.get("Labels") or {},
                leaves=entry["NodeID"] in leaving,
            )
            for entry in ray.nodes()
            if entry["Alive"]
        ]

    def check_room(self, resources: Resources) -> None:
        """Looks whether a slot fits on the cluster as it is, or may once it has grown.

        Raises:
            InfeasibleRequest: none does, and none will; the message says what each node has.
        """
        until = time.monotonic() + _MONITOR_S
        while True:
            nodes, grows = self.nodes(), self._grows()
            if any(node.slots(resources) for node in nodes) or grows:
                return
            if grows is not None or time.monotonic() > until:
                raise InfeasibleRequest(refusal(resources, nodes))
            time.sleep(0.5)

    @property
    def may_grow(self) -> bool:
        """Whether an autoscaler looks after the cluster."""
        return bool(self._grows())

    def _grows(self) -> bool | None:
        """Asks whether there is an autoscaler; None while the head has only begun and cannot say."""
        if self.started:
            return False
        if any(_GROWS_LABEL in (entry.get("Labels") or {}) for entry in ray.nodes()):
            return True
        told = _internal_kv_get(ray_constants.DEBUG_AUTOSCALING_STATUS)
        if not told:
            return None
        report = json.loads(told).get("autoscaler_report") or {}
        kinds = {*report.get("active_nodes", {}), *report.get("node_type_mapping", {}).values()}
        return any(not kind.startswith(_BY_HAND) for kind in kinds)

    def ask_for(self, shapes: Sequence[Resources]) -> None:
        """Asks the autoscaler for room for slots of these shapes, all at once; no shapes withdraw the request."""
        bundles = [wants(shape) for shape in shapes]
        labels = [dict(shape.labels) for shape in shapes]
        request_resources(bundles=bundles, bundle_label_selectors=labels if any(labels) else None)

    def check(self) -> None:
        """Looks whether the cluster is still there; costs a millisecond, once a second.

        Where its parts on this machine die, Ray ends the whole process after a while, in words of its own.

        Raises:
            SlotLost: the cluster is gone.
        """
        if self._silence.is_due() and (reason := self._silence.look()):
            raise SlotLost(f"the Ray cluster is lost: {reason}")

    def reason_lost(self) -> str:
        """Looks at once, and returns what of the cluster is gone; empty where nothing is."""
        return self._silence.look()

    @property
    def is_lost(self) -> bool:
        """Whether `check` has found it gone."""
        return self._silence.is_final

    def close(self) -> None:
        """Disconnects, and stops the cluster if it was started here; may be called twice."""
        if ray.is_initialized():
            if self.is_lost:  # a farewell would wait for an answer
                end_own_processes()
            else:
                ray.shutdown()
        if self.folder is not None:
            self.folder.close()


def connect(address: str | None = None, cpus: int | None = None) -> Cluster:
    """Joins the cluster at an address, or starts one on this machine.

    Args:
        address: `auto` (the cluster that runs on this machine), `host:port`, or None: `RAY_ADDRESS` where it is set,
            else a new cluster of this machine alone; `local` for the latter in any case.
        cpus: that a new cluster counts; those that this process may use where it is None.

    Raises:
        BadInput: it is no address, or no cluster answers there.
        SlotLost: none could be started.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    logging.getLogger("ray").setLevel(logging.ERROR)
    target = wanted_address(address)
    folder = PrivateFolder()
    try:
        if target == "local":
            _start_local(cpus or usable_cores(), folder)
        else:
            _join(target, folder)
    except BaseException:
        folder.close()
        raise
    return Cluster(started=target == "local", folder=folder)


def _join(target: str, folder: PrivateFolder) -> None:
    try:
        place = canonicalize_bootstrap_address(target) or target  # it takes 127.0.0.1 for the outer address
        inside = on_loopback(target, place)
        check_answers(target, inside or place)
        with _loopback() if inside else nullcontext():
            ray.init(address=inside or place, **_settings(folder))
    except BadInput:
        raise
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise no_cluster(target, error_words(error)) from error


def _start_local(cpus: int, folder: PrivateFolder) -> None:
    """Starts a cluster of this machine alone, which nobody but its own processes can talk to: it listens on loopback,
    and asks for a token unless RAY_AUTH_MODE says otherwise.

    Where there is no token Ray writes one below HOME, which may be read-only; this one
    lives in the environment of the cluster's processes and dies with them.
    """
    os.environ.pop(RAY_JOB_CONFIG_JSON_ENV_VAR, None)  # what a job was given lies on the job's cluster
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        with _loopback(), _nothing_but_trials():
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,  # where Ray starts one all the same it serves nobody
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(folder.made("ray")),
                _system_config={"prestart_worker_first_driver": False},  # slots start processes of their own
                **_settings(folder),
            )
    except Exception as error:  # Ray raises that very class where a part of it is not up in time
        raise SlotLost(
            f"Ray: expected a cluster that starts on this machine, got {error_words(error)!r}; run it again when the "
            "machine is less busy, or with --engine inline"
        ) from error


def _settings(folder: PrivateFolder) -> dict[str, Any]:
    """Returns what holds for a cluster that is joined and one that is started.

    Without a working directory Ray puts the one that the driver stands in on the path of its workers, and they would
    import a `pyarrow.py` that lies there. They get an empty one, but in a job that has one: Ray refuses a second.
    """
    own = {} if _job_has_working_directory() else {"working_dir": str(folder.made("work"))}
    return {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": False,
        "runtime_env": own,
    }


def _job_has_working_directory() -> bool:
    """Whether this process belongs to a Ray job, submitted with a working directory for all of its processes."""
    try:
        job = json.loads(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR, "{}"))
        return bool(job.get("runtime_env", {}).get("working_dir"))
    except (ValueError, AttributeError):  # Ray will say what is wrong with it
        return False


@contextmanager
def _loopback() -> Generator[None]:
    """Makes Ray listen on loopback alone.

    Given 127.0.0.1 as the node's address it looks for the machine's outer one, and listens there. What it does on
    systems whose firewalls ask is what is wanted here: all of its processes listen on loopback alone.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _nothing_but_trials() -> Generator[None]:
    """Has Ray leave out what it starts beside a cluster and nobody here asks: the dashboard, which it waits for even
    where none is wanted, the autoscaler of a cluster that cannot grow, the reader of logs that go nowhere, and of the
    agent that every node has what only a dashboard needs, as where `ray[default]` is not installed.

    What a version of Ray does not know by these names is started as ever.
    """
    replaced: list[tuple[Any, str, Callable[..., object]]] = [
        (RayNode, "start_api_server", _do_nothing),
        (RayNode, "start_monitor", _do_nothing),
        (RayNode, "start_log_monitor", _do_nothing),
        (ray_utils, "get_dashboard_dependency_error", _no_dashboard),
    ]
    replaced = [(owner, name, instead) for owner, name, instead in replaced if hasattr(owner, name)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, instead in replaced:
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def _do_nothing(*_: object, **__: object) -> None:
    """In place of what starts a process."""


def _no_dashboard() -> ImportError:
    """In place of what looks whether all that a dashboard needs is installed."""
    return ImportError("no dashboard is wanted")
