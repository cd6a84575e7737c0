"""A node that a cloud is about to take back, as the cluster tells it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ray_nodes import RayNodes

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.long]

PATIENCE_S = 120.0
LOOKS = """
import json, sys
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from crowdsweep.engine.cluster import connect
from crowdsweep.resources import Resources
cluster = connect(sys.argv[1])
on_worker = NodeAffinitySchedulingStrategy(sys.argv[2], soft=False)
class Work:
    def begun(self):
        return True
try:
    work = ray.remote(Work).options(num_cpus=1, scheduling_strategy=on_worker).remote()
    ray.get(work.begun.remote())
    for line in sys.stdin:
        if "release" in line:
            ray.kill(work)
        nodes = cluster.nodes()
        print(json.dumps({node.id: [node.leaves, node.slots(Resources())] for node in nodes}), flush=True)
finally:
    cluster.close()
"""


@pytest.fixture
def cluster() -> Iterator[RayNodes]:
    nodes = RayNodes()
    try:
        nodes.begin(1)
        yield nodes
    finally:
        nodes.close()


def test_a_node_with_notice_leaves_and_is_gone_once_nothing_runs_there(cluster: RayNodes) -> None:
    """Ray ends a drained node by itself when it is idle, before its deadline."""
    head, worker = (node.id for node in cluster.nodes)
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-c", LOOKS, cluster.address, worker],
        env={**os.environ, **cluster.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def looked(word: str = "") -> dict[str, list[object]]:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        print(word, file=watcher.stdin, flush=True)
        return json.loads(watcher.stdout.readline())

    with watcher:
        try:
            assert looked() == {head: [False, 1], worker: [False, 1]}
            cluster.drain(cluster.nodes[1], deadline_s=600)
            assert looked() == {head: [False, 1], worker: [True, 0]}, "it takes no new work"
            looked("release")
            until = time.monotonic() + PATIENCE_S
            while worker in (found := looked()) and time.monotonic() < until:
                time.sleep(0.2)
            assert found == {head: [False, 1]}
        finally:
            watcher.kill()
