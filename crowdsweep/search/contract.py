"""The contract of a searcher: it proposes points and receives their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from annotated_types import Ge

Goal = Literal["maximize", "minimize"]
SamplerKind = Literal["tpe", "gp", "nsga2", "random", "grid"]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How points are proposed.

    Attributes:
        kind: tpe and gp learn from earlier points, nsga2 from those of several objectives; random does not; grid lists
            a finite space whole; auto takes what fits the space and the number of points.
        seed: of the sampler's random numbers; the same seed proposes the same points.
        parallel: points of one search that may be open at once, where the sampler learns (the others may have all of
            theirs open). With many slots to itself, a search ends sooner under a larger number, and learns less from
            each point, as it has to guess at those that are still open. Searches run beside each other, so that many of
            them fill a cluster as it is. What a search proposes depends on this number, and never on how many slots
            there are: another number is another search.
        warm_start: earlier sweeps, whose points of the same model on the same data a search is told before it begins:
            names of sweeps that ran here, or the folders of their records. They count for nothing else.
    """

    kind: Literal["auto", "tpe", "gp", "nsga2", "random", "grid"] = "auto"
    seed: Annotated[int, Ge(0)] = 0
    parallel: Annotated[int, Ge(1)] = 4
    warm_start: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A point to try: its number in the search (0, 1, …) and the searched parameters."""

    number: int
    point: Mapping[str, Any]


def check_next(proposal: Proposal, number: int) -> None:
    """Checks that a proposal which is to be adopted is the one with this number.

    Raises:
        ValueError: the proposal has another number.
    """
    if proposal.number != number:
        raise ValueError(f"expected proposal {number}, the next one, got proposal {proposal.number}")


@runtime_checkable
class PointSearcher(Protocol):
    """Proposes the points of one search. Lives in the driver's memory; rebuilt from the journal by `adopt` and `tell`.

    The driver calls `ask` while it has room, and `tell` exactly once for each proposal, in any order.
    """

    def ask(self) -> Proposal | None:
        """Returns the next point, or None where the space is exhausted."""
        ...

    def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
        """Takes a proposal's value (in the metric's own units, not negated) and those of the further objectives; None
        where the point failed."""
        ...

    def adopt(self, proposal: Proposal) -> None:
        """Takes the next proposal as an earlier driver had it, in place of `ask`.

        Raises:
            ValueError: its number is not the next one.
        """
        ...
