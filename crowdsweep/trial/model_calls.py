"""The line between a model's failures and our own bugs.

Whatever a model's code raises comes out of `guarded` as a `ModelFault`, which fails one trial. What is raised anywhere
else is a bug of ours and stops the program.
"""

from collections.abc import Callable
from traceback import format_exception
from typing import ParamSpec, TypeVar

from crowdsweep.trial.result import Failure

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class ModelFault(Exception):
    """A model's own code raised; `__cause__` is what it raised."""


def guarded(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Returns the function, its exceptions turned into `ModelFault`; an interrupt passes as it is."""

    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # the one broad catch: a model may raise anything
            raise ModelFault(str(error)) from error

    return call


def failure_of(error: BaseException) -> Failure:
    """Returns the record of a failed trial; of a `ModelFault`, that of its cause."""
    cause = error.__cause__ if isinstance(error, ModelFault) and error.__cause__ is not None else error
    return Failure(kind=type(cause).__name__, message=str(cause), traceback="".join(format_exception(cause)))
