"""Features of texts by their words: term frequencies, weighted down where many texts have the word (TF-IDF).

A word's weight is (1 + ln f) · (1 + ln((1 + n) / (1 + d))) for f occurrences in this text and d texts out of n that
have it; rows have length one. Words are runs of letters and digits in lower case. Only texts of training items say
which words there are, those that occur in two texts or more, the most frequent ones where there are more than
`MOST_WORDS` (ties in alphabetical order), and how much each weighs: other texts are read by these alone. Nothing is
drawn.
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
_FEWEST_TEXTS = 2  # that have a word


def tfidf(texts: Sequence[str], trains: np.ndarray, where: str) -> ItemFeatures:
    """Returns the weights of at most `MOST_WORDS` words in each text.

    Args:
        texts: of all items.
        trains: bool [items], which of them train.
        where: for messages.

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
    """Returns the words that features are made of, in alphabetical order."""
    counter = CountVectorizer(min_df=min(_FEWEST_TEXTS, len(texts)), token_pattern=_WORDS)
    try:
        found: Any = counter.fit_transform(texts)
    except ValueError as error:  # no word is left
        raise DataError(
            f"{where}: expected training texts that have words in common, found none in {len(texts)} texts"
        ) from error
    words, counts = counter.get_feature_names_out(), np.asarray(found.sum(axis=0)).ravel()
    return sorted(words[np.argsort(-counts, kind="stable")[:MOST_WORDS]].tolist())
