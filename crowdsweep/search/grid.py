"""The grid searcher: proposes every point of a finite space once, in a fixed order."""

from collections.abc import Iterator, Sequence
from typing import Any, final

from crowdsweep.record.spec import canonical_json
from crowdsweep.search.contract import Proposal, check_next
from crowdsweep.search.space import Space


@final
class GridPoints:
    """Searcher that lists the points of a finite space; values have no influence on later proposals."""

    def __init__(self, space: Space, limit: int) -> None:
        """Starts at the first point.

        Args:
            space: a finite space.
            limit: largest number of proposals.

        Raises:
            SpaceError: the space is not finite.
        """
        self._points: Iterator[dict[str, Any]] = space.enumerate()
        self._limit = limit
        self._n_proposed = 0
        self._asked: set[str] = set()

    def ask(self) -> Proposal | None:
        """Returns the next point that has not been proposed; None at the limit or the end of the space."""
        if self._n_proposed >= self._limit:
            return None
        for point in self._points:
            if canonical_json(point) not in self._asked:
                proposal = Proposal(number=self._n_proposed, point=point)
                self.adopt(proposal)
                return proposal
        return None

    def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
        """Does nothing: the proposals do not depend on values."""

    def adopt(self, proposal: Proposal) -> None:
        """Records the next proposal as an earlier driver made it.

        Raises:
            ValueError: its number is not the next one.
        """
        check_next(proposal, self._n_proposed)
        self._n_proposed += 1
        self._asked.add(canonical_json(proposal.point))
