"""Checkpoints: fits that go on from every moment, what is in one, and which ones are believed."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load
from written_models import dataset, silent, specs_of

from crowdsweep.models import registered
from crowdsweep.models.checkpoints import (
    CheckpointRefused,
    TrainingState,
    checked_array,
    generator_state,
    set_generator,
)
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one, fit_points
from crowdsweep.record.events import TrialSaved, TrialsNoted
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.checkpoint_checks import must_go_on
from crowdsweep.testing.model_fits import RecordedCheckpoint, context_for, fitted_numbers, must_agree, short_model
from crowdsweep.testing.small_data import small_data
from crowdsweep.trial import checkpoints
from crowdsweep.trial.checkpoints import (
    NOT_BEGUN,
    BatchCheckpoints,
    CheckpointSettings,
    Progress,
    Saved,
    decode,
    encode,
)
from crowdsweep.trial.runner import run_batch

STATES = {"fit": TrainingState(arrays={"a": np.arange(3.0)}, ended=False)}
MADE_BY = {"format": 1, "trial": "a" * 16, "learning curve": ["dev_accuracy", 10]}


# Models with hyper-parameters under which a fit has trainings that end one after another, or keeps its best epoch.
LONGER: dict[str, dict[str, Any]] = {
    "soft-mv": {"patience": 2, "epochs": 5, "dropout": 0.3},  # folds first
    "crowdlab": {"patience": 2, "epochs": 5, "folds": 2},  # folds of its own
    "ldl-nm": {"patience": 1, "epochs": 4},
    "lia": {"patience": 1, "iterations": 4, "em_iterations": 2, "epochs": 2},
    "dl-em": {"protocol": "paper", "tolerance": 0.4, "restarts": 4},  # they end one after another
    "cmm": {"protocol": "paper", "tolerance": 0.4, "restarts": 4},
    "cmm-individual": {"protocol": "paper", "tolerance": 0.4, "restarts": 4},
    "semi-lfc": {"epochs": 4, "dropout": 0.3},
}


@pytest.mark.parametrize("name", LONGER)
def test_a_fit_goes_on_from_its_last_checkpoint(name: str) -> None:
    info, data = registered.model_info(name), small_data()
    if name in ("soft-mv", "crowdlab"):
        data = replace(data, training=replace(data.training, validation=None))
    recorded, model = RecordedCheckpoint(), short_model(info, **LONGER[name])
    context = replace(context_for(info, data), checkpoint=recorded)
    undisturbed = fit_one(model, data.training, context)
    must_go_on(info, model, data, undisturbed, recorded)


def test_a_fit_goes_on_from_every_moment() -> None:
    info, data = registered.model_info("soft-mv"), small_data()
    data = replace(data, training=replace(data.training, validation=None))
    model, moments = short_model(info, **LONGER["soft-mv"]), list[dict[str, TrainingState]]()

    class EachMoment(RecordedCheckpoint):
        def write(self) -> None:
            super().write()
            moments.append(dict(self.written))

    undisturbed = fit_one(model, data.training, replace(context_for(info, data), checkpoint=EachMoment()))
    assert len(moments) > 5
    assert any(state.ended for state in moments[-1].values())
    for states in moments:
        context = replace(context_for(info, data), checkpoint=RecordedCheckpoint(states))
        again = fit_one(model, data.training, context)
        for (what, one), (_, other) in zip(fitted_numbers(undisturbed), fitted_numbers(again), strict=True):
            np.testing.assert_array_equal(other, one, err_msg=what)


@pytest.mark.parametrize("name", ["crowd-layer", "ldl-nm", "lia", "cmm", "cmm-individual", "dl-em"])
def test_fits_of_a_batch_go_on_alone_and_beside_new_ones(name: str) -> None:
    """Data of different sizes, and points where a batch may have several: a checkpoint has nothing of the batch that it
    was made in."""
    info = registered.model_info(name)
    points = [{}, {"groups": 5, "learning_rate": 0.01}, {"smoothing": 0.1, "iterations": 12}]
    models = [short_model(info, **(point if info.varies else {})) for point in points]
    sets = [small_data(), small_data(1, n_items=17, n_annotators=9), small_data(2)]
    contexts = [context_for(info, data, seed) for seed, data in enumerate(sets)]
    heard = Heard()

    def fitted(places: list[int], saved: dict[str, bytes]) -> dict[int, FitResult]:
        batch = BatchCheckpoints(CheckpointSettings(minutes=0.0, saved=saved, emit=heard))
        known: list[FitContext] = []
        for n in places:
            checkpoint = batch.of([str(n)], dict, lambda: NOT_BEGUN)
            checkpoint.begin()
            known.append(replace(contexts[n], checkpoint=checkpoint))
        asked = fit_points([models[n] for n in places], [sets[n].training for n in places], known)
        return dict(zip(places, asked, strict=True))

    together = fitted([0, 1, 2], {})
    latest = dict(heard.latest)
    assert set(latest) == {"0", "1", "2"}
    for places, begun in (([1], "1"), ([2, 0, 1], "01")):
        again = fitted(places, {key: latest[key] for key in begun})
        for n, result in again.items():
            must_agree(together[n], result, 1e-6)


class Heard:
    """Takes what a batch says."""

    def __init__(self) -> None:
        self.events: list[TrialSaved | TrialsNoted] = []

    def __call__(self, event: TrialSaved | TrialsNoted) -> None:
        self.events.append(event)

    @property
    def latest(self) -> dict[str, bytes]:
        return {event.key: event.content for event in self.events if isinstance(event, TrialSaved)}

    @property
    def words(self) -> list[str]:
        return [event.words for event in self.events if isinstance(event, TrialsNoted)]


def test_a_checkpoint_comes_back_as_it_was() -> None:
    progress = Progress(step=7, curve=[(3, 0.1), (6, 0.7)], wall_s=12.5)
    states = {
        "fit/restart/0": TrainingState(arrays={"a b/c": np.array([1, 2, 2**64 - 1], np.uint64)}, ended=False),
        "fit/restart/10": TrainingState(
            arrays={"x": np.array(np.nan), "y": np.zeros((0, 3), np.float32), "z": np.array([True])}, ended=True
        ),
    }
    found = decode(encode(Saved(progress=progress, states=states), MADE_BY), MADE_BY)
    assert found.progress == progress
    assert {name: state.ended for name, state in found.states.items()} == {
        "fit/restart/0": False,
        "fit/restart/10": True,
    }
    for name, state in states.items():
        assert set(found.states[name].arrays) == set(state.arrays)
        for key, array in state.arrays.items():
            back = found.states[name].arrays[key]
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(back, array)


def test_what_is_not_believed() -> None:
    content = encode(Saved(progress=NOT_BEGUN, states=STATES), MADE_BY)
    for broken in (b"", content[:-1], content[:20], content[:-1] + b"x", b"not one of ours" * 10):
        with pytest.raises(CheckpointRefused, match="damaged, or is no checkpoint"):
            decode(broken, MADE_BY)
    for body in (b"", b"{}", b"\xff" * 100, content[16:-4]):
        with pytest.raises(CheckpointRefused, match=r"no checkpoint|about"):
            decode(blake2b(body, digest_size=16).digest() + body, MADE_BY)
    for name, other in (("trial", "b" * 16), ("learning curve", None), ("format", 2)):
        with pytest.raises(CheckpointRefused, match=f"made with another {name}"):
            decode(content, {**MADE_BY, name: other})
    with pytest.raises(CheckpointRefused, match="another version of torch: None in place of 2"):
        decode(content, {**MADE_BY, "version of torch": "2"})


def test_arrays_of_another_training_are_refused() -> None:
    state = {"a": np.zeros((2, 3)), "seed": np.zeros(6)}
    assert checked_array(state, "a", (None, 3)).shape == (2, 3)
    for name, shape, dtype in (("b", None, float), ("a", (3, 2), float), ("a", (6,), float), ("a", (2, 3), int)):
        with pytest.raises(CheckpointRefused, match=name):
            checked_array(state, name, shape, dtype)
    with pytest.raises(CheckpointRefused, match="seed"):
        set_generator(np.random.default_rng(0), state, "seed")


def test_generators_go_on() -> None:
    generator, other = SeedStream(3).numpy("a"), SeedStream(4).numpy("b")
    generator.integers(0, 10, dtype=np.uint8)  # half a word is left over
    set_generator(other, {"it": generator_state(generator)}, "it")
    assert (generator.permutation(50) == other.permutation(50)).all()
    assert (generator.integers(0, 10, size=9, dtype=np.uint8) == other.integers(0, 10, size=9, dtype=np.uint8)).all()


def test_when_they_are_written() -> None:
    now, heard = [0.0], Heard()
    settings = CheckpointSettings(minutes=10.0, saved={}, emit=heard)
    batch = BatchCheckpoints(settings, clock=lambda: now[0])
    one, other = (batch.of([key], lambda: MADE_BY, lambda: Progress(step=5)) for key in ("one", "other"))
    assert not one.is_due
    other.put("fit", replace(STATES["fit"], ended=True))
    now[0] = 600.0
    assert one.is_due
    assert other.is_due
    one.put("fit", STATES["fit"])
    one.write()
    assert [(event.key, event.step) for event in heard.events if isinstance(event, TrialSaved)] == [
        ("one", 5),
        ("other", 5),
    ]
    assert not one.is_due
    one.write()
    assert len(heard.events) == 2, "nothing has changed"


def test_one_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_BYTES", 1 << 20)
    heard = Heard()
    fit = BatchCheckpoints(CheckpointSettings(minutes=0.0, saved={}, emit=heard)).of(["one"], dict, lambda: NOT_BEGUN)
    for _ in range(2):
        fit.put("fit", TrainingState(arrays={"a": np.zeros(1 << 18)}, ended=False))
        fit.write()
    assert not heard.latest
    assert heard.words == ["no checkpoint: it would have 2 MB, 1 at most"]


def about_of(content: bytes) -> dict[str, Any]:
    return json.loads(load(content[16:])["about"].tobytes())


NETWORK = """
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers

