"""Counts, agreement and oddities, against hand-made cases and published figures."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse as sp
from scipy.sparse.csgraph import connected_components

from crowdsweep.data import oddities
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import CrowdDataset, Gold, Items
from crowdsweep.data.describe import describe, describe_text, krippendorff_alpha, mean_annotator_accuracy
from crowdsweep.data.oddities import find_oddities


def dataset(rows: list[tuple[int, int, int]], n_items: int, n_annotators: int, n_classes: int, gold=()) -> CrowdDataset:
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    annotations = Annotations.of(
        item=table[:, 0],
        annotator=table[:, 1],
        label=table[:, 2],
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    pairs = np.array(gold, dtype=np.int32).reshape(-1, 2)
    return CrowdDataset(
        name="hand-made",
        annotations=annotations,
        items=Items(n_items=n_items),
        split=np.zeros(n_items, dtype=np.int8),
        gold=Gold(item=pairs[:, 0].copy(), label=pairs[:, 1].copy()),
        item_names=[f"i{i}" for i in range(n_items)],
        annotator_names=[f"a{t}" for t in range(n_annotators)],
        class_names=tuple(f"c{k}" for k in range(n_classes)),
    )


# The reliability data of Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers,
# twelve units, missing values as None. He prints nominal .743, ordinal .815.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
KRIPPENDORFF = [
    (unit, observer, value - 1)
    for observer, values in enumerate(OBSERVERS)
    for unit, value in enumerate(values)
    if value is not None
]


@pytest.mark.parametrize(("ordinal", "printed"), [(False, 0.743), (True, 0.815)])
def test_alpha_equals_the_published_example(ordinal: bool, printed: float) -> None:
    annotations = dataset(KRIPPENDORFF, 12, 4, 5).annotations
    assert krippendorff_alpha(annotations, ordinal=ordinal) == pytest.approx(printed, abs=5e-4)


def test_alpha_of_agreement_is_one_and_of_one_class_absent() -> None:
    agreed = dataset([(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)], 2, 2, 2).annotations
    assert krippendorff_alpha(agreed) == pytest.approx(1.0)
    assert krippendorff_alpha(dataset([(0, 0, 0), (0, 1, 0)], 1, 2, 2).annotations) is None
    assert krippendorff_alpha(dataset([(0, 0, 0), (1, 1, 1)], 2, 2, 2).annotations) is None


def test_annotator_accuracy_is_the_plain_mean_over_annotators_who_met_gold() -> None:
    rows = [(0, 0, 0), (1, 0, 1), (2, 0, 1), (0, 1, 1), (3, 2, 0)]
    found = mean_annotator_accuracy(dataset(rows, 4, 4, 2, gold=[(0, 0), (1, 1), (2, 0)]))
    assert found == pytest.approx((2 / 3 + 0) / 2)


def test_bluebirds_looks_as_published(shared_data) -> None:
    from crowdsweep.data.catalogue import load

    found = describe(load(str(shared_data / "bluebirds"), {}))
    assert found["annotations"] == 4212
    assert found["labels_per_item"] == {"min": 39, "median": 39.0, "mean": 39.0, "max": 39}
    assert found["annotator_accuracy"] == pytest.approx(0.6356, abs=5e-5)


@pytest.mark.parametrize(("name", "printed"), [("jobs-q1", 0.746), ("jobs-q2", 0.586), ("jobs-q3", 0.993)])
def test_label_entropy_of_jobs_is_as_printed(shared_data, name: str, printed: float) -> None:
    from crowdsweep.data.catalogue import load

    assert describe(load(str(shared_data / name), {}))["label_entropy"] == pytest.approx(printed, abs=0.02)


def test_every_oddity_is_found_and_named() -> None:
    rows = [
        (0, 0, 0), (0, 0, 0), (0, 1, 1), (0, 1, 0), (1, 0, 1), (1, 1, 1),
        (2, 2, 1), (2, 3, 1), (3, 3, 1),
    ]  # fmt: skip
    found = {oddity.kind: oddity for oddity in find_oddities(dataset(rows, 5, 5, 3))}
    assert found["pairs of item and annotator with the same label again"].examples == ("i0 by a0",)
    assert found["pairs of item and annotator with different labels"].examples == ("i0 by a1",)
    assert found["annotators that share no item with the largest group"].examples == ("a2", "a3")
    assert found["annotators with one label"].examples == ("a2",)
    assert found["annotators with no label"].examples == ("a4",)
    assert found["annotators who use one class only"].examples == ("a3",)
    assert found["classes that no annotator used"].examples == ("c2",)
    assert found["items without a label"].examples == ("i4",)


def test_nothing_odd_about_a_tidy_dataset() -> None:
    rows = [(i, t, (i + t) % 2) for i in range(4) for t in range(3)]
    assert find_oddities(dataset(rows, 4, 3, 2)) == []


def test_an_empty_dataset_can_be_described() -> None:
    found = describe(dataset([], 3, 0, 2))
    assert found["annotations"] == 0
    assert "label_entropy" not in found
    assert "annotations" in describe_text(found)


def test_multilabel_answers_are_counted_as_answers() -> None:
    chosen = np.array([[True, True, False], [False, False, False], [True, False, False]])
    rows = annotations_of(chosen, item=np.array([0, 0, 1]), annotator=np.array([0, 1, 0]), n_items=2, n_annotators=2)
    data = replace(dataset([], 2, 2, 3), annotations=rows, scale="multilabel")
    found = describe(data)
    assert (found["answers"], found["annotations"], found["annotated_items"]) == (3, 3, 2)
    assert found["class_counts"] == [2, 1, 0]
    assert found["active_annotators"] == 2
    assert "label_entropy" not in found
    odd = {oddity.kind: oddity for oddity in find_oddities(data)}
    assert odd["answers that chose no class"].examples == ("i0 by a1",)
    assert odd["classes that no annotator used"].examples == ("c2",)
    assert "annotators with no label" not in odd


def test_units_are_counted() -> None:
    tokens = dataset([(0, 0, 0), (1, 0, 1), (2, 0, 1)], 3, 1, 2)
    tokens = replace(tokens, items=Items(n_items=3, unit=np.array([0, 0, 1], dtype=np.int32)))
    assert describe(tokens)["units"] == 2


@pytest.mark.parametrize("n_rows", [30, 60, 90])
def test_groups_of_annotators_are_those_of_one_graph_of_all_rows(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oddities, "_PIECE", 1)  # then as many rows at a time as there are annotators
    random = np.random.default_rng(n_rows)
    rows = np.column_stack(
        [random.integers(60, size=n_rows), random.integers(40, size=n_rows), random.integers(3, size=n_rows)]
    )
    data = dataset([tuple(row) for row in rows.tolist()], 60, 40, 3)
    graph = sp.coo_array((np.ones(n_rows), (rows[:, 0], rows[:, 1] + 60)), shape=(100, 100))
    group = connected_components(graph, directed=False)[1][60:]
    active = np.unique(rows[:, 1])
    sizes = np.bincount(group[active])
    found = {odd.kind: odd for odd in find_oddities(data)}
    apart = found.get("annotators that share no item with the largest group")
    assert (0 if apart is None else apart.count) == len(active) - sizes.max()
    if apart is not None and (sizes == sizes.max()).sum() == 1:
        assert (
            apart.examples
            == tuple(data.annotator_names[code] for code in active if sizes[group[code]] < sizes.max())[:5]
        )
    one_class = [len(set(rows[rows[:, 1] == code, 2])) == 1 < (rows[:, 1] == code).sum() for code in range(40)]
    only = found.get("annotators who use one class only")
    assert (0 if only is None else only.count) == sum(one_class)
