"""Whatever the dataset and its parameters: nothing leaks, samples nest, and what is drawn is drawn again."""

from collections import Counter
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import annotations, datasets

from crowdsweep.data import thinning
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, Gold, Items
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError

params = st.fixed_dictionaries(
    {},
    optional={
        "scenario": st.sampled_from(("individual", "global")),
        "training": st.sampled_from(("split", "all")),
        "redundancy": st.integers(1, 3),
        "annotator_dropout": st.sampled_from((0.0, 0.3, 0.6)),
    },
)


def prepared(dataset, given_params, seed=0, fraction=0.0):
    try:
        return prepare(dataset, given_params, seed, fraction)
    except DataError:  # nothing to train on
        assume(False)


def counted(rows, items):
    """Rows as (item of the dataset, label), counted."""
    return Counter(zip(items[rows.item].tolist(), rows.label.tolist(), strict=True))


def items_that_train(data):
    """Codes of the training items of a marked dataset."""
    return data.training.items.features[:, 0].astype(np.int64)


def marked(dataset):
    """The dataset with one feature: each item's own code."""
    codes = np.arange(dataset.items.n_items, dtype=np.float32)[:, None]
    return replace(dataset, items=replace(dataset.items, features=codes))


@given(datasets(), params, st.sampled_from((0.0, 0.2, 0.7)))
def test_only_annotations_of_training_items_train(dataset, given_params, fraction):
    dataset = marked(dataset)
    data = prepared(dataset, given_params, fraction=fraction)
    items = items_that_train(data)
    answered = data.training.items.whole_units(data.training.annotations.labels_per_item > 0)
    assert answered.all(), "an item trains that has no annotation, nor has its unit"
    has_train = (dataset.split == SPLITS.index("train")).any()
    if given_params.get("training", "split" if has_train else "all") == "split":
        assert (dataset.split[items] == SPLITS.index("train")).all()
    kept = counted(data.training.annotations, items)
    if data.heldout is not None:
        assert data.heldout.n_annotators == data.training.annotations.n_annotators
        kept += counted(data.heldout, items)
    everything = counted(dataset.annotations, np.arange(dataset.items.n_items))
    assert not kept - everything
    if data.heldout is not None:
        assert (data.training.annotations.labels_per_item[data.heldout.item] >= 1).all()
    if not given_params.get("redundancy") and not given_params.get("annotator_dropout"):
        assert kept == Counter({key: n for key, n in everything.items() if key[0] in items})


@given(datasets(), params)
def test_evaluation_items_never_train_and_are_scored_against_gold_or_their_own_labels(dataset, given_params):
    dataset = marked(dataset)
    data = prepared(dataset, given_params)
    trained = set(items_that_train(data).tolist())
    gold = {}
    for item, label in zip(dataset.gold.item.tolist(), dataset.gold.label.tolist(), strict=True):
        gold.setdefault(item, set()).add(label)
    for name, part in data.evaluation.items():
        items = part.items.features[:, 0].astype(np.int64)
        if name == "train":
            assert set(items.tolist()) == trained
        else:
            assert not trained & set(items.tolist())
            assert (dataset.split[items] == SPLITS.index(name)).all()
        for row, item in enumerate(items[part.scored].tolist()):
            assert part.has_gold[row] == (item in gold)
            if item in gold:
                assert set(np.flatnonzero(part.reference[row]).tolist()) == gold[item]
                assert set(part.reference[row][part.reference[row] > 0].tolist()) == {1.0}
            else:
                own = dataset.annotations.of_items(np.array([item]))
                assert len(own)
                if dataset.scale != "multilabel":
                    assert part.reference[row] == pytest.approx(own.label_distribution()[0])
                else:
                    assert part.reference[row].min() >= 0
                    assert part.reference[row].max() <= 1
                    chosen = own.label if own.probability is None else own.label[own.probability > 0]
                    assert ((part.reference[row] > 0) == (np.bincount(chosen, minlength=own.n_classes) > 0)).all()


