"""Labels in the form of the LeWiDi shared task (2025): a file for each split, with a line for each item, its id and a
list.

lewidi-test-soft.tsv    3944 <tab> [0.1, 0.2, 0.0, 0.7]     share of annotators who choose each class
lewidi-test-pe.tsv      3944 <tab> [4, 4, 1]                answer of each of its annotators, in the file's order

Classes are in the order of `classes.csv`. For items with several classes (VariErrNLI), the first file has a pair [no,
yes] for each class. The second file then has a list for each class, with 1 for each annotator who chooses it. The task
asks for the names `CSC_test_soft.tsv` and `CSC_test_pe.tsv`, in one zip archive.

Shares are the model's own probabilities, as a sweep's metrics score them, not calibrated to be right. An annotator's
answer is the most probable one, given these shares and the annotator's confusion matrix. If a model knows no
annotators, there is no `pe` file.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.data.dataset import SPLITS, CrowdDataset
from crowdsweep.labelling.exports.items import shown_of
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.labelled import Labelled

_DECIMALS = 10
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_CHUNK = 1 << 12  # answers whose confusion matrices are held at once


def lewidi(labelled: Labelled) -> dict[str, bytes]:
    """Returns the files of all splits that have items to which the model gives probabilities."""
    dataset = labelled.dataset
    places = np.flatnonzero(~np.isnan(labelled.raw).any(axis=1))
    answers = _answers(labelled, places.tolist()) if labelled.fitted.knows_annotators else {}
    files: dict[str, bytes] = {}
    for number, split in enumerate(SPLITS):
        own = [place for place in places.tolist() if dataset.split[labelled.code[place]] == number]
        ids = _ids(dataset, labelled.code[own], split)
        stem = f"lewidi-{split}" if number else "lewidi"
        if own:
            soft = [_soft(labelled.raw[place], several=dataset.scale == "multilabel") for place in own]
            files[f"{stem}-soft.tsv"] = _lines(ids, soft)
        if any(place in answers for place in own):
            files[f"{stem}-pe.tsv"] = _lines(ids, [answers.get(place, "[]") for place in own])
    return files


def _soft(probs: Float64[np.ndarray, " classes"], *, several: bool) -> str:
    """Returns a distribution as JSON whose written digits sum to one."""
    rounded = probs.round(_DECIMALS)
    if several:
        return json.dumps([[round(1.0 - p, _DECIMALS), p] for p in rounded.tolist()])
    rounded[rounded.argmax()] += 1.0 - rounded.sum()
    return json.dumps(rounded.round(_DECIMALS).tolist())


def _answers(labelled: Labelled, places: Sequence[int]) -> dict[int, str]:
    """Returns the answers of each item's annotators, by the item's place among the labelled items."""
    dataset = labelled.dataset
    asked = _asked(dataset)
    pairs = [(place, who) for place in places for who in asked.get(int(labelled.code[place]), [])]
    found: dict[int, list[Any]] = {}
    for start in range(0, len(pairs), _CHUNK):
        chunk = np.array(pairs[start : start + _CHUNK], dtype=np.int64)
        said = _likeliest(labelled.raw[chunk[:, 0]], chunk[:, 1], labelled.fitted)
        for place, answer in zip(chunk[:, 0].tolist(), said, strict=True):
            found.setdefault(place, []).append(answer)
    if dataset.scale == "multilabel":
        return {place: json.dumps(list(zip(*answers, strict=True))) for place, answers in found.items()}
    classes = [int(label) if _WHOLE.fullmatch(label) else label for label in dataset.class_labels]
    return {place: json.dumps([classes[one] for one in answers]) for place, answers in found.items()}


def _likeliest(
    probs: Float64[np.ndarray, "answers classes"], who: Int64[np.ndarray, " answers"], fitted: Fitted
) -> list[Any]:
    """Returns the most probable class of each answer; for multi-label data, 1 or 0 for each class. Answers of unknown
    annotators (-1) follow the item's own probabilities."""
    several = fitted.dataset.scale == "multilabel"
    known = who >= 0
    annotators, place = np.unique(who[known], return_inverse=True)
    said = probs.copy()
    if len(annotators):
        matrices = fitted.confusion(annotators.astype(np.int32))[place]
        own = probs[known]
        if several:
            said[known] = own * matrices[..., 1, 1] + (1.0 - own) * matrices[..., 0, 1]
        else:
            said[known] = np.einsum("at,ato->ao", own, matrices)
    return (said > 0.5).astype(int).tolist() if several else said.argmax(axis=1).tolist()


def _asked(dataset: CrowdDataset) -> dict[int, list[int]]:
    """Returns, by item number, the annotators who were asked, whether or not their answer is known. They are those that
    the file lists, else those who answered."""
    number = {name: place for place, name in enumerate(dataset.annotator_names)}
    found: dict[int, list[int]] = {}
    rows = dataset.annotations
    for item, who in zip(rows.item.tolist(), rows.annotator.tolist(), strict=True):
        people = found.setdefault(item, [])
        if who not in people[-1:]:  # sorted by annotator; several classes are several rows
            people.append(who)
    known = shown_of(dataset)
    for item, name in enumerate(dataset.item_names):
        listed = known.get(name, {}).get("annotators")
        if isinstance(listed, list) and listed:
            found[item] = [number.get(str(who), -1) for who in listed]
    return found


def _ids(dataset: CrowdDataset, code: np.ndarray, split: str) -> list[str]:
    """Returns the ids as they were in the file. Where the splits' files use the same ids, imports put the split before
    each id; that prefix is removed."""
    names = [dataset.item_names[int(one)] for one in code]
    before = f"{split}-"
    return [name.removeprefix(before) for name in names] if all(name.startswith(before) for name in names) else names


def _lines(ids: Iterable[str], lists: Iterable[str]) -> bytes:
    return "".join(f"{name}\t{told}\n" for name, told in zip(ids, lists, strict=True)).encode()
