"""The references that the models of a dataset are scored against."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class References:
    """What one dataset's models are scored against.

    Attributes:
        gold: split that is scored → whether by gold; else by the items' own votes. A split that is not named counts as
            scored by gold.
        heldout: share of the annotations that report trials leave out of their fit.
    """

    gold: Mapping[str, bool] = field(default_factory=dict[str, bool])
    heldout: float = 0.0

    @property
    def only_own_votes(self) -> bool:
        """Whether nothing but the votes that trained says what training items are, and nothing else is scored."""
        return self.gold.get("train") is False and not self.gold.keys() & {"dev", "test"}
