"""One suite for every executor, and what is true of Ray's alone: lost actors, stops in time, what a cluster has."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import executor_checks as checks
import pytest
from executor_checks import batch_of, datasets, drained, finished, specs_on
from fakes import FakeExecutor

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.retry_policy import LOSS_LIMIT
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.record.events import BatchLost, TrialProgressed
from crowdsweep.record.result import Status
from crowdsweep.record.spec import TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.trial.runner import run_batch


@pytest.fixture
def inline() -> InlineExecutor:
    return InlineExecutor(datasets())


@pytest.fixture(scope="module")
def pools() -> Iterator[list[RayExecutor]]:
    """The one pool of this file's tests, while there is one; its actors take seconds to start."""
    running: list[RayExecutor] = []
    yield running
    closed(running)


def closed(running: list[RayExecutor]) -> None:
    while running:
        running.pop().close()


@pytest.fixture
def pool(misbehaving: None, ray_cluster: Cluster, pools: list[RayExecutor]) -> RayExecutor:
    """Actors that know the misbehaving models too, and that earlier tests may have used, as searches use them."""
    if not pools:
        pools.append(RayExecutor(datasets(), ray_cluster))
    return pools[0]


@pytest.fixture
def idle_cluster(ray_cluster: Cluster, pools: list[RayExecutor]) -> Cluster:
    """The cluster without anybody's actors."""
    closed(pools)
    return ray_cluster


def specs_of(model: str, n_seeds: int, **params: object) -> list[TrialSpec]:
    return specs_on(next(iter(datasets().values())), model, n_seeds, **params)


def polled_until_progress(executor: RayExecutor, limit_s: float = 60.0) -> None:
    heard: list[TrialProgressed] = []
    executor.listen(heard.append)
    deadline = time.monotonic() + limit_s
    while not heard:
        assert time.monotonic() < deadline
        executor.poll(0.5)


@pytest.mark.parametrize("check", checks.CHECKS)
def test_inline(inline: InlineExecutor, check: str) -> None:
    checks.CHECKS[check](inline)


@pytest.mark.parametrize("check", checks.CHECKS)
@pytest.mark.parametrize("disorder", range(3))
def test_fake(check: str, disorder: int) -> None:
    """The stand-in of the driver's tests keeps the contract that the driver relies on."""
    checks.CHECKS[check](FakeExecutor(score=really_scored, disorder=disorder))


def test_fake_gives_the_numbers_of_inline(inline: InlineExecutor) -> None:
    checks.check_numbers_are_those_of(FakeExecutor(score=really_scored), inline)


def really_scored(spec: TrialSpec) -> Mapping[str, float]:
    (result,) = run_batch([spec], datasets()[spec.fingerprint], "cpu", lambda _: True)
    if result.failure is not None:
        raise ValueError(result.failure.message)
    return result.metrics


def test_inline_gives_the_same_numbers_in_other_batches(inline: InlineExecutor) -> None:
    checks.check_numbers_are_those_of(inline, InlineExecutor(datasets()))


def test_inline_forgets_what_waits_when_closed(inline: InlineExecutor) -> None:
    inline.submit(batch_of(specs_of("uniform", 1)))
    inline.close()
    inline.close()
    assert list(inline.poll(0.0)) == []


ENDS_ITS_PROCESS = {
    "hard_exit": "exited with code 3",
    "segfault": "killed by SIGSEGV",
    "terminate": "killed by SIGTERM",
    "close_files": "its process died",
}
HANGS = ("sleep", "spin", "hang_in_c")
HARMLESS = ("terminate_parent", "fork", "fork_and_stay", "print", "disturb")


def test_inline_outlives_whatever_a_model_does_to_its_process(misbehaving: None) -> None:
    executor = InlineExecutor(datasets())
    try:
        for how, says in ENDS_ITS_PROCESS.items():
            specs = specs_of("wrong", 3, how=how)
            executor.submit(batch_of(specs))
            results = {result.key: result for result in finished(drained(executor, 3))}
            failure = results[specs[1].key].failure
            assert failure is not None, how
            assert failure.kind == "ProcessDied", how
            assert says in failure.message, (how, failure.message)
            assert [results[spec.key].status for spec in (specs[0], specs[2])] == ["ok", "ok"], how
        for how in HARMLESS:
            executor.submit(batch_of(specs_of("wrong", 3, how=how)))
            assert [result.status for result in finished(drained(executor, 3))] == ["ok"] * 3, how
    finally:
        executor.close()


