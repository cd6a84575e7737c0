"""The network chosen by what the items have: `network: auto`."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

from annotated_types import Ge, Lt

from crowdsweep.data.dataset import Items
from crowdsweep.models.contract import Need
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.tagger import Tagger
from crowdsweep.models.networks.text_cnn import TextCNN


@final
@dataclass(frozen=True, kw_only=True)
class Auto:
    """Hyper-parameters of a network chosen by what the items have: `mlp` for features; for texts alone `text_cnn`, or
    `tagger` for tokens of sentences. Other hyper-parameters of these networks are at their defaults.

    Attributes:
        network: `auto`.
        hidden: widths of the hidden layers.
        dropout: share of hidden units dropped in training.
    """

    network: Literal["auto"] = "auto"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5

    def needs(self) -> frozenset[Need]:
        """Returns what it reads of items that are not known yet; see `needs_on`."""
        return frozenset({"features"})

    def needs_on(self, items: Items) -> frozenset[Need]:
        """Returns what is read of these items: texts only where there are no features."""
        return self.on(items).needs()

    def on(self, items: Items, *, sentences: bool = True) -> Dense | TextCNN | Tagger:
        """Returns the settings of the network for these items.

        Args:
            sentences: whether one may be chosen that reads whole sentences.
        """
        if items.features is not None or items.text is None:
            return self.dense
        if items.unit is not None and sentences:
            return Tagger(dropout=self.dropout)
        return TextCNN(dropout=self.dropout)

    @property
    def dense(self) -> Dense:
        """The settings where items have features."""
        return Dense(hidden=self.hidden, dropout=self.dropout)

    def build(self, items: Items, n_classes: int) -> Network:
        """Returns the network for these items."""
        return self.on(items).build(items, n_classes)
