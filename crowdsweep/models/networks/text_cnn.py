"""A convolutional network on texts (Kim 2014): vectors of symbols, filters along them, the largest answer of each.

Its symbols are words or characters; a pair of texts (`text`, `text_b`) is read as one, with a mark between. Vectors are
learned with the rest, from the training texts alone.

Papers that the platform rebuilds read texts by networks of this kind, deeper or wider than pays on a thousand tweets:
Weerasooriya, Ororbia and Homan stack three layers of convolution and pooling over GloVe vectors; Fornaciari et al. read
characters through filters of width 5 and one layer of attention.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, final

from annotated_types import Ge, Lt, MinLen

from crowdsweep.data.dataset import Items
from crowdsweep.models.contract import Need
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Masks, in_blocks
from crowdsweep.models.networks.initial import glorot_uniform, normal, zeros
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.texts import (
    BETWEEN,
    PADDING,
    Codes,
    Tokens,
    Vocabulary,
    embedded,
    max_over_time,
    padded,
    symbols_of,
    texts_of,
)
from crowdsweep.models.networks.values import Values

VECTOR_SCALE = 0.1  # of the vectors' first values


@final
@dataclass(frozen=True, kw_only=True)
class TextCNN:
    """Hyper-parameters of the convolutional network on texts.

    Attributes:
        network: `text_cnn`.
        tokens: what a text is read by: words (tweets), or characters (single words).
        vocabulary: the most symbols that are known, the most frequent ones of the training texts.
        longest: how many symbols of a text are read, from its beginning.
        embedding: length of a symbol's vector.
        widths: widths of the filters, in symbols.
        filters: number of filters of each width.
        dropout: share of hidden units dropped in training.
    """

    network: Literal["text_cnn"] = "text_cnn"
    tokens: Tokens = "words"
    vocabulary: Annotated[int, Ge(1)] = 20_000
    longest: Annotated[int, Ge(1)] = 200
    embedding: Annotated[int, Ge(1)] = 64
    widths: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = (3, 4, 5)
    filters: Annotated[int, Ge(1)] = 64
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5

    def needs(self) -> frozenset[Need]:
        return frozenset({"text"})

    def build(self, items: Items, n_classes: int) -> "TextCNNNetwork":
        """Returns the network whose vocabulary is these items'."""
        texts = [symbols_of(text, self.tokens) for text in [*texts_of(items), *(items.text_b or ())]]
        return TextCNNNetwork(settings=self, vocabulary=Vocabulary.of(texts, self.vocabulary), n_classes=n_classes)


@final
@dataclass(frozen=True, kw_only=True)
class TextCNNNetwork:
    """The network, with the vocabulary that it reads by.

    Attributes:
        vocabulary: of the training texts.
    """

    settings: TextCNN
    vocabulary: Vocabulary
    n_classes: int
    _encoded: "dict[tuple[Sequence[str] | None, ...], Codes]" = field(default_factory=dict, compare=False, repr=False)

    @property
    def dropouts(self) -> list[Dropout]:
        """A mask on the filters' largest answers."""
        if not self.settings.dropout:
            return []
        return [Dropout(name="dropout answers", shape=(self._answers,), probability=self.settings.dropout)]

    @property
    def row_size(self) -> int:
        """For a text of some forty symbols."""
        return 40 * max(self.settings.widths) * self.settings.embedding

    @property
    def _answers(self) -> int:
        return len(self.settings.widths) * self.settings.filters

    def layout(self, items: Items) -> None:
        """Returns None: a row is an item."""

    def inputs(self, items: Items) -> Codes:
        """Returns the codes of each text's symbols; encoded once for the same texts."""
        texts = (tuple(texts_of(items)), None if items.text_b is None else tuple(items.text_b))
        if texts not in self._encoded:
            tokens, longest = self.settings.tokens, self.settings.longest
            rows = [self.vocabulary.codes(symbols_of(text, tokens))[:longest] for text in texts[0]]
            if texts[1] is not None:
                second = [self.vocabulary.codes(symbols_of(text, tokens)) for text in texts[1]]
                rows = [[*one, BETWEEN, *other][:longest] for one, other in zip(rows, second, strict=True)]
            self._encoded[texts] = padded(rows)
        return self._encoded[texts]

    def parameters(self) -> list[Parameter]:
        """The symbols' `vectors`, `filters w` of each width w with their `bias w`, and the weights `w` and `b` of the
        classes."""
        settings = self.settings
        found = [
            Parameter(name="vectors", shape=(self.vocabulary.size, settings.embedding), start=normal(VECTOR_SCALE))
        ]
        for place, width in enumerate(settings.widths):
            shape = (width * settings.embedding, settings.filters)
            found.append(Parameter(name=f"filters {place}", shape=shape, start=glorot_uniform))
            found.append(Parameter(name=f"bias {place}", shape=(1, settings.filters), start=zeros))
        found.append(Parameter(name="w", shape=(self._answers, self.n_classes), start=glorot_uniform))
        return [*found, Parameter(name="b", shape=(1, self.n_classes), start=zeros)]

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        inputs = inputs.expand(len(values["b"]), -1, -1)
        signal = embedded(values["vectors"], inputs)
        read = (inputs != PADDING).to(signal.dtype)
        answers = torch.cat(
            [
                max_over_time(signal, read, values[f"filters {place}"], values[f"bias {place}"])
                for place in range(len(self.settings.widths))
            ],
            dim=2,
        )
        if masks is not None and self.settings.dropout:
            answers = answers * (masks.kept("dropout answers") / (1.0 - self.settings.dropout))
        return torch.baddbmm(values["b"], answers, values["w"]).transpose(1, 2)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        return in_blocks(self, values, inputs)
