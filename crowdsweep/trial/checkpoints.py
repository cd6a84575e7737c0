"""Checkpoints of the fits of a batch: when they are written, what they contain, and when one is refused.

A checkpoint contains the states of a fit's trainings (`models.checkpoints`), its learning curve, and what its numbers
depend on (`made_by`): the trial's key, the code of the models, the versions of the libraries, the kind of device and
the settings of the curve. A checkpoint that is damaged, or for which any of these differs, is refused: the fit begins
anew, and a note says why. Reading a checkpoint runs no code: it is a digest followed by arrays as safetensors.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import numpy as np

import crowdsweep.models
from crowdsweep.errors import plain, shortened
from crowdsweep.models.checkpoints import CheckpointRefused, TrainingState, checked_array, with_prefix, without_prefix
from crowdsweep.record.events import TrialSaved, TrialsNoted
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.learning_curve import CurveSpec

FORMAT = 1
MOST_BYTES = 1 << 27
"""Size limit of a fit's checkpoint; a larger one is not written, which a note says."""
_DIGEST_BYTES = 16
_ABOUT = "about"
_LIBRARIES = ("crowdsweep", "numpy", "scipy", "torch")


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """Settings of a batch's checkpoints.

    Attributes:
        saved: checkpoints that earlier slots wrote, by trial key.
        emit: called with each checkpoint that is written and each note, in the thread that runs the batch.
    """

    minutes: float
    saved: Mapping[str, bytes]
    emit: Callable[[TrialSaved | TrialsNoted], None]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a fit, apart from the states of its trainings.

    Attributes:
        step: the step that it last reported.
        curve: (step, score) points of its learning curve.
        wall_s: seconds elapsed so far, on all slots together.
    """

    step: int = 0
    curve: Sequence[tuple[int, float]] = ()
    wall_s: float = 0.0


NOT_BEGUN = Progress()


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Content of one checkpoint."""

    progress: Progress
    states: Mapping[str, TrainingState]


