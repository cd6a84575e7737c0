"""The sparse container keeps its promises whatever rows it is given."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import annotations

from crowdsweep.data.annotations import Annotations


def rows_of(rows):
    """Every row as a tuple, weights and probabilities included."""
    extras = [column for column in (rows.weight, rows.probability) if column is not None]
    return list(zip(*(c.tolist() for c in (rows.item, rows.annotator, rows.label, *extras)), strict=True))


@given(annotations(), st.randoms())
def test_the_order_of_rows_never_matters(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    order = np.array(order, dtype=np.int64)
    again = Annotations.of(
        item=rows.item[order],
        annotator=rows.annotator[order],
        label=rows.label[order],
        weight=None if rows.weight is None else rows.weight[order],
        probability=None if rows.probability is None else rows.probability[order],
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
    )
    assert rows_of(again) == rows_of(rows) == sorted(rows_of(rows))
    assert again.fingerprint() == rows.fingerprint()
    assert again.anonymised().fingerprint() == rows.anonymised().fingerprint()


@given(annotations())
def test_views_hold_every_row_once(rows):
    by_item = [rows_of(rows)[a:b] for a, b in zip(rows.item_pointers, rows.item_pointers[1:], strict=False)]
    assert [row for part in by_item for row in part] == rows_of(rows)
    assert all(row[0] == item for item, part in enumerate(by_item) for row in part)
    pointers = rows.annotator_pointers
    for annotator in range(rows.n_annotators):
        mine = rows.by_annotator[pointers[annotator] : pointers[annotator + 1]]
        assert mine.tolist() == [r for r in range(len(rows)) if rows.annotator[r] == annotator]
    assert rows.n_active_annotators == len(set(rows.annotator.tolist()))


@given(annotations())
def test_counts_are_the_sum_of_what_rows_say(rows):
    counts = np.zeros((rows.n_items, rows.n_classes))
    for row in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[row])
        certain = 1.0 if rows.probability is None else float(rows.probability[row])
        for code in range(rows.n_classes):
            says = certain if code == rows.label[row] else (1 - certain) / (rows.n_classes - 1)
            counts[rows.item[row], code] += weight * says
    assert np.allclose(rows.counts.toarray(), counts, atol=1e-6)
    shares = rows.label_distribution()
    assert np.allclose(shares.sum(axis=1), 1)
    empty = rows.labels_per_item == 0
    assert np.allclose(shares[empty], 1 / rows.n_classes)


@given(annotations(), st.data())
def test_taking_rows_keeps_them_and_the_sizes(rows, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    taken = rows.take(mask)
    assert rows_of(taken) == [row for row, kept in zip(rows_of(rows), mask, strict=True) if kept]
    assert (taken.n_items, taken.n_annotators, taken.n_classes) == (rows.n_items, rows.n_annotators, rows.n_classes)
    assert taken.fingerprint() == rows.take(np.flatnonzero(mask)).fingerprint()


@given(annotations(), st.data())
def test_rows_of_items_are_recoded_in_the_order_given(rows, data):
    items = np.array(
        data.draw(st.permutations(range(rows.n_items)).map(lambda p: p[: len(p) // 2 + 1])), dtype=np.int32
    )
    part = rows.of_items(items)
    expected = Counter((int(np.flatnonzero(items == row[0])[0]), *row[1:]) for row in rows_of(rows) if row[0] in items)
    assert Counter(rows_of(part)) == expected
    assert part.n_items == len(items)


@given(annotations())
def test_the_global_view_knows_labels_and_not_who_gave_them(rows):
    anonymous = rows.anonymised()
    assert anonymous.annotator.tolist() == list(range(len(rows)))
    assert anonymous.n_annotators == len(rows)
    assert Counter((r[0], *r[2:]) for r in rows_of(anonymous)) == Counter((r[0], *r[2:]) for r in rows_of(rows))
    # Annotators renamed at random give the same view.
    renamed = Annotations.of(
        item=rows.item,
        annotator=rows.n_annotators - 1 - rows.annotator,
        label=rows.label,
        weight=rows.weight,
        probability=rows.probability,
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
    )
    assert renamed.anonymised().fingerprint() == anonymous.fingerprint()
