"""The networks on texts against the same mathematics with explicit loops, a text and a token at a time."""

from collections.abc import Mapping

import numpy as np
import torch

from crowdsweep.data.dataset import Items
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.replicas import ReplicaStack
from crowdsweep.models.networks.tagger import Tagger
from crowdsweep.models.networks.text_cnn import TextCNN
from crowdsweep.models.networks.values import Values
from crowdsweep.seeds import SeedStream

One = Mapping[str, np.ndarray]
TEXTS = ["the old dog barks", "the cat", "", "an old old cat sees the dog and barks"]
SENTENCES = [["The", "dog", "barks"], ["Dog"], ["the", "old", "dog", "x"]]


def started(network: Network, n_replicas: int = 2) -> tuple[Values, list[One]]:
    """Returns values of replicas, biases among them drawn too, and each replica's own in float64."""
    stack = ReplicaStack.start(network.parameters(), [SeedStream(seed) for seed in range(n_replicas)], "cpu")
    stack.flat += 0.1 * torch.from_numpy(np.random.default_rng(0).standard_normal(stack.flat.shape).astype(np.float32))
    own = [{name: array.astype(np.float64) for name, array in stack.values_of(s).items()} for s in range(n_replicas)]
    return Values(stack.prefix(n_replicas).values), own


def filtered(vectors: list[np.ndarray], filters: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Returns each filter's largest answer, at least zero, of windows that begin at a symbol."""
    window = len(filters) // (vectors[0].size if vectors else 1)
    best = np.zeros(filters.shape[1])
    for start in range(len(vectors)):
        answer = bias[0].copy()
        for offset in range(window):
            if start + offset < len(vectors):
                width = vectors[0].size
                answer += vectors[start + offset] @ filters[offset * width : (offset + 1) * width]
        best = np.maximum(best, answer)
    return best


def test_text_cnn_is_filters_along_the_words() -> None:
    settings = TextCNN(embedding=5, widths=(2, 3), filters=4, dropout=0.0)
    items = Items(n_items=4, text=TEXTS)
    network = settings.build(items, 3)
    values, owns = started(network)
    found = network.logits(values, torch.from_numpy(network.inputs(items))[None], None).numpy()
    known = {word: 3 + place for place, word in enumerate(network.vocabulary.symbols)}
    assert list(known) == ["old", "the", "barks", "cat", "dog"]  # three times, three times, twice: ties by alphabet
    for own, replica in zip(owns, found, strict=True):
        for text, logits in zip(TEXTS, replica.T, strict=True):
            vectors = [own["vectors"][known.get(word, 1)] for word in text.split()]
            answers = [filtered(vectors, own[f"filters {i}"], own[f"bias {i}"]) for i in range(2)]
            np.testing.assert_allclose(logits, np.concatenate(answers) @ own["w"] + own["b"][0], atol=1e-5)


def test_a_pair_is_read_as_one_text_with_a_mark_between() -> None:
    items = Items(n_items=2, text=["abba", "bb"], text_b=["ab", "c"])
    network = TextCNN(tokens="characters", longest=6).build(items, 2)
    b, a = network.vocabulary.codes("ba")
    assert network.vocabulary.symbols == ("b", "a")
    assert network.inputs(items).tolist() == [[a, b, b, a, 2, a], [b, b, 2, 1, 0, 0]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def run(tokens: list[np.ndarray], own: One, way: str) -> list[np.ndarray]:
    """A gated recurrent network, token by token."""
    size = own[f"{way} keep"].shape[0]
    state, states = np.zeros(size), []
    for token in tokens:
        given = token @ own[f"{way} read"] + own[f"{way} read bias"][0]
        kept = state @ own[f"{way} keep"] + own[f"{way} keep bias"][0]
        reset, update = sigmoid(given[:size] + kept[:size]), sigmoid(given[size : 2 * size] + kept[size : 2 * size])
        new = np.tanh(given[2 * size :] + reset * kept[2 * size :])
        state = update * state + (1 - update) * new
        states.append(state)
    return states


def tagged(sentence: list[str], own: One, words: dict[str, int], letters: dict[str, int]) -> np.ndarray:
    tokens = []
    for token in sentence:
        characters = [own["letters"][letters.get(letter, 1)] for letter in token]
        found = filtered(characters, own["find"], own["find bias"])
        tokens.append(np.concatenate([own["words"][words.get(token.lower(), 1)], found]))
    forth, back = run(tokens, own, "forth"), run(tokens[::-1], own, "back")[::-1]
    states = [np.concatenate(pair) for pair in zip(forth, back, strict=True)]
    logits = []
    for state in states:
        fits = np.array([(state @ own["query"]) @ (other @ own["key"]) for other in states])
        fits /= np.sqrt(own["key"].shape[1])
        weights = np.exp(fits) / np.exp(fits).sum()
        gathered = sum(weight * other for weight, other in zip(weights, states, strict=True))
        logits.append(np.concatenate([state, gathered]) @ own["w"] + own["b"][0])
    return np.array(logits)


def test_the_tagger_reads_each_sentence_by_itself_from_both_ends() -> None:
    tokens = [token for sentence in SENTENCES for token in sentence]
    unit = np.repeat(np.arange(3), [len(sentence) for sentence in SENTENCES]).astype(np.int32)
    items = Items(n_items=len(tokens), text=tokens, unit=unit)
    network = Tagger(embedding=5, characters=4, state=3, dropout=0.0).build(items, 2)
    assert network.words.symbols == ("dog", "the")
    words, letters = (
        {symbol: 3 + place for place, symbol in enumerate(known.symbols)} for known in (network.words, network.letters)
    )
    assert network.layout(items).tolist() == [[0, 1, 2, -1], [3, -1, -1, -1], [4, 5, 6, 7]]
    values, owns = started(network)
    found = network.logits(values, torch.from_numpy(network.inputs(items))[None], None).numpy()
    for own, replica in zip(owns, found, strict=True):
        by_place = replica.T.reshape(3, 4, 2)
        for sentence, logits in zip(SENTENCES, by_place, strict=True):
            np.testing.assert_allclose(logits[: len(sentence)], tagged(sentence, own, words, letters), atol=1e-5)
