"""Successive halving could be built on the executors: a rule halves thirty trials at three rungs, on both engines.

The rule lives where the driver would have it: it hears of progress and asks that trials stop. Whoever survives has the
numbers of a fit that nobody disturbed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from executor_checks import drained, finished

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.executor import Batch, Executor
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.models import registered
from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.learning_curve import CurveSpec

N_TRIALS, RUNGS, EPOCHS = 30, (4, 8, 16), 24
CURVE = CurveSpec(metric="dev_accuracy", every=2)


def base() -> CrowdDataset:
    return catalogue.load("digits", {"annotators": 20})


def specs_on(dataset: CrowdDataset) -> list[TrialSpec]:
    params = {"epochs": EPOCHS, "hidden": [8], "learning_rate": 0.003, "steps": 0, "patience": None}
    return [
        TrialSpec(
            model="soft-mv",
            params=registered.full_params("soft-mv", params),
            model_version=1,
            dataset="digits",
            dataset_params={"annotators": 20},
            fingerprint=dataset.fingerprint,
            seed=seed,
        )
        for seed in range(N_TRIALS)
    ]


@dataclass
class Halving:
    """At each rung the worse half of those that have come so far is stopped, once all of them are there."""

    executor: Executor
    alive: set[str]
    scores: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])
    heard: int = 0

    def __call__(self, event: TrialProgressed) -> None:
        if event.score is None:
            return
        self.heard += 1
        if event.step not in RUNGS or event.key not in self.alive:  # one that is stopped may come by once more
            return
        rung = self.scores.setdefault(event.step, {})
        rung[event.key] = event.score
        if set(rung) >= self.alive:
            ranked = sorted(self.alive, key=lambda key: (rung[key], key))
            for key in ranked[: len(ranked) // 2]:
                self.alive.discard(key)
                self.executor.stop(key)


def undisturbed(dataset: CrowdDataset, specs: Sequence[TrialSpec]) -> dict[str, TrialResult]:
    executor = InlineExecutor({dataset.fingerprint: dataset})
    executor.submit(Batch(specs=specs))
    return {result.key: result for result in finished(drained(executor, len(specs)))}


@pytest.fixture
def pool(ray_cluster: Cluster) -> Iterator[RayExecutor]:
    dataset = base()
    executor = RayExecutor({dataset.fingerprint: dataset}, ray_cluster)
    yield executor
    executor.close()


def check_halving(executor: Executor, *, batches: int) -> None:
    dataset = base()
    specs = specs_on(dataset)
    rule = Halving(executor, {spec.key for spec in specs})
    executor.listen(rule)
    size = N_TRIALS // batches
    for start in range(0, N_TRIALS, size):
        executor.submit(Batch(specs=specs[start : start + size], curve_spec=CURVE))
    results = {result.key: result for result in finished(drained(executor, N_TRIALS))}
    assert set(results) == {spec.key for spec in specs}
    expected = undisturbed(dataset, specs)
    survivors = [result for result in results.values() if result.status is Status.OK]
    assert {result.key for result in survivors} >= rule.alive
    assert len(rule.alive) == 4  # 30, 15, 8, 4
    for result in survivors:
        assert result.iterations == EPOCHS
        assert result.metrics == pytest.approx(expected[result.key].metrics, rel=1e-6)
        assert [step for step, _ in result.curve] == list(range(2, EPOCHS + 1, 2))
        assert result.curve[-1][1] == pytest.approx(result.metrics["dev_accuracy"])
    stopped = [result for result in results.values() if result.status is Status.STOPPED]
    assert stopped
    for result in stopped:
        assert min(RUNGS) <= result.iterations <= EPOCHS
        assert result.failure is None
        last, score = result.curve[-1]
        assert last <= result.iterations
        assert result.iterations > last or result.metrics["dev_accuracy"] == pytest.approx(score)


def test_inline() -> None:
    """Here a stop comes with the report: who loses at a rung makes at most one more step."""
    executor = InlineExecutor({base().fingerprint: base()})
    check_halving(executor, batches=1)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_on_ray(pool: RayExecutor) -> None:
    check_halving(pool, batches=2)
