"""The Ray cluster that a sweep runs on, joined or started on this machine; its nodes and its autoscaler."""

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
from ray._private.services import canonicalize_bootstrap_address
from ray.autoscaler.sdk import request_resources
from ray.experimental.internal_kv import (
    _internal_kv_get,  # pyright: ignore[reportPrivateUsage]: there is no public way to it
)

from crowdsweep.engine.address import check_answers, no_cluster, on_loopback, wanted_address
from crowdsweep.engine.job_folder import VARIABLE, job_has_working_directory
from crowdsweep.engine.nodes import Node, refusal, wants
from crowdsweep.engine.private_folder import PrivateFolder
from crowdsweep.engine.ray_health import HeartbeatMonitor, end_own_processes
from crowdsweep.errors import BadInput, InfeasibleRequest, SlotLost, error_words
from crowdsweep.machine import usable_cores
from crowdsweep.resources import Resources

OBJECT_STORE_BYTES = 512 * 2**20
_GROWS_LABEL = "ray.io/node-group"  # of nodes that an autoscaler started, KubeRay's among them
_MONITOR_S = 10.0
"""How long a head node that has just started may take to report whether it has an autoscaler."""
_BY_HAND = "node_"  # prefix of the node types that Ray's monitor reports for nodes which no autoscaler started


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A connection of this process to a Ray cluster.

    Attributes:
        started: whether this process started the cluster, so that `close` stops it; a joined cluster keeps running.
        folder: this process's folder for Ray's files; removed by `close`.
    """

    started: bool
    folder: PrivateFolder | None = None
    _silence: HeartbeatMonitor = field(default_factory=HeartbeatMonitor, compare=False, repr=False)

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
        """Checks that a slot with these resources fits on a node, or may fit once an autoscaler has added nodes.

        Waits up to `_MONITOR_S` for a new head node to report whether it has an autoscaler.

        Raises:
            InfeasibleRequest: it fits on no node, and there is no autoscaler; the message says what each node has.
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
        """Whether the cluster has an autoscaler."""
        return bool(self._grows())

    def _grows(self) -> bool | None:
        """Returns whether there is an autoscaler; None while a head node that has just started cannot say."""
        if self.started:
            return False
        if any(_GROWS_LABEL in (entry.get("Labels") or {}) for entry in ray.nodes()):
            return True
        status = _internal_kv_get(ray_constants.DEBUG_AUTOSCALING_STATUS)
        if not status:
            return None
        report = json.loads(status).get("autoscaler_report") or {}
        kinds = {*report.get("active_nodes", {}), *report.get("node_type_mapping", {}).values()}
        return any(not kind.startswith(_BY_HAND) for kind in kinds)

    def ask_for(self, shapes: Sequence[Resources]) -> None:
        """Asks the autoscaler for room for slots of all these shapes together; an empty list withdraws the request."""
        bundles = [wants(shape) for shape in shapes]
        labels = [dict(shape.labels) for shape in shapes]
        request_resources(bundles=bundles, bundle_label_selectors=labels if any(labels) else None)

    def check(self) -> None:
        """Checks that the cluster still answers: at most once a second, for about a millisecond.

        Finds out before Ray does: when the cluster's processes on this machine die, Ray ends the whole process after a
        while, with messages of its own.

        Raises:
            SlotLost: the cluster is gone.
        """
        if self._silence.is_due() and (reason := self._silence.look()):
            raise SlotLost(f"the Ray cluster is lost: {reason}")

    def reason_lost(self) -> str:
        """Checks at once, and returns which part of the cluster is gone; empty where none is."""
        return self._silence.look()

    @property
    def is_lost(self) -> bool:
        """Whether `check` or `reason_lost` has found that the cluster is gone."""
        return self._silence.is_final

    def close(self) -> None:
        """Disconnects, and stops the cluster if this process started it; may be called twice."""
        if ray.is_initialized():
            if self.is_lost:  # `ray.shutdown` would wait for an answer
                end_own_processes()
            else:
                ray.shutdown()
        if self.folder is not None:
            self.folder.close()


def connect(address: str | None = None, cpus: int | None = None) -> Cluster:
    """Joins the cluster at an address, or starts one on this machine.

    Args:
        address: `auto` (the cluster that runs on this machine), `host:port`, `local` (a new cluster of this machine
            alone) or None: `RAY_ADDRESS` where it is set, else `local`.
        cpus: number of CPUs of a new cluster; None for those that this process may use.

    Raises:
        BadInput: the address has another form, or no cluster answers there.
        SlotLost: no cluster could be started.
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
        place = canonicalize_bootstrap_address(target) or target  # Ray replaces 127.0.0.1 by the outer address
        inside = on_loopback(target, place)
        check_answers(target, inside or place)
        with _loopback() if inside else nullcontext():
            ray.init(address=inside or place, **_settings(folder))
    except BadInput:
        raise
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise no_cluster(target, error_words(error)) from error


def _start_local(cpus: int, folder: PrivateFolder) -> None:
    """Starts a cluster of this machine alone, which only its own processes can reach.

    The cluster listens on loopback, and asks for a token unless RAY_AUTH_MODE says otherwise. Where no token is set,
    Ray would write one below HOME, which may be read-only; the token made here is only in the environment of the
    cluster's processes.

    Raises:
        SlotLost: the cluster did not start.
    """
    os.environ.pop(VARIABLE, None)  # a job's files are on the job's cluster, not on this one
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    try:
        with _loopback(), _nothing_but_trials():
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(folder.made("ray")),
                _system_config={"prestart_worker_first_driver": False},  # slots start processes of their own
                **_settings(folder),
            )
    except Exception as error:  # Ray raises a bare `Exception` where one of its processes is not up in time
        raise SlotLost(
            f"Ray: expected a cluster that starts on this machine, got {error_words(error)!r}; run it again when the "
            "machine is less busy, or with --engine inline"
        ) from error


def _settings(folder: PrivateFolder) -> dict[str, Any]:
    """Returns the arguments of `ray.init` that joined and started clusters share.

    Without a working directory, Ray puts the driver's current directory on the import path of its workers, and they
    would import a `pyarrow.py` that lies there. So they get an empty working directory, except in a Ray job that has
    one: Ray refuses a second.
    """
    own = {} if job_has_working_directory() else {"working_dir": str(folder.made("work"))}
    return {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "configure_logging": False,
        "runtime_env": own,
    }


@contextmanager
def _loopback() -> Generator[None]:
    """Makes Ray listen on loopback alone.

    Given 127.0.0.1 as the node's address, Ray looks for the machine's outer address and listens there. With
    ENABLE_RAY_CLUSTER off, as Ray sets it on systems whose firewalls ask the user, all its processes listen on
    loopback.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _nothing_but_trials() -> Generator[None]:
    """Keeps Ray from starting processes that a sweep on this machine does not use.

    These are the dashboard, for which Ray would wait even where it is switched off, the autoscaler's monitor and the
    log monitor. The node's agent runs without the modules that only the dashboard needs, as if `ray[default]` were not
    installed. A function that a version of Ray does not have is not replaced.
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
    """Replaces the functions of Ray that start a process."""


def _no_dashboard() -> ImportError:
    """Replaces Ray's check for the dashboard's dependencies: reports them as missing."""
    return ImportError("no dashboard is wanted")
