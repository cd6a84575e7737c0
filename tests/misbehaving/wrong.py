"""Majority vote, but for seed 1: that one hands over something else, or does something that a model should not do."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Shy:
    def __array__(self, *_: Any) -> Any:
        raise OSError("not for you")


class Predictor:
    uses: Any = ("p",)

    def __init__(self, uses: Any = ("p",)) -> None:
        self.uses = uses

    def predict(self, items: Any, use: str) -> Any:
        return None


class Annotators:
    n_annotators = 1

    def confusion(self, annotators: Any) -> Any:
        return np.ones((1, 1))

    def global_confusion(self) -> Any:
        return None


def _raise(error: BaseException) -> None:
    raise error


def _hang_in_c() -> None:
    """Waits for what never comes, deaf to every signal that can be blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    threading.Event().wait()


def _spin() -> None:
    while True:
        pass


def _close_files() -> None:
    for number in range(3, 200):
        with suppress(OSError):
            os.close(number)


def _fork_and_stay() -> None:
    if os.fork() == 0:
        time.sleep(300)
        os._exit(0)


def _disturb() -> None:
    np.seterr(all="raise")
    sys.setrecursionlimit(sys.getrecursionlimit() - 100)


ACTS: Mapping[str, Callable[[FitContext], object]] = {
    "exit": lambda _: sys.exit(3),
    "hard_exit": lambda _: os._exit(3),
    "segfault": lambda _: ctypes.string_at(0),
    "terminate_parent": lambda _: os.kill(os.getppid(), signal.SIGTERM),
    "terminate": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "generator_exit": lambda _: _raise(GeneratorExit()),
    "keyboard_interrupt": lambda _: _raise(KeyboardInterrupt()),
    "unspeakable": lambda _: _raise(Unspeakable()),
    "endless_text": lambda _: _raise(ValueError("m" * 5_000_000)),
    "strange_text": lambda _: _raise(ValueError("\ud800 \x00 \x1b[31m \u202e")),
    "sleep": lambda _: time.sleep(3600),
    "spin": lambda _: _spin(),
    "hang_in_c": lambda _: _hang_in_c(),
    "close_files": lambda _: _close_files(),
    "fork": lambda _: os.fork(),
    "fork_and_stay": lambda _: _fork_and_stay(),
    "disturb": lambda _: _disturb(),
    "print": lambda _: print("x" * 1000),
}
RETURNS: Mapping[str, Callable[[FitResult], Any]] = {
    "none": lambda _: None,
    "list": lambda _: [1, 2],
    "probs_none": lambda good: _with(good, item_probs=None),
    "probs_text": lambda good: _with(good, item_probs=good.item_probs.astype("<U1")),
    "probs_short": lambda good: _with(good, item_probs=good.item_probs[:-1]),
    "probs_negative": lambda good: _with(good, item_probs=good.item_probs * 0 + _row(good, -0.5, 1.5)),
    "probs_doubled": lambda good: _with(good, item_probs=good.item_probs * 0 + _row(good, 1.0, 0.9)),
    "objective_text": lambda good: _with(good, objective="high"),
    "objective_table": lambda good: _with(good, objective=np.ones((2, 2))),
    "iterations": lambda good: _with(good, iterations="many"),
    "extras": lambda good: _with(good, extras=[1]),
    "shy_extra": lambda good: _with(good, extras={"shy": Shy()}),
    "predictor": lambda good: _with(good, predictor=7),
    "predictor_uses": lambda good: _with(good, predictor=Predictor((1, 2))),
    "predictions": lambda good: _with(good, predictor=Predictor()),
    "annotators": lambda good: _with(good, annotators="all"),
    "confusion": lambda good: _with(good, annotators=Annotators()),
    "label_probs": lambda good: _with(good, label_probs=lambda item, annotator: np.ones((1, 1))),
}


def _with(good: FitResult, **parts: Any) -> FitResult:
    """Changes a result behind the back of whoever checks types where it is made."""
    for name, part in parts.items():
        object.__setattr__(good, name, part)
    return good


def _row(good: FitResult, *first: float) -> np.ndarray:
    row = np.zeros(good.item_probs.shape[1])
    row[: len(first)] = first
    return row


@final
@dataclass(frozen=True, kw_only=True)
class Wrong:
    how: str = "none"
    every: bool = False

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        good = FitResult(item_probs=data.annotations.label_distribution())
        if not self.every and context.seeds.seed != 1:
            return good
        if self.how in ACTS:
            ACTS[self.how](context)
            return good
        return RETURNS[self.how](good)


MODEL = ModelInfo(
    name="wrong",
    title="Majority vote that goes wrong",
    model=Wrong,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