def reachable(value, seen=None):
    """Every record and array that can be reached from a value through attributes, tuples and mappings."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen
    seen[id(value)] = value
    if is_dataclass(value):
        for part in [getattr(value, f.name) for f in fields(value)] + list(vars(value).values()):
            reachable(part, seen)
    elif isinstance(value, dict):
        for part in value.values():
            reachable(part, seen)
    elif isinstance(value, list | tuple):
        for part in value:
            reachable(part, seen)
    elif isinstance(value, np.ndarray) and value.base is not None:
        reachable(value.base, seen)
    return seen


@given(datasets(), params)
def test_gold_changes_nothing_that_a_model_sees(dataset, given_params):
    data = prepared(dataset, given_params, fraction=0.2)
    assert not any(isinstance(part, Gold) for part in reachable(data.training).values())
    none = np.empty(0, dtype=np.int32)
    blind = prepare(replace(dataset, gold=Gold(item=none, label=none)), given_params, 0, 0.2)
    assert blind.training.annotations.fingerprint() == data.training.annotations.fingerprint()
    for one, other in (
        (blind.training.items, data.training.items),
        (blind.training.unlabelled, data.training.unlabelled),
    ):
        assert (one is None) == (other is None)
        if one is not None and one.features is not None:
            assert np.array_equal(one.features, other.features)
    assert (blind.training.validation is None) == (data.training.validation is None)
    if data.training.validation is not None:
        assert blind.training.validation.annotations.fingerprint() == data.training.validation.annotations.fingerprint()


@given(datasets(), params, st.integers(0, 5))
def test_one_seed_gives_one_trial(dataset, given_params, seed):
    first, again = (prepared(dataset, given_params, seed, 0.3) for _ in range(2))
    assert first.training.annotations.fingerprint() == again.training.annotations.fingerprint()
    assert first.heldout.fingerprint() == again.heldout.fingerprint()


@given(datasets(), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_a_thinner_sample_lies_inside_a_thicker_one(dataset, seed, fewer, more):
    dataset = marked(dataset)
    thin, thick = (
        prepared(dataset, {"redundancy": labels}, seed).training for labels in (min(fewer, more), max(fewer, more))
    )
    rows = [
        Counter(
            zip(
                d.items.features[d.annotations.item, 0].tolist(),
                d.annotations.annotator.tolist(),
                d.annotations.label.tolist(),
                strict=True,
            )
        )
        for d in (thin, thick)
    ]
    assert not rows[0] - rows[1]
    if dataset.scale != "multilabel" and dataset.items.unit is None:
        assert thin.annotations.labels_per_item.max() <= min(fewer, more)


def pairs(rows, unit=None):
    """The pairs of item (unit) and annotator, one for each row."""
    place = rows.item if unit is None else unit[rows.item]
    return list(zip(place.tolist(), rows.annotator.tolist(), strict=True))


@given(datasets(), params, st.sampled_from((0.1, 0.3, 0.7)))
def test_a_unit_is_never_torn(dataset, given_params, fraction):
    """Not by the split, not by thinning, and what an annotator said of it is held out as a whole or not at all."""
    dataset = marked(dataset)
    data = prepared(dataset, given_params, fraction=fraction)
    unit = np.arange(dataset.items.n_items) if dataset.items.unit is None else dataset.items.unit
    parts = [data.training.items, *(part.items for name, part in data.evaluation.items() if name != "train")]
    parts += [] if data.training.unlabelled is None else [data.training.unlabelled]
    codes = [items.features[:, 0].astype(np.int64) for items in parts]
    where = [set(unit[items].tolist()) for items in codes]
    for part, units in zip(codes, where, strict=True):
        assert set(np.flatnonzero(np.isin(unit, list(units))).tolist()) == set(part.tolist())
    assert sum(map(len, where)) == len(set().union(*where))
    if data.training.validation is not None:
        dev = data.training.validation.items.features[:, 0].astype(np.int64)
        assert set(np.flatnonzero(np.isin(unit, unit[dev])).tolist()) == set(dev.tolist())
    if given_params.get("scenario") != "global":
        own = data.training.items.unit
        assert not set(pairs(data.training.annotations, own)) & set(pairs(data.heldout, own))


@given(datasets(), st.integers(1, 3))
def test_thinning_a_unit_keeps_all_or_nothing_of_what_an_annotator_said_of_it(dataset, labels):
    assume(dataset.items.unit is not None)
    dataset = marked(dataset)
    data = prepared(dataset, {"redundancy": labels})
    items, rows = items_that_train(data), data.training.annotations
    kept = Counter(zip(items[rows.item].tolist(), rows.annotator.tolist(), rows.label.tolist(), strict=True))
    whole = dataset.annotations
    there = Counter(zip(whole.item.tolist(), whole.annotator.tolist(), whole.label.tolist(), strict=True))
    unit = dataset.items.unit
    chosen = {(int(unit[item]), annotator) for item, annotator, _ in kept}
    assert kept == Counter({row: n for row, n in there.items() if (int(unit[row[0]]), row[1]) in chosen})
    for code in {unit_code for unit_code, _ in chosen}:
        present = {row[1] for row in there if unit[row[0]] == code}
        assert len({a for u, a in chosen if u == code}) == min(labels, len(present))


@given(datasets(scale="multilabel"), st.sampled_from((0.1, 0.5)))
def test_the_global_scenario_forgets_who_gave_a_multilabel_answer_and_keeps_it_whole(dataset, fraction):
    dataset = replace(marked(dataset), items=Items(n_items=dataset.items.n_items))

    def answers(rows):
        said = {}
        for row, pair in enumerate(pairs(rows)):
            extras = [float(extra[row]) for extra in (rows.weight, rows.probability) if extra is not None]
            said.setdefault(pair, []).append((int(rows.label[row]), *extras))
        return Counter((item, tuple(sorted(rows))) for (item, _), rows in said.items())

    known, unknown = (prepared(dataset, {"scenario": scenario}) for scenario in ("individual", "global"))
    assert answers(known.training.annotations) == answers(unknown.training.annotations)
    assert unknown.training.annotations.n_annotators == len(set(pairs(unknown.training.annotations)))
    parted = prepared(dataset, {"scenario": "global"}, fraction=fraction)
    assert answers(parted.training.annotations) + answers(parted.heldout) == answers(known.training.annotations)
    reversed_codes = dataset.annotations.n_annotators - 1 - dataset.annotations.annotator
    renamed = Annotations.of(
        item=dataset.annotations.item,
        annotator=reversed_codes,
        label=dataset.annotations.label,
        weight=dataset.annotations.weight,
        probability=dataset.annotations.probability,
        n_items=dataset.annotations.n_items,
        n_annotators=dataset.annotations.n_annotators,
        n_classes=dataset.annotations.n_classes,
    )
    again = renamed.anonymised(whole_answers=True)
    assert again.fingerprint() == dataset.annotations.anonymised(whole_answers=True).fingerprint()


@given(annotations(), st.integers(1, 4), st.booleans())
def test_thinning_keeps_the_smaller_of_what_is_there_and_what_is_asked(rows, labels, whole):
    bundles = thinning.pairs_of(rows) if whole else None
    kept = rows.take(thinning.keep_labels(rows, labels, np.random.default_rng(0), bundles=bundles))
    for item in range(rows.n_items):
        before, after = (r.annotator[r.item == item].tolist() for r in (rows, kept))
        if whole:
            assert len(set(after)) == min(len(set(before)), labels)
            assert Counter(after) == Counter({a: n for a, n in Counter(before).items() if a in set(after)})
        else:
            assert len(after) == min(len(before), labels)


@given(annotations(), st.sampled_from((0.0, 0.1, 0.5, 0.99)))
def test_dropping_annotators_drops_all_of_their_rows(rows, dropped):
    mask = thinning.keep_annotators(rows, dropped, np.random.default_rng(0))
    gone = set(rows.annotator[~mask].tolist())
    assert not gone & set(rows.annotator[mask].tolist())
    assert len(gone) == int(dropped * rows.n_active_annotators)


@given(annotations(), st.sampled_from((0.0, 0.1, 0.5, 0.99)))
def test_a_held_out_share_leaves_every_item_a_label(rows, share):
    mask = thinning.keep_for_fit(rows, share, np.random.default_rng(0))
    answered = rows.labels_per_item > 0
    assert (rows.take(mask).labels_per_item[answered] >= 1).all()
    assert (~mask).sum() == min(round(share * len(rows)), len(rows) - answered.sum())


@given(annotations(), st.sampled_from((0.1, 0.5, 0.99)))
def test_all_that_an_annotator_said_of_an_item_is_held_out_together(rows, share):
    mask = thinning.keep_for_fit(rows, share, np.random.default_rng(0), thinning.pairs_of(rows))
    given = set(pairs(rows))
    kept, gone = set(pairs(rows.take(mask))), set(pairs(rows.take(~mask)))
    assert not kept & gone
    assert {item for item, _ in kept} == {item for item, _ in given}
    assert len(gone) == min(round(share * len(given)), len(given) - len({item for item, _ in given}))


@given(datasets())
def test_a_folder_gives_back_what_was_written(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("round") / "trip"
    write_folder(dataset, folder)
    again = read_folder(folder)
    assert again.fingerprint == dataset.fingerprint
    assert list(again.item_names) == list(dataset.item_names)
    assert list(again.annotator_names) == list(dataset.annotator_names)


@given(datasets(extras=False, scale="nominal"))
def test_votes_come_back_as_votes(tmp_path_factory, dataset):
    dataset = replace(dataset, annotations=dataset.annotations.anonymised())
    folder = tmp_path_factory.mktemp("round") / "trip"
    write_folder(dataset, folder)
    assert read_folder(folder).annotations.fingerprint() == dataset.annotations.fingerprint()
