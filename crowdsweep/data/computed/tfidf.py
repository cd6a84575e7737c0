"""Features of texts by their words: term frequencies, with less weight for words that many texts have (TF-IDF).

A word's weight is (1 + ln f) · (1 + ln((1 + n) / (1 + d))) for f occurrences in this text and d out of n texts that
have the word; rows have length one. Words are runs of letters and digits in lower case. Only the texts of training
items decide the vocabulary and the weights. The vocabulary holds the words that occur in at least two of these texts,
at most the `MOST_WORDS` most frequent ones (ties in alphabetical order). Other texts are read by these words alone.
Nothing is random.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data import bounds
from crowdsweep.errors import DataError

VERSION = 1
MOST_WORDS = 1000
_WORDS = r"(?u)\b\w+\b"
_FEWEST_TEXTS = 2  # training texts that must have a word


def tfidf(texts: Sequence[str], trains: np.ndarray, where: str) -> ItemFeatures:
    """Returns the weights of at most `MOST_WORDS` words in each text.

    Args:
        trains: bool [items], mask of the training items.

    Raises:
        DataError: the training texts have no word in common.
    """
    known = [texts[int(item)] for item in np.flatnonzero(trains)]
    words = _words_of(known, where)
    bounds.check_numbers((len(texts), len(words)), where, "take fewer items")
    vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=words, token_pattern=_WORDS)
    weights: Any = vectorizer.fit(known).transform(texts)
    return np.ascontiguousarray(weights.astype(np.float32).toarray())


def _words_of(texts: Sequence[str], where: str) -> list[str]:
    """Returns the vocabulary, in alphabetical order."""
    counter = CountVectorizer(min_df=min(_FEWEST_TEXTS, len(texts)), token_pattern=_WORDS)
    try:
        found: Any = counter.fit_transform(texts)
    except ValueError as error:  # no word is left
        raise DataError(
            f"{where}: expected training texts that have words in common, found none in {len(texts)} texts"
        ) from error
    words, counts = counter.get_feature_names_out(), np.asarray(found.sum(axis=0)).ravel()
    return sorted(words[np.argsort(-counts, kind="stable")[:MOST_WORDS]].tolist())
