"""Calls of models' code: separates a model's failures from bugs of crowdsweep.

`guarded` turns whatever a model's code raises into a `ModelFault`, which fails one trial; this includes `SystemExit`,
`GeneratorExit` and a `KeyboardInterrupt` that the model raises itself. An exception raised anywhere else is a bug of
crowdsweep and ends the program.
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
"""Length limit of a failure's message; that of its traceback is four times as large."""
STRAY_FORK = 86
"""Exit code of a process that a model forked and that returned from the model's code."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class ModelFault(Exception):
    """A model's own code raised an exception, which is the `__cause__`."""


def guarded(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Returns a wrapper of the function that raises `ModelFault` for every exception but the user's interrupt.

    A process that the function forked exits when the call returns there: the code after the call is for the original
    process only. After the call, numpy's error handling and the recursion limit are what they were before it.
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
    """Returns the failure for an exception (of a `ModelFault`: for its cause).

    Its texts have a bounded length and no control characters.
    """
    cause = error.__cause__ if isinstance(error, ModelFault) and error.__cause__ is not None else error
    return Failure(kind=legible(type(cause).__name__, 100), message=text_of(cause), traceback=_traceback_of(cause))


def text_of(error: BaseException) -> str:
    """Returns an exception's message, shortened to about `MOST_CHARACTERS` and without control characters."""
    try:
        return legible(str(error), MOST_CHARACTERS)
    except BaseException as worse:  # `__str__` of a model's own exception class may raise anything
        if _is_a_persons(worse):
            raise
        return f"what it says cannot be read: its text raised {legible(type(worse).__name__, 100)}"


def legible(text: str, most: int) -> str:
    """Returns a text that can be written anywhere.

    The middle of a text of more than `most` characters is left out. Control characters other than line breaks and tabs,
    lone surrogates and format characters (such as those that change the writing direction) are replaced by escapes.
    """
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"
    return "".join(character if _is_plain(character) else _code(character) for character in text)


def _traceback_of(cause: BaseException) -> str:
    try:
        return legible("".join(format_exception(cause)), 4 * MOST_CHARACTERS)
    except BaseException as worse:  # as above, for any exception in the chain
        if _is_a_persons(worse):
            raise
        return ""


def _is_a_persons(error: BaseException) -> bool:
    """Whether an exception can come from Ctrl-C: crowdsweep's `Interrupted`, or one that Python's handler can raise."""
    return isinstance(error, Interrupted) or (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _is_plain(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