@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    epochs: int = 6
    classifier: Classifier = Classifier()

    def fit_batch(self, data, contexts):
        jobs = [
            TrainingJob(
                data=part, targets=part.annotations.label_distribution(), seeds=context.seeds, report=context.report,
                checkpoint=context.checkpoint,
            )
            for part, context in zip(data, contexts)
        ]
        CALLS.append(len(data))
        return [
            one.result()
            for one in train_classifiers(self.classifier, jobs, Schedule(epochs=self.epochs))
        ]
"""


def test_a_state_of_another_shape_has_the_batch_begin_anew(add_model: Callable[..., list[Any]]) -> None:
    """As where the code of a model changed in a way that nobody noticed."""
    add_model("probe-network", NETWORK, 'needs=frozenset({"features"}), checkpoints=True')
    base, heard = dataset(), Heard()
    specs = specs_of("probe-network", base, range(2), params={"steps": 0, "hidden": [3]})
    settings = CheckpointSettings(minutes=0.0, saved={}, emit=heard)
    undisturbed = run_batch(specs, base, "cpu", silent, checkpoints=settings)
    latest = dict(heard.latest)
    assert set(latest) == {spec.key for spec in specs}

    def reshaped(content: bytes) -> bytes:
        made_by = about_of(content)["made_by"]
        saved = decode(content, made_by)
        states = {
            name: replace(state, arrays={key: array[..., :-1] for key, array in state.arrays.items()})
            for name, state in saved.states.items()
        }
        return encode(replace(saved, states=states), made_by)

    again = Heard()
    other = {**latest, specs[1].key: reshaped(latest[specs[1].key])}
    results = run_batch(specs, base, "cpu", silent, checkpoints=replace(settings, saved=other, emit=again))
    assert again.words[0] == "continuing from step 5"
    assert again.words[1].startswith("starting again from the beginning, as its checkpoint was refused: expected")
    assert [result.resumed for result in results] == [0, 0]
    assert [result.metrics for result in results] == [result.metrics for result in undisturbed]
    resumed = run_batch(specs, base, "cpu", silent, checkpoints=replace(settings, saved=latest))
    assert [result.resumed for result in resumed] == [5, 5]
    assert [result.metrics for result in resumed] == [result.metrics for result in undisturbed]
    assert [result.objective for result in resumed] == [result.objective for result in undisturbed]
    for result, spec in zip(resumed, specs, strict=True):
        assert result.wall_s > about_of(latest[spec.key])["wall_s"] > 0