def test_inline_ends_a_trial_that_hangs(misbehaving: None) -> None:
    executor = InlineExecutor(datasets(), trial_minutes=0.02)
    try:
        for how in HANGS:
            specs = specs_of("wrong", 3, how=how)
            asked = specs if how == "sleep" else specs[1:2]  # of three, each is waited for: once is enough
            executor.submit(batch_of(asked))
            results = {result.key: result for result in finished(drained(executor, len(asked)))}
            failure = results[specs[1].key].failure
            assert failure is not None, how
            assert (failure.kind, failure.message) == (
                "RanTooLong",
                "it ran longer than budget.trial_minutes (0.02)",
            )
            assert [results[spec.key].status for spec in asked if spec is not specs[1]] == ["ok"] * (len(asked) - 1)
    finally:
        executor.close()


def test_inline_loses_no_trial_while_its_own_process_stands_still(
    misbehaving: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-Z stops the driver alone: the worker, which is in a session of its own, goes on, and what it has finished
    waits to be read when the driver goes on, long after `budget.trial_minutes`."""
    monkeypatch.setattr("crowdsweep.engine.inline.STARTING_S", 0.0)
    monkeypatch.setattr("crowdsweep.engine.inline._STOOD_STILL_S", 1.0)
    executor = InlineExecutor(datasets(), trial_minutes=0.03)
    try:
        executor.submit(batch_of(specs_of("slow", 1)))
        assert len(executor.poll(0.0)) == 1
        time.sleep(2.5)
        events = drained(executor, 1)
        assert [result.status for result in finished(events)] == ["ok"]
        assert not [event for event in events if isinstance(event, BatchLost)]
    finally:
        executor.close()


def test_inline_leaves_no_process_behind(misbehaving: None, cold_forkservers: None) -> None:
    before = _processes_of_ours()
    executor = InlineExecutor(datasets())
    executor.submit(batch_of(specs_of("wrong", 2, how="fork_and_stay")))
    drained(executor, 2)
    executor.submit(batch_of(specs_of("wrong", 2, how="sleep")))
    executor.poll(0.0)
    own = _processes_of_ours() - before
    assert len(own) >= 3, "forkserver, worker and what the model forked"
    began = time.monotonic()
    executor.close()
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 5
    while any(_is_alive(process) for process in own) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [process for process in own if _is_alive(process)]


def test_what_a_killed_forkserver_kept_ends_with_it(misbehaving: None, cold_forkservers: None) -> None:
    before = _processes_of_ours()
    executor = InlineExecutor(datasets())
    try:
        executor.submit(batch_of(specs_of("wrong", 2, how="sleep")))
        deadline = time.monotonic() + 60
        while len(own := _processes_of_ours() - before) < 2:
            assert time.monotonic() < deadline, "forkserver and worker"
            executor.poll(0.2)
        (forkserver,) = [process for process in own if os.getsid(process) == process]
        os.kill(forkserver, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while any(map(_is_alive, own)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [process for process in own if _is_alive(process)]
    finally:
        for process in filter(_is_alive, _processes_of_ours() - before):
            os.kill(process, signal.SIGKILL)
        executor.close()


def _processes_of_ours() -> set[int]:
    return {int(path.name) for path in Path("/proc").glob("[0-9]*") if b"forkserver" in _command_of(path)}


def _command_of(process: Path) -> bytes:
    try:
        text = (process / "cmdline").read_bytes()
        return text if _session_leader_is_child_of_ours(process) else b""
    except OSError:
        return b""


def _session_leader_is_child_of_ours(process: Path) -> bool:
    """The forkserver leads the session of all that comes from it, and is this process's child."""
    leader = int((process / "stat").read_text().rpartition(")")[2].split()[3])
    return int(Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
class TestRay:
    @pytest.mark.parametrize("check", checks.CHECKS)
    def test_suite(self, pool: RayExecutor, check: str) -> None:
        checks.CHECKS[check](pool)

    def test_has_a_slot_for_each_cpu(self, pool: RayExecutor) -> None:
        assert pool.slots_for() == 2

    def test_gives_the_numbers_of_inline(self, pool: RayExecutor, inline: InlineExecutor) -> None:
        checks.check_numbers_are_those_of(pool, inline)

    def test_a_slot_has_as_many_threads_as_cpus_and_the_device_that_it_was_given(self, idle_cluster: Cluster) -> None:
        import ray

        from crowdsweep.engine.ray_slot import THREAD_VARIABLES, Slot, slot_options

        class Curious(Slot):
            def threads(self) -> list[str]:
                import torch

                return [*(os.environ[name] for name in THREAD_VARIABLES), str(torch.get_num_threads()), self._device]

        actor = ray.remote(Curious).options(**slot_options(Resources())).remote("cpu")
        assert ray.get(actor.threads.remote()) == ["1"] * (len(THREAD_VARIABLES) + 1) + ["cpu"]
        ray.kill(actor)

    def test_killed_in_the_middle_of_a_batch(self, pool: RayExecutor, inline: InlineExecutor) -> None:
        """kill -9 of the actor: its trials are run again, with the numbers that they would have had."""
        specs = specs_of("slow", 4, steps=10, pause_s=0.05, smoothing=0.3)
        pool.submit(batch_of(specs))
        polled_until_progress(pool)
        for process in pool.process_ids():
            os.kill(process, signal.SIGKILL)
        events = drained(pool, 4)
        lost = [key for event in events if isinstance(event, BatchLost) for key in event.keys]
        assert set(lost) == {spec.key for spec in specs}
        inline.submit(batch_of(specs))
        expected = {result.key: result.metrics for result in finished(drained(inline, 4))}
        got = {result.key: result.metrics for result in finished(events)}
        assert got == expected
        assert Counter(result.key for result in finished(events)).most_common(1)[0][1] == 1

    def test_a_trial_that_kills_its_actor_takes_no_other_with_it(self, pool: RayExecutor) -> None:
        specs = specs_of("deadly", 6, seed=3)
        pool.submit(batch_of(specs))
        events = drained(pool, 6)
        results = {result.key: result for result in finished(events)}
        assert [results[spec.key].status for spec in specs] == ["ok", "ok", "ok", "failed", "ok", "ok"]
        failure = results[specs[3].key].failure
        assert failure is not None
        assert failure.kind == "ProcessDied"
        alone = [event for event in events if isinstance(event, BatchLost) and list(event.keys) == [specs[3].key]]
        assert len(alone) == LOSS_LIMIT

    @pytest.mark.long
    @pytest.mark.parametrize("how", ["hang_in_c", "spin"])
    def test_a_trial_that_hangs_is_ended(self, how: str, misbehaving: None, idle_cluster: Cluster) -> None:
        executor = RayExecutor(datasets(), idle_cluster, trial_minutes=0.02)
        specs = specs_of("wrong", 2, how=how)
        executor.submit(batch_of(specs))
        results = {result.key: result for result in finished(drained(executor, 2))}
        failure = results[specs[1].key].failure
        assert failure is not None
        assert failure.kind == "RanTooLong"
        assert results[specs[0].key].status == "ok"
        executor.close()

    def test_exits_and_forks_of_a_model_are_its_own(self, pool: RayExecutor) -> None:
        kinds = {"exit": "SystemExit", "keyboard_interrupt": "KeyboardInterrupt", "fork": "", "terminate_parent": ""}
        for how, kind in kinds.items():
            specs = specs_of("wrong", 3, how=how)
            pool.submit(batch_of(specs))
            results = {result.key: result for result in finished(drained(pool, 3))}
            failure = results[specs[1].key].failure
            assert (failure.kind if failure else "") == kind, how
            assert [results[spec.key].status for spec in (specs[0], specs[2])] == ["ok", "ok"]

    def test_an_actor_lost_once_is_replaced(self, pool: RayExecutor, tmp_path: Path) -> None:
        pool.submit(batch_of(specs_of("deadly", 1, seed=0, once=str(tmp_path / "killed"))))
        (result,) = finished(drained(pool, 1))
        assert result.status is Status.OK
        assert (tmp_path / "killed").exists()

    def test_a_stop_reaches_a_running_trial_at_its_next_report(self, pool: RayExecutor) -> None:
        endless = specs_of("slow", 1, steps=100_000, pause_s=0.01)
        pool.submit(batch_of(endless))
        polled_until_progress(pool)
        pool.stop(endless[0].key)
        (result,) = finished(drained(pool, 1))
        assert result.status is Status.STOPPED
        assert 1 < result.iterations < 100_000
        pool.submit(batch_of(specs_of("uniform", 1)))
        assert len(finished(drained(pool, 1))) == 1

    def test_what_the_cluster_lacks_is_refused_before_anything_runs(self, idle_cluster: Cluster) -> None:
        with pytest.raises(InfeasibleRequest, match=r"3 CPU and 1 GPU.*2 CPU and 0 GPU"):
            RayExecutor(datasets(), idle_cluster, [Resources(), Resources(cpu=3.0, gpu=1.0)])
