"""Nodes of a cluster that was joined: lost, silent, taken back after a notice; and its head lost.

The sweep is one command beside a cluster of three nodes, each with room for one slot.
"""

import re
import signal
import time
from random import Random

from chaos.faults import fault, rows_in_words
from chaos.kills import LOST_CLUSTER
from chaos.sandbox import DONE, FAILED_TRIALS, Command, Sandbox
from ray_nodes import RayNode, RayNodes

from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal

WORKERS = 2
FIRST_ROW, EARLY_ROW, LAST_ROW = 72, 95, 140
"""Of the record: when the plan is written, when most is still to be done, when little is."""
PACK = 2
ENOUGH_LEFT = 8
"""Trials that take seconds: while as many are left, those that a drained node ran end long before the sweep does."""
ENDS_IN_S = 30.0
MODELS = (
    "majority-vote",
    {"name": "poisoned", "params": {"every": 5}},
    {"name": "slow", "params": {"steps": 10, "pause_s": 0.1, "smoothing": 0.5}},
    {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
)
_LOST = re.compile(r"was\s+lost\s+with\s+(\d+)\s+unfinished\s+trials?")
NOTICED_SOON = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}
"""In the environment of a head: a node that is silent is given up after seconds, not after a minute."""


@fault("node killed", draws=2, on_ray=True)
def _killed(box: Sandbox, draw: Random) -> str:
    cluster = _joined(box)
    command = box.start()
    node = _at_work(box, draw, cluster, command, LAST_ROW)
    where, hit = rows_in_words(box), not command.is_over
    node.lose()
    _costs_what_ran_there(box, command, cluster)
    return where if hit else "after its end"


@fault("node silent", draws=1, on_ray=True)
def _silent(box: Sandbox, draw: Random) -> str:
    """No process of it answers, as when its network is gone; some come back later, when the cluster has given it up."""
    cluster = _joined(box, **NOTICED_SOON)
    command = box.start()
    node = _at_work(box, draw, cluster, command, LAST_ROW)
    where, hit = rows_in_words(box), not command.is_over
    node.signal(signal.SIGSTOP)
    seconds, comes_back = draw.uniform(1.0, 40.0), draw.random() < 0.5
    _waited(seconds, box, command)
    if comes_back:
        node.signal(signal.SIGCONT)
    else:
        node.lose()
    _costs_what_ran_there(box, command, cluster)
    return f"{where}, {seconds:.0f} s" if hit else "after its end"


@fault("node drained", draws=2, on_ray=True)
def _drained(box: Sandbox, draw: Random) -> str:
    """A spot machine is taken back: a notice with a deadline, then it is gone, at that time or when nothing runs there
    any more, which comes soon as it gets no more work."""
    cluster = _joined(box)
    command = box.start()
    node = _at_work(box, draw, cluster, command, EARLY_ROW)
    where, seconds, in_order = rows_in_words(box), draw.randint(1, 20), draw.random() < 0.6
    cluster.drain(node, deadline_s=seconds)
    hit, enough = not command.is_over, _slow_ones_left(box) >= ENOUGH_LEFT
    if in_order:
        box.until(lambda: not node.slots(), command)
        assert not (enough and command.is_over), f"the drained node had work to the end: {box.journal}"
    else:
        _waited(seconds, box, command)
    node.lose()
    _costs_what_ran_there(box, command, cluster)
    return f"{where}, {'in order' if in_order else f'after {seconds} s'}" if hit else "after its end"


@fault("head lost", draws=2, on_ray=True)
def _head(box: Sandbox, draw: Random) -> str:
    """Nothing of it is left; a person goes on with the sweep on another cluster."""
    cluster = _joined(box)
    command = box.start()
    _at_work(box, draw, cluster, command, LAST_ROW)
    where, hit = rows_in_words(box), not command.is_over
    cluster.nodes[0].lose()
    box.finish(command)
    if not hit or _is_whole(box):
        return "after its end"
    assert LOST_CLUSTER in box.said, f"exit code {box.code}: {box.said}"
    cluster.close()
    _joined(box, workers=0)
    box.said = ""  # the line that was printed names the cluster that is gone
    return where


def _joined(box: Sandbox, *, workers: int = WORKERS, **environment: str) -> RayNodes:
    """Starts a cluster that the commands of a sandbox join, and that ends with it."""
    cluster = RayNodes()
    box.servers.append(cluster.close)
    box.environment |= cluster.environment
    cluster.begin(workers, **environment)
    box.options = ["--engine", "ray", "--address", cluster.address]
    box.write(models=list(MODELS), seeds={"search": 2, "report": 12, "rescored": 2}, pack=PACK)
    return cluster


def _at_work(box: Sandbox, draw: Random, cluster: RayNodes, command: Command, last_row: int) -> RayNode:
    """Waits for a drawn row, and until a drawn node that is not the head has a slot; returns that node."""
    node, row = draw.choice(cluster.nodes[1:]), draw.randint(FIRST_ROW, last_row)
    box.until_rows(row, command)
    box.until(node.slots, command)
    _waited(draw.uniform(0.0, 1.0), box, command)
    return node


def _waited(seconds: float, box: Sandbox, command: Command) -> None:
    began = time.monotonic()
    box.until(lambda: time.monotonic() - began > seconds, command)


def _slow_ones_left(box: Sandbox) -> int:
    """Returns how many of the trials that take their time have not finished."""
    state = read_journal(box.store)
    return sum(spec.model == "slow" and key not in state.results for key, spec in state.specs.items())


def _is_whole(box: Sandbox) -> bool:
    return box.code in (DONE, FAILED_TRIALS) and read_journal(box.store).status is SweepStatus.DONE


def _costs_what_ran_there(box: Sandbox, command: Command, cluster: RayNodes) -> None:
    """The sweep comes to its end by itself, ran again no more than one batch, and leaves nothing on the cluster."""
    code = box.finish(command)
    assert _is_whole(box), f"a node of three was lost, and the sweep did not come to its end: {code}: {box.said}"
    lost = sum(int(number) for number in _LOST.findall(box.said))
    assert lost <= PACK, f"a node with one slot was lost, and {lost} trials with it: {box.said}"
    deadline = time.monotonic() + ENDS_IN_S
    while (left := cluster.slots()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, f"slots that stay on the cluster: {left}"
