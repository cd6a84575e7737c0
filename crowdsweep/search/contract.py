"""The contract of a searcher, which proposes points and receives their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from annotated_types import Ge

Goal = Literal["maximize", "minimize"]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Settings of the sampler, which proposes the points of a search.

    Attributes:
        kind: tpe and gp learn from earlier points, nsga2 from those of several objectives; random does not learn; grid
            lists every point of a finite space; auto chooses by the space and the number of points.
        seed: of the sampler's random numbers; the same seed proposes the same points.
        parallel: points of one search that may be open at once, where the sampler learns (for the other samplers there
            is no limit). With many slots to itself, a search ends sooner under a larger number. But it learns less,
            since it proposes points without the values of those that are still open. Searches run side by side, so
            several of them fill a cluster even with a small number. What a search proposes depends on this number, and
            never on how many slots there are: another number is another search.
        warm_start: earlier sweeps, given by the names of sweeps that ran here or the folders of their records. A search
            learns from their points of the same model on the same data before it begins; they count for nothing else.
    """

    kind: Literal["auto", "tpe", "gp", "nsga2", "random", "grid"] = "auto"
    seed: Annotated[int, Ge(0)] = 0
    parallel: Annotated[int, Ge(1)] = 4
    warm_start: Sequence[str] = ()

    @property
    def learns(self) -> bool:
        """Whether its proposals depend on the values of earlier points."""
        return self.kind not in ("grid", "random")


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A point to try: its number in the search (0, 1, …) and the values of the searched hyper-parameters."""

    number: int
    point: Mapping[str, Any]


def check_next(proposal: Proposal, number: int) -> None:
    """Checks that a proposal to be adopted is the next one.

    Raises:
        ValueError: the proposal has another number.
    """
    if proposal.number != number:
        raise ValueError(f"expected proposal {number}, the next one, got proposal {proposal.number}")


@runtime_checkable
class PointSearcher(Protocol):
    """Proposes the points of one search.

    It lives in the driver's memory; a later driver rebuilds it from the journal by `adopt` and `tell`. The driver calls
    `ask` while it has room for more points, and `tell` exactly once for each proposal, in any order.
    """

    def ask(self) -> Proposal | None:
        """Returns the next proposal; None where the space, or the limit of points, is exhausted."""
        ...

    def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
        """Records the values of a proposal.

        Args:
            value: its value in the metric's own units, not negated; None where the point failed.
            further: its values of the further objectives.
        """
        ...

    def adopt(self, proposal: Proposal) -> None:
        """Records the next proposal as an earlier driver made it, in place of `ask`.

        Raises:
            ValueError: its number is not the next one.
        """
        ...