@final
class BatchCheckpoints:
    """Checkpoints of all fits of a batch, which are written at the same times."""

    def __init__(self, settings: CheckpointSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._due = clock() + 60 * settings.minutes
        self._latest = dict(settings.saved)
        self._fits: dict[str, FitCheckpoint] = {}
        self._too_large: set[str] = set()
        self._notes: dict[str, list[str]] = {}
        self.raised: BaseException | None = None  # what `emit` raised: not the model's fault

    @property
    def is_due(self) -> bool:
        """Whether `minutes` have passed since the last write."""
        return self._clock() >= self._due

    def of(
        self, keys: Sequence[str], made_by: Callable[[], Mapping[str, Any]], progress: Callable[[], Progress]
    ) -> "FitCheckpoint":
        """Registers a fit, and returns its checkpoint.

        Args:
            keys: keys of its trials; the checkpoint is written under the first one.
            made_by: returns what the fit's numbers depend on (`made_by`); called when it is first needed.
            progress: returns the fit's current progress.
        """
        fit = self._fits[keys[0]] = FitCheckpoint(self, keys, made_by, progress)
        return fit

    def latest(self, keys: Sequence[str]) -> bytes | None:
        """Returns the latest checkpoint under any of these trial keys; None where there is none."""
        return next((self._latest[key] for key in keys if key in self._latest), None)

    def forget(self, keys: Sequence[str]) -> None:
        """Drops the checkpoints under these trial keys, so that their fit starts from the beginning."""
        for key in keys:
            self._latest.pop(key, None)

    def note(self, keys: Sequence[str], words: str) -> None:
        """Collects a note about trials; `tell` emits one event for all trials with the same note."""
        self._notes.setdefault(words, []).extend(keys)

    def tell(self) -> None:
        """Emits the collected notes, as one `TrialsNoted` for each different text."""
        notes, self._notes = self._notes, {}
        for words, keys in notes.items():
            self._emit(TrialsNoted(keys=tuple(keys), words=words))

    def write(self) -> None:
        """Writes the checkpoints of all fits whose states changed since the last write, then emits the notes.

        A checkpoint of more than `MOST_BYTES` is not written; a note says so, once for each fit.
        """
        for fit in self._fits.values():
            if (content := fit.changed()) is None:
                continue
            if len(content) > MOST_BYTES:
                self._say_too_large(fit.keys, len(content))
                continue
            self._latest[fit.keys[0]] = content
            self._emit(TrialSaved(key=fit.keys[0], step=fit.progress().step, content=content))
        self._due = self._clock() + 60 * self._settings.minutes
        self.tell()

    def _emit(self, event: TrialSaved | TrialsNoted) -> None:
        try:
            self._settings.emit(event)
        except BaseException as error:
            self.raised = error
            raise

    def _say_too_large(self, keys: Sequence[str], size: int) -> None:
        if keys[0] not in self._too_large:
            self._too_large.add(keys[0])
            self.note(keys, f"no checkpoint: it would have {size >> 20} MB, {MOST_BYTES >> 20} at most")


@final
class FitCheckpoint:
    """Checkpoint of one fit; see `models.checkpoints.Checkpoint`."""

    keeps = True

    def __init__(
        self,
        batch: BatchCheckpoints,
        keys: Sequence[str],
        made_by: Callable[[], Mapping[str, Any]],
        progress: Callable[[], Progress],
    ) -> None:
        self.keys, self.progress = tuple(keys), progress
        self._batch, self._ask_made_by = batch, made_by
        self._states: dict[str, TrainingState] = {}
        self._changed = False
        self._believed: bytes | None = None

    @cached_property
    def _made_by(self) -> Mapping[str, Any]:
        return self._ask_made_by()

    @property
    def raised(self) -> BaseException | None:
        """The exception that `CheckpointSettings.emit` raised; None where it raised none."""
        return self._batch.raised

    @property
    def is_due(self) -> bool:
        """See `Checkpoint.is_due`."""
        return self._batch.is_due

    def tell(self) -> None:
        """Emits the notes on the fits of the batch."""
        self._batch.tell()

    def begin(self) -> Progress:
        """Loads the fit's latest checkpoint, unless it has to be refused; returns the progress stored in it.

        Returns `NOT_BEGUN` where there is none, or it was refused.
        """
        self._states, self._changed = {}, False
        content = self._batch.latest(self.keys)
        if content is None:
            return NOT_BEGUN
        try:
            saved = decode(content, self._made_by)
        except CheckpointRefused as refused:
            self.refuse(str(refused))
            return NOT_BEGUN
        self._states = dict(saved.states)
        if content is not self._believed:
            self._believed = content
            step = saved.progress.step
            self._batch.note(
                self.keys, f"continuing from step {step}" if step else "continuing from before its first step"
            )
        return saved.progress

    def refuse(self, reason: str) -> bool:
        """Drops the fit's checkpoint, with a note; returns False where there was none."""
        if self._batch.latest(self.keys) is None:
            return False
        self._batch.forget(self.keys)
        self._batch.note(
            self.keys, f"starting again from the beginning, as its checkpoint was refused: {shortened(plain(reason))}"
        )
        return True

    def found(self, training: str) -> TrainingState | None:
        """See `Checkpoint.found`."""
        return self._states.get(training)

    def put(self, training: str, state: TrainingState) -> None:
        """See `Checkpoint.put`."""
        self._states[training] = state
        self._changed = True

    def write(self) -> None:
        """See `Checkpoint.write`."""
        self._batch.write()

    def changed(self) -> bytes | None:
        """Returns the checkpoint to write; None where no state was put since the last call."""
        if not self._changed:
            return None
        self._changed = False
        return encode(Saved(progress=self.progress(), states=self._states), self._made_by)


def encode(saved: Saved, made_by: Mapping[str, Any]) -> bytes:
    """Returns a checkpoint as bytes: a digest and the arrays as safetensors."""
    from safetensors.numpy import save  # noqa: PLC0415 - few fits run long enough to need it

    progress = saved.progress
    arrays: dict[str, np.ndarray] = {
        "curve/steps": np.array([step for step, _ in progress.curve], np.int64),
        "curve/scores": np.array([score for _, score in progress.curve], np.float64),
    }
    for number, state in enumerate(saved.states.values()):
        arrays.update(with_prefix(str(number), state.arrays))
    about = {
        "made_by": dict(made_by),
        "step": progress.step,
        "wall_s": progress.wall_s,
        "trainings": [[name, state.ended] for name, state in saved.states.items()],
    }
    arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    body = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return _digest(body) + body


def decode(content: bytes, made_by: Mapping[str, Any]) -> Saved:
    """Returns the content of a checkpoint.

    Args:
        made_by: what the fit's numbers depend on (`made_by`); the checkpoint must have the same.

    Raises:
        CheckpointRefused: the content is damaged, is no checkpoint, or was made with another `made_by`.
    """
    body = content[_DIGEST_BYTES:]
    if content[:_DIGEST_BYTES] != _digest(body):
        raise CheckpointRefused("it is damaged, or is no checkpoint")
    from safetensors import SafetensorError  # noqa: PLC0415 - as above
    from safetensors.numpy import load  # noqa: PLC0415

    try:
        arrays = load(body)
        about = json.loads(checked_array(arrays, _ABOUT, (None,), np.uint8).tobytes())
        other = {name: value for name, value in made_by.items() if about["made_by"].get(name) != value}
        if other:
            name = next(iter(other))
            raise CheckpointRefused(
                f"it was made with another {name}: {about['made_by'].get(name)} in place of {other[name]}"
            )
        steps = checked_array(arrays, "curve/steps", (None,), np.int64).tolist()
        scores = checked_array(arrays, "curve/scores", (len(steps),)).tolist()
        return Saved(
            progress=Progress(
                step=int(about["step"]), curve=list(zip(steps, scores, strict=True)), wall_s=float(about["wall_s"])
            ),
            states={
                str(name): TrainingState(arrays=without_prefix(arrays, str(number)), ended=bool(ended))
                for number, (name, ended) in enumerate(about["trainings"])
            },
        )
    except CheckpointRefused:
        raise
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointRefused(f"it is no checkpoint: {type(error).__name__}") from error


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def made_by(spec: TrialSpec, model: type[Any], device: str, curve_spec: CurveSpec) -> dict[str, Any]:
    """Returns what the numbers of a fit depend on, by name; a checkpoint for which any of it differs is refused.

    Args:
        spec: of the fit's first trial.
        device: torch device of the fit; only its kind counts.
    """
    return {
        "format": FORMAT,
        "trial": spec.key,
        "code of the models": f"{_code_of_models()} {_code_of(_file_of(model))}",
        **{f"version of {name}": _version(name) for name in _LIBRARIES},
        "kind of device": device.partition(":")[0],
        "learning curve": [curve_spec.metric, curve_spec.every],
    }


@cache
def _code_of_models() -> str:
    """Returns a digest of all files of `crowdsweep.models`."""
    folder = Path(crowdsweep.models.__file__ or "").parent
    found = blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _file_of(model: type[Any]) -> str:
    return getattr(sys.modules.get(model.__module__), "__file__", None) or ""


@cache
def _code_of(file: str) -> str:
    """Returns a digest of a model's file, which may be a plug-in's; empty where it cannot be read."""
    try:
        return blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
    except OSError:
        return ""


@cache
def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
