"""A tagger: each token of a sentence read in its sentence, which stays whole.

A token is its word's vector beside what filters find in its characters. Along the sentence run two recurrent networks
(GRU, Cho et al. 2014), one from either end; a token's two states, beside what attention gathers from the whole
sentence, decide about its class. Reference: Fornaciari et al. (NAACL 2021), the network for part-of-speech tags.

Deviations: characters are read by filters, not by a second recurrent network's last state; states are those of GRUs,
not LSTMs, and fewer; attention goes over the sentence (theirs is given the target word alone, where it does nothing);
vectors are learned from the training tokens alone, without GloVe.

**Replicas** are stacked throughout: filters as one grouped convolution, the two directions of all replicas as one chain
of batched products. Only the places of a sentence are stepped through one after the other. (torch's own recurrent
layers hold one set of weights and cannot be stacked.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge, Lt
from jaxtyping import Float, Int64, Shaped

from crowdsweep.data.dataset import Items
from crowdsweep.models.contract import Need
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Layout, Masks, in_blocks
from crowdsweep.models.networks.initial import glorot_uniform, normal, zeros
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.text_cnn import VECTOR_SCALE
from crowdsweep.models.networks.texts import PADDING, Vocabulary, embedded, max_over_time, padded, texts_of
from crowdsweep.models.networks.values import Values

LONGEST_TOKEN = 20  # characters that are read of a token
WINDOW = 3  # characters that a filter sees

TokenCodes = Int64[np.ndarray, "rows places codes"]
States = Float[torch.Tensor, "replicas rows places _"]
Read = Float[torch.Tensor, "replicas rows places"]


@final
@dataclass(frozen=True, kw_only=True)
class Tagger:
    """Hyper-parameters of the tagger; a batch is of `batch_size` sentences.

    Attributes:
        network: `tagger`.
        vocabulary: the most words that are known, in lower case; the most frequent ones of the training tokens.
        embedding: length of a word's vector.
        characters: length of a character's vector, and the number of filters on characters.
        state: width of each recurrent network's state, and of attention's queries.
        dropout: share of hidden units dropped in training.
    """

    network: Literal["tagger"] = "tagger"
    vocabulary: Annotated[int, Ge(1)] = 20_000
    embedding: Annotated[int, Ge(1)] = 64
    characters: Annotated[int, Ge(1)] = 32
    state: Annotated[int, Ge(1)] = 64
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5

    def needs(self) -> frozenset[Need]:
        return frozenset({"text"})

    def build(self, items: Items, n_classes: int) -> "TaggerNetwork":
        """Returns the network whose vocabularies are these tokens'."""
        tokens = texts_of(items)
        return TaggerNetwork(
            settings=self,
            words=Vocabulary.of([[token.lower() for token in tokens]], self.vocabulary),
            letters=Vocabulary.of(tokens, self.vocabulary),
            longest=max(1, _layout(items).shape[1]),
            n_classes=n_classes,
        )


