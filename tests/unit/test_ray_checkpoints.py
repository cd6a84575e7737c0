"""Checkpoints on Ray, without a cluster: the executor keeps the latest, and hands it to the next slot of the trial."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import ray
from executor_checks import batch_of, datasets, specs_on
from mirror_checks import spec
from ray.exceptions import NodeDiedError, ObjectLostError

from crowdsweep.engine.executor import Batch
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.ray_slot import Slot
from crowdsweep.engine.retry_policy import LOSS_LIMIT
from crowdsweep.engine.slot_pool import Actor
from crowdsweep.record.events import TrialFinished, TrialSaved, TrialsNoted
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.registry.plugin_transfer import plugin_folders
from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked  # what stands for data here is their name
NODE_DIED = NodeDiedError("its node was preempted")


@dataclass(kw_only=True)
class MadeUp:
    """A cluster that refuses nothing, the pool of its slots, and the handle of each of them."""

    actors: list[Actor] = field(default_factory=list[Actor])
    drained: set[str] = field(default_factory=set[str])
    given: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def check_room(self, *shapes: Resources) -> None:
        """There is room."""

    def forget(self, actor: Actor) -> None:
        self.actors.remove(actor)

    def begin(self, executor: RayExecutor) -> Actor:
        """Has a new slot take the batch that waits."""
        actor = Actor(name="slot", handle=self, shape=Resources(), node="spot", waits_on=None, up=True)
        self.actors.append(actor)
        executor._dispatch()
        return actor

    @property
    def run(self) -> "MadeUp":
        return self

    def options(self, **_: Any) -> "MadeUp":
        return self

    def remote(self, *given: Any, **_: Any) -> str:
        self.given.append(given)
        return "a stream"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    monkeypatch.setattr(ray, "put", lambda content: ("lies here", content))
    return MadeUp()


def executor_on(made: MadeUp) -> RayExecutor:
    held: Any = {spec(0).fingerprint: "a dataset"}
    return RayExecutor(held, made, make_pool=lambda _: made)  # pyright: ignore[reportArgumentType]: it stands for both


def test_the_next_slot_is_given_the_latest(made: MadeUp) -> None:
    executor, one = executor_on(made), spec(0)
    executor.submit(replace(batch_of([one]), checkpoint_minutes=10.0, saved={one.key: b"of an earlier driver"}))
    actor = made.begin(executor)
    saved, noted = TrialSaved(key=one.key, step=4, content=b"new"), TrialsNoted(keys=[one.key], words="going on")
    executor._take(actor, [noted, saved])
    executor._replace_lost(actor, NODE_DIED)
    actor = made.begin(executor)
    assert [saved for _, _, saved in made.given] == [
        {one.key: [("lies here", b"of an earlier driver")]},
        {one.key: [("lies here", b"new")]},
    ]
    assert [batch.checkpoint_minutes for batch, _, _ in made.given] == [10.0, 10.0]
    assert [event for event in executor._events if isinstance(event, TrialSaved | TrialsNoted)] == [noted, saved]
    executor._take(actor, [TrialResult(key=one.key, status=Status.OK)])
    assert not executor._saved


@pytest.mark.parametrize("comes_along", [True, False])
def test_a_trial_that_comes_along_is_not_given_up(made: MadeUp, comes_along: bool) -> None:
    executor, one = executor_on(made), spec(0)
    executor.submit(batch_of([one]))
    for step in range(3 * LOSS_LIMIT if comes_along else LOSS_LIMIT):
        actor = made.begin(executor)
        if comes_along:
            executor._take(actor, [TrialSaved(key=one.key, step=step, content=b"new")])
        executor._replace_lost(actor, NODE_DIED)
    assert any(isinstance(event, TrialFinished) for event in executor._events) != comes_along


def test_a_slot_passes_checkpoints_on_and_takes_them(
    misbehaving: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = list(datasets().values())[1]

    def get(reference: Any) -> Any:
        if reference == "lost":
            raise ObjectLostError("00" * 28, None, "")
        return reference

    monkeypatch.setattr(ray, "get", get)
    (tmp_path / "killed").touch()
    specs = specs_on(base, "revoked", 2, once=str(tmp_path / "killed"), hidden=[4], steps=0)
    slot = Slot("cpu", plugin_folders())

    def ran(saved: dict[str, Any]) -> list[Any]:
        stream = slot.run(Batch(specs=specs, checkpoint_minutes=1e-9), [base], saved)
        return [update for updates in stream for update in updates]

    first = ran({})
    latest = {update.key: update.content for update in first if isinstance(update, TrialSaved)}
    assert set(latest) == {one.key for one in specs}
    again = ran({specs[0].key: [latest[specs[0].key]], specs[1].key: ["lost"]})
    assert [update.words for update in again if isinstance(update, TrialsNoted)] == ["continuing from step 5"]
    assert [update.resumed for update in again if isinstance(update, TrialResult)] == [5, 0]
    slot._forkserver.close()
