"""What is counted of answers, a chunk of annotators after another, is what loops over single answers count."""

from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.arrays import normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling import leave_one_out
from crowdsweep.labelling import questions as asked
from crowdsweep.labelling.questions import Questions, questions_of
from crowdsweep.labelling.temperature import said_by

N_ITEMS, N_PEOPLE, N_CLASSES = 12, 7, 4


def answers(soft: bool) -> Annotations:
    random = np.random.default_rng(3)
    size = 60
    return Annotations.of(
        item=random.integers(N_ITEMS, size=size),
        annotator=random.choice([0, 1, 2, 4, 6], size=size),
        label=random.integers(N_CLASSES, size=size),
        weight=random.random(size) + 0.5,
        probability=random.uniform(0.6, 1.0, size) if soft else None,
        n_items=N_ITEMS,
        n_annotators=N_PEOPLE,
        n_classes=N_CLASSES,
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("entries", [1, 40, 4_000_000])
def test_counts_are_those_of_loops(monkeypatch: pytest.MonkeyPatch, soft: bool, entries: int) -> None:
    monkeypatch.setattr(leave_one_out, "CHUNK_ENTRIES", entries)
    rows, random = answers(soft), np.random.default_rng(0)
    questions = questions_of(rows, normalised_rows(random.random((N_ITEMS, N_CLASSES))), multilabel=False)
    matrix = normalised_rows(random.random((N_PEOPLE, N_CLASSES, N_CLASSES)))
    parts = list(leave_one_out.leave_one_out_answers(questions, lambda code: matrix[code])())
    assert [code for part in parts for code in part.code.tolist()] == [0, 1, 2, 4, 6]
    assert len(parts) == (1 if entries == 4_000_000 else 5 if entries == 1 else len(parts))
    for part in parts:
        counted = part.counts()
        expected = np.zeros_like(counted)
        for row in range(len(part.answer)):
            for given in range(N_CLASSES):
                is_it = np.array([float(part.answer[row] == given)])
                (share,) = said_by(part.certainty[row : row + 1], is_it, N_CLASSES)
                expected[part.place[row], :, given] += part.weight[row] * share * part.others[row]
        np.testing.assert_allclose(counted, expected, rtol=1e-12)


def test_what_others_say_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, random = answers(soft=False), np.random.default_rng(0)
    questions = questions_of(rows, normalised_rows(random.random((N_ITEMS, N_CLASSES))), multilabel=False)
    matrix = normalised_rows(random.random((N_PEOPLE, N_CLASSES, N_CLASSES)))
    found: list[np.ndarray] = []
    for entries in (1, 4_000_000):
        monkeypatch.setattr(leave_one_out, "CHUNK_ENTRIES", entries)
        chunks = leave_one_out.leave_one_out_answers(questions, lambda code: matrix[code])()
        found.append(np.concatenate([part.others for part in chunks]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_few_annotators_with_many_answers_are_summed_at_once_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    columns = {"item": N_ITEMS, "annotator": N_PEOPLE, "label": N_CLASSES}  # repeats of a pair among them
    codes = {name: random.integers(size, size=500) for name, size in columns.items()}
    rows = Annotations.of(**codes, n_items=N_ITEMS + 1, n_annotators=N_PEOPLE + 2, n_classes=N_CLASSES)
    questions = questions_of(rows, normalised_rows(random.random((N_ITEMS + 1, N_CLASSES))), multilabel=False)
    matrix = normalised_rows(random.random((N_PEOPLE + 2, N_CLASSES, N_CLASSES)))
    assert questions.plain
    one_by_one = replace(questions, weight=np.ones(500))
    assert not one_by_one.plain
    at_once, summed = Questions.sums_of_cells, list[Questions]()
    monkeypatch.setattr(Questions, "sums_of_cells", lambda own, table: (summed.append(own), at_once(own, table))[1])
    one, other = (leave_one_out.answers_alone(one, lambda code: matrix[code]) for one in (questions, one_by_one))
    np.testing.assert_array_equal(one, other)
    assert summed == [questions]
    monkeypatch.setattr(asked, "chunks", lambda n, _: (slice(start, min(start + 7, n)) for start in range(0, n, 7)))
    np.testing.assert_array_equal(leave_one_out.answers_alone(questions, lambda code: matrix[code]), one)
