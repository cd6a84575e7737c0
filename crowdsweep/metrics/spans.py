"""F1 of spans (names, chunks) in sequences, by exact matches, as the CoNLL tasks score it.

Tags are names of classes: `O` outside, `B-x` the first token of a span of type x, `I-x` a further one. Where no span of
that type goes on, `I-x` begins one too. That is the rule of the tasks' `conlleval`; it reads IOB1, IOB2 and whatever a
model makes of them. A span ends before the first token that does not go on with it, and with its unit.

Tjong Kim Sang & De Meulder, "Introduction to the CoNLL-2003 Shared Task", CoNLL 2003, section 3: a span is found if its
type, first and last token are right.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int32, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.metrics.items import TIE_TOLERANCE, f1_of_each


def are_span_tags(class_names: Sequence[str]) -> bool:
    """Whether classes are tags of spans: each is `O`, or `B-` or `I-` and a type, and not all are `O`."""
    tagged = [name for name in class_names if name != "O"]
    return bool(tagged) and all(name[:2] in ("B-", "I-") and len(name) > 2 for name in tagged)


def span_f1(
    reference: ItemProbs, predicted: ItemProbs, unit: Int32[np.ndarray, " items"], class_names: Sequence[str]
) -> float:
    """Returns the F1 of exactly matching spans over all units together, in [0, 1]; 0 where neither side has a span.

    A token's tag is its most probable class. Of classes that tie it is the one with the lowest code: a tie changes
    whole spans, and no closed form gives what it is worth on average.

    Args:
        reference: of tokens, in order.
        predicted: of the same tokens.
        unit: that each token stands in; tokens of a unit stand together.
        class_names: tags (`are_span_tags`).
    """
    wanted, given = (_spans(probs, unit, class_names) for probs in (reference, predicted))
    found = len(np.intersect1d(wanted, given, assume_unique=True))
    return 2.0 * found / max(len(wanted) + len(given), 1)


def span_f1_of_each(
    reference: ItemProbs, predicted: ItemProbs, unit: Int32[np.ndarray, " items"], class_names: Sequence[str]
) -> Float64[np.ndarray, " items"]:
    """Returns for each token what it is to `span_f1` (`items.f1_of_each`), whose mean they have.

    Units are what another sample would have others of: what the spans of a unit are to the score stands at its first
    token, and its other tokens are nothing to it.
    """
    wanted, given = (_spans(probs, unit, class_names) for probs in (reference, predicted))
    if not len(wanted) + len(given):
        return np.zeros(len(unit))
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(unit))))
    per_span = len(unit) * len({name[2:] for name in class_names})
    matched = np.intersect1d(wanted, given, assume_unique=True)
    both, one, other = (
        np.bincount(number[spans // per_span], minlength=len(starts)).astype(np.float64)
        for spans in (matched, wanted, given)
    )
    of_units = f1_of_each(both[:, None], (one + other)[:, None])
    found = np.full(len(unit), of_units.mean())
    found[starts] += (of_units - of_units.mean()) * len(unit) / len(starts)
    return found


def _spans(
    probs: ItemProbs, unit: Int32[np.ndarray, " items"], class_names: Sequence[str]
) -> Int64[np.ndarray, " spans"]:
    """Returns one number for each span, equal for spans that match: its first and last token and its type."""
    types = sorted({name[2:] for name in class_names})
    inside_class = np.array([name != "O" for name in class_names])
    first_class = np.array([name.startswith("B-") for name in class_names])
    type_of_class = np.array([types.index(name[2:]) for name in class_names])
    tag = (probs >= probs.max(axis=1, keepdims=True) - TIE_TOLERANCE).argmax(axis=1)
    inside, type_ = inside_class[tag], type_of_class[tag]
    goes_on = inside & ~first_class[tag]
    goes_on[:1] = False
    goes_on[1:] &= inside[:-1] & (type_[1:] == type_[:-1]) & (unit[1:] == unit[:-1])
    first = np.flatnonzero(inside & ~goes_on)
    last = np.flatnonzero(inside & ~np.append(goes_on[1:], False))
    return (first * len(tag) + last) * len(types) + type_[first]
