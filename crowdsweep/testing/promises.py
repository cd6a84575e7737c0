"""The table of the model contract's checks; `check` adds a function to it."""

from collections.abc import Callable
from dataclasses import dataclass

from crowdsweep.models import registered
from crowdsweep.models.contract import ModelInfo

Run = Callable[[ModelInfo], None]


@dataclass(frozen=True)
class Check:
    """One named promise of the contract.

    Attributes:
        name: what `ModelInfo.waived` says.
        applies: whether a model makes the promise at all.
        run: raises AssertionError where the model breaks it.
    """

    name: str
    applies: Callable[[ModelInfo], bool]
    run: Callable[[ModelInfo], object]

    def __call__(self, name: str) -> None:
        """Checks one model."""
        self.run(registered.model_info(name))


CHECKS: dict[str, Check] = {}


def always(_: ModelInfo) -> bool:
    """Applies to every model."""
    return True


def check(applies: Callable[[ModelInfo], bool] = always) -> Callable[[Run], Run]:
    """Registers a check under its function's name."""

    def register(run: Run) -> Run:
        CHECKS[run.__name__] = Check(run.__name__, applies, run)
        return run

    return register