@final
@dataclass(frozen=True, kw_only=True)
class TaggerNetwork:
    """The network, with the vocabularies that it reads by.

    Attributes:
        words, letters: of the training tokens.
        longest: tokens of the longest training sentence, which dropout masks are as long as.
    """

    settings: Tagger
    words: Vocabulary
    letters: Vocabulary
    longest: int
    n_classes: int
    _encoded: dict[tuple[Sequence[str], bytes], TokenCodes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dropouts(self) -> list[Dropout]:
        """A mask on each token before the recurrent networks, and one on what attention leaves."""
        if not self.settings.dropout:
            return []
        return [
            Dropout(name="dropout tokens", shape=(self.longest, self._token), probability=self.settings.dropout),
            Dropout(
                name="dropout states", shape=(self.longest, 4 * self.settings.state), probability=self.settings.dropout
            ),
        ]

    @property
    def row_size(self) -> int:
        return self.longest * LONGEST_TOKEN * self.settings.characters

    @property
    def _token(self) -> int:
        return self.settings.embedding + self.settings.characters

    def layout(self, items: Items) -> Layout:
        """Returns the tokens of each sentence, in order; an item that stands in no unit is a sentence of its own."""
        return _layout(items)

    def inputs(self, items: Items) -> TokenCodes:
        """Returns for each place of each sentence the word's code and those of its characters; encoded once for equal
        sentences."""
        layout = _layout(items)
        key = (tuple(texts_of(items)), layout.tobytes())
        if key not in self._encoded:
            words = np.array(self.words.codes(token.lower() for token in key[0]), np.int64)
            letters = padded([self.letters.codes(token[:LONGEST_TOKEN]) for token in key[0]], WINDOW)
            codes = np.concatenate([words[:, None], letters], axis=1)
            self._encoded[key] = np.where((layout >= 0)[:, :, None], codes[layout], PADDING)
        return self._encoded[key]

    def parameters(self) -> list[Parameter]:
        """Vectors of `words` and `letters`, the filters `find`, of each direction what it reads and keeps, attention's
        `query` and `key`, and the weights `w` and `b` of the classes."""
        settings, state = self.settings, self.settings.state
        found = [
            Parameter(name="words", shape=(self.words.size, settings.embedding), start=normal(VECTOR_SCALE)),
            Parameter(name="letters", shape=(self.letters.size, settings.characters), start=normal(VECTOR_SCALE)),
            Parameter(name="find", shape=(WINDOW * settings.characters, settings.characters), start=glorot_uniform),
            Parameter(name="find bias", shape=(1, settings.characters), start=zeros),
        ]
        for way in ("forth", "back"):
            found.append(Parameter(name=f"{way} read", shape=(self._token, 3 * state), start=glorot_uniform))
            found.append(Parameter(name=f"{way} keep", shape=(state, 3 * state), start=glorot_uniform))
            found.append(Parameter(name=f"{way} read bias", shape=(1, 3 * state), start=zeros))
            found.append(Parameter(name=f"{way} keep bias", shape=(1, 3 * state), start=zeros))
        found += [Parameter(name=name, shape=(2 * state, state), start=glorot_uniform) for name in ("query", "key")]
        found.append(Parameter(name="w", shape=(4 * state, self.n_classes), start=glorot_uniform))
        return [*found, Parameter(name="b", shape=(1, self.n_classes), start=zeros)]

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """See `Network.logits`; a column for each place of each sentence."""
        kept = 1.0 / (1.0 - self.settings.dropout)
        inputs = inputs.expand(len(values["b"]), -1, -1, -1)
        tokens = self._tokens(values, inputs)
        read = (inputs[..., 0] != PADDING).to(tokens.dtype)
        if masks is not None and self.settings.dropout:
            tokens = tokens * (masks.kept("dropout tokens") * kept)
        states = _both_ways(values, tokens, read)
        found = torch.cat([states, _attended(values, states, read)], dim=3)
        if masks is not None and self.settings.dropout:
            found = found * (masks.kept("dropout states") * kept)
        return torch.baddbmm(values["b"], found.flatten(1, 2), values["w"]).transpose(1, 2)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        return in_blocks(self, values, inputs)

    def _tokens(self, values: Values, inputs: Shaped[torch.Tensor, "replicas rows places codes"]) -> States:
        """Returns each token's word vector beside what the filters find in its characters."""
        words, letters = embedded(values["words"], inputs[..., 0]), inputs[..., 1:].flatten(1, 2)
        signal = embedded(values["letters"], letters)
        within = (letters != PADDING).to(signal.dtype)
        found = max_over_time(signal, within, values["find"], values["find bias"])
        return torch.cat([words, found.view(*words.shape[:3], -1)], dim=3)


def _layout(items: Items) -> Layout:
    unit = np.arange(items.n_items) if items.unit is None else items.unit
    first = np.flatnonzero(np.diff(unit, prepend=-1))
    lengths = np.diff(first, append=items.n_items)
    place = np.arange(lengths.max(initial=1))
    return np.where(place < lengths[:, None], first[:, None] + place, -1).astype(np.int64)


def _both_ways(values: Values, tokens: States, read: Read) -> States:
    """Returns the states of the two recurrent networks at each token. A state stands still where a sentence is filled
    up, so that the one from the end begins at the last token."""
    n_replicas, _, places, _ = tokens.shape
    # The two directions as replicas of one network: a single loop over the places serves both.
    both = {
        name: torch.cat([values[f"forth {name}"], values[f"back {name}"]])
        for name in ("read", "keep", "read bias", "keep bias")
    }
    tokens, read = torch.cat([tokens, tokens.flip(2)]), torch.cat([read, read.flip(2)]).unsqueeze(3)
    given = torch.baddbmm(both["read bias"], tokens.flatten(1, 2), both["read"]).unflatten(1, tokens.shape[1:3])
    size = both["keep"].shape[1]
    state = tokens.new_zeros(*tokens.shape[:2], size)
    found: list[torch.Tensor] = []
    for place in range(places):
        own, kept = given[:, :, place], torch.baddbmm(both["keep bias"], state, both["keep"])
        gates = torch.sigmoid(own[..., : 2 * size] + kept[..., : 2 * size])
        reset, update = gates[..., :size], gates[..., size:]
        new = torch.tanh(own[..., 2 * size :] + reset * kept[..., 2 * size :])
        state = state + read[:, :, place] * (1.0 - update) * (new - state)
        found.append(state)
    states = torch.stack(found, dim=2)
    return torch.cat([states[:n_replicas], states[n_replicas:].flip(2)], dim=3)


def _attended(values: Values, states: States, read: Read) -> States:
    """Returns for each token the states of its sentence, weighed by how well its query fits their keys."""
    flat = states.flatten(1, 2)
    query, key = (torch.bmm(flat, values[name]).view(*states.shape[:3], -1) for name in ("query", "key"))
    fit = query @ key.transpose(2, 3) / key.shape[3] ** 0.5
    # Not minus infinity: of a row without any token the softmax would be NaN.
    weight = torch.softmax(fit.masked_fill(read.unsqueeze(2) == 0, -1e9), dim=3)
    return weight @ states
