"""What millions of labels, or thousands of classes, take in memory: arrays that are held once, and no tables beside."""

import resource
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.arrays import ItemProbs, sparse_zeros
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, TrainingData
from crowdsweep.data.thinning import keep_for_fit, pairs_of
from crowdsweep.labelling.crowd_tables import crowd_tables
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import Labelled, labelled_items
from crowdsweep.labelling.questions import questions_of
from crowdsweep.labelling.tables import answers_table, labels_table, probabilities_table
from crowdsweep.models._stacked import stack
from crowdsweep.models.aggregate import one_coin
from crowdsweep.models.aggregate.one_coin import OneCoin
from crowdsweep.models.contract import FitContext
from crowdsweep.seeds import SeedStream

N_ROWS = 300_000
N_MANY = 2_000  # items, and classes


def peak_of(make: Callable[[], object]) -> int:
    """Returns how many bytes more were held at a time than before."""
    tracemalloc.start()
    try:
        make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def answers(n_rows: int, n_items: int, n_classes: int) -> Annotations:
    random = np.random.default_rng(0)
    columns = {"item": n_items, "annotator": 500, "label": n_classes}
    codes = {name: random.integers(size, size=n_rows, dtype=np.int32) for name, size in columns.items()}
    return Annotations.of(**codes, n_items=n_items, n_annotators=500, n_classes=n_classes)


def test_rows_are_sorted_summed_and_asked_about_in_place() -> None:
    rows = answers(N_ROWS, N_ROWS // 10, 5)
    backwards = {name: getattr(rows, name)[::-1].copy() for name in ("item", "annotator", "label")}
    sizes = {"n_items": rows.n_items, "n_annotators": 500, "n_classes": 5}
    # 12 bytes a row are the result, 8 the integer that says all of a row.
    assert peak_of(lambda: Annotations.of(**backwards, **sizes)) < 26 * N_ROWS
    assert peak_of(lambda: stack([rows])) < 20 * N_ROWS
    assert peak_of(lambda: rows.by_annotator) < 12 * N_ROWS
    assert peak_of(lambda: keep_for_fit(rows, 0.1, np.random.default_rng(0), pairs_of(rows))) < 40 * N_ROWS
    assert peak_of(lambda: rows.counts) < 24 * N_ROWS
    assert rows.of_items(np.arange(rows.n_items)) is rows
    assert rows.take(np.ones(N_ROWS, dtype=bool)) is rows
    questions = questions_of(rows, np.empty((rows.n_items, 5)), multilabel=False)
    assert questions.question is rows.item


def dataset(rows: Annotations) -> CrowdDataset:
    """Returns a dataset whose first hundred items have gold, so that nothing need be held out."""
    item = np.arange(100, dtype=np.int32)
    return CrowdDataset(
        name="many",
        annotations=rows,
        items=Items(n_items=rows.n_items),
        split=np.zeros(rows.n_items, dtype=np.int8),
        gold=Gold(item=item, label=item),
        item_names=[f"i{n}" for n in range(rows.n_items)],
        annotator_names=[f"a{n}" for n in range(rows.n_annotators)],
        class_names=tuple(f"c{n}" for n in range(rows.n_classes)),
    )


def test_labels_of_very_many_classes_take_one_table_of_items_and_classes() -> None:
    rows = answers(5 * N_MANY, N_MANY, N_MANY)
    data = dataset(replace(rows, item=np.repeat(np.arange(N_MANY, dtype=np.int32), 5)))
    data.annotations.counts  # noqa: B018 - is part of the data

    def label() -> None:
        fitted = fit_everything("majority-vote", {}, data, {})
        labelled = labelled_items(fitted)
        labels_table(labelled), answers_table(labelled), crowd_tables(labelled)
        probabilities_table(labelled), probabilities_table(labelled, raw=True)

    labels_table(labelled_items(fit_everything("majority-vote", {}, data, {})))  # what is imported late
    assert peak_of(label) < 1.75 * 8 * N_MANY**2


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_what_is_said_does_not_depend_on_the_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dataset(answers(900, 150, 120))
    rest = replace(data, annotations=data.annotations.take(data.annotations.item > 20))  # 21 have gold alone
    labelled = labelled_items(fit_everything("majority-vote", {}, rest, {}))
    whole = labelled.probs
    monkeypatch.setattr(Labelled, "pieces", lambda _: (slice(n, min(n + piece, 150)) for n in range(0, 150, piece)))
    np.testing.assert_array_equal(np.concatenate([labelled.at(part) for part in labelled.pieces()]), whole)
    np.testing.assert_array_equal(labelled.of_items(np.array([140, 3, 99])), whole[[140, 3, 99]])
    np.testing.assert_array_equal(whole[:100], np.eye(120)[:100])
    assert np.isnan(labelled.model_at(np.arange(21))).all()
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)
    table = labels_table(labelled)
    assert table["labelled_by"].to_pylist() == ["gold"] * 100 + ["annotations"] * 50
    np.testing.assert_array_equal(table["probability"].to_numpy(), whole.max(axis=1))
    given = np.bincount(rest.annotations.item, minlength=150)
    best = whole.argmax(axis=1)
    agree = [int((rest.annotations.label[rest.annotations.item == n] == best[n]).sum()) for n in range(150)]
    assert table["answers"].to_pylist() == given.tolist()
    assert table["agreement"].to_pylist() == [a / n if n else None for a, n in zip(agree, given.tolist(), strict=True)]


def test_one_coin_of_very_many_classes_holds_no_table_while_it_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = answers(5 * N_MANY, N_MANY, N_MANY)
    data = TrainingData(annotations=rows, items=Items(n_items=rows.n_items))
    fits: list[ItemProbs] = []
    context = FitContext(seeds=SeedStream(0))

    def fit() -> None:
        fits.append(OneCoin(iterations=3).fit_batch([data], [context])[0].item_probs)

    assert peak_of(fit) < 0.5 * 8 * N_MANY**2
    monkeypatch.setattr(one_coin, "_MANY", N_MANY)
    fit()
    np.testing.assert_allclose(fits[0], fits[1], rtol=0, atol=1e-18)


def test_zeros_that_nobody_writes_take_no_memory() -> None:
    table = sparse_zeros((4_000, 4_000), written=10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not table.any()
    table[3, 5] = 0.5
    assert np.argwhere(table).tolist() == [[3, 5]]
    assert table.sum() == 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB, of 128,000
    assert sparse_zeros((3, 4), written=12).tolist() == [[0.0] * 4] * 3
