"""The line between a model's failures and our own bugs.

Whatever a model's code raises comes out of `guarded` as a `ModelFault`, which fails one trial: an exit, a
`GeneratorExit` and a `KeyboardInterrupt` of its own among them. What is raised anywhere else is a bug of ours and stops
the program.
"""

import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable
from traceback import format_exception
from typing import ParamSpec, TypeVar

import numpy as np

from crowdsweep.errors import Interrupted
from crowdsweep.record.result import Failure

MOST_CHARACTERS = 2_000
"""Of a failure's message; of its traceback four times as many."""
STRAY_FORK = 86
"""What a process exits with that a model forked and that came back out of the model's code."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class ModelFault(Exception):
    """A model's own code raised; `__cause__` is what it raised."""


def guarded(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Returns the function, all that it raises turned into `ModelFault`; only a person's interrupt passes as it is.

    A process that the function forked ends here: what comes after the call is for the process that made it. How numpy
    treats errors, and how deep calls may go, is afterwards what it was before.
    """

    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        process, depth = os.getpid(), sys.getrecursionlimit()
        try:
            with np.errstate():
                return function(*args, **kwargs)
        except BaseException as error:  # the one broad catch: a model may raise anything
            if _is_a_persons(error):
                raise
            raise ModelFault(text_of(error)) from error
        finally:
            if os.getpid() != process:
                os._exit(STRAY_FORK)
            if sys.getrecursionlimit() != depth:
                sys.setrecursionlimit(depth)

    return call


def failure_of(error: BaseException) -> Failure:
    """Returns the record of a failed trial, of bounded length and without control characters; of a `ModelFault`, that
    of its cause."""
    cause = error.__cause__ if isinstance(error, ModelFault) and error.__cause__ is not None else error
    return Failure(kind=legible(type(cause).__name__, 100), message=text_of(cause), traceback=_traceback_of(cause))


def text_of(error: BaseException) -> str:
    """Returns what an exception says, at most `MOST_CHARACTERS` of it."""
    try:
        return legible(str(error), MOST_CHARACTERS)
    except BaseException as worse:  # an exception of a model's own making may raise anything
        if _is_a_persons(worse):
            raise
        return f"what it says cannot be read: its text raised {legible(type(worse).__name__, 100)}"


def legible(text: str, most: int) -> str:
    """Returns a text as it can be written anywhere: the middle of a long one is left out, and what no line of text
    holds (control characters other than line breaks and tabs, lone surrogates, marks that turn its direction) is
    written as its code."""
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"
    return "".join(character if _is_plain(character) else _code(character) for character in text)


def _traceback_of(cause: BaseException) -> str:
    try:
        return legible("".join(format_exception(cause)), 4 * MOST_CHARACTERS)
    except BaseException as worse:  # as above: the texts of all that led to it are asked for
        if _is_a_persons(worse):
            raise
        return ""


def _is_a_persons(error: BaseException) -> bool:
    """Whether an exception can be a Ctrl-C: ours, or one that Python's own handler makes of the signal."""
    return isinstance(error, Interrupted) or (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _is_plain(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
