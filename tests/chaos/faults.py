"""What a fault is, and the list of all kinds; each kind registers itself in the file of its group.

A fault is handed a sweep that has not begun and random numbers of its own; it runs the sweep and strikes, or puts a
record in its place and damages that, and returns where it hit. What must hold then is no business of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from chaos.sandbox import Sandbox

Strike = Callable[[Sandbox, Random], str]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One kind of fault.

    Attributes:
        kind: its name.
        draws: how many of a hundred faults are of it.
        strike: does it.
        on_ray: whether it needs a cluster.
    """

    kind: str
    draws: int
    strike: Strike
    on_ray: bool = False


FAULTS: dict[str, Fault] = {}


def fault(kind: str, *, draws: int, on_ray: bool = False) -> Callable[[Strike], Strike]:
    """Registers the function below as a kind of fault."""

    def register(strike: Strike) -> Strike:
        FAULTS[kind] = Fault(kind=kind, draws=draws, strike=strike, on_ray=on_ray)
        return strike

    return register


def rows_in_words(box: Sandbox) -> str:
    """Returns where in the record a fault has hit."""
    return f"row {box.rows()}"
