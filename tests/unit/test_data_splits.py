"""What each dataset parameter does to a trial's data, on datasets small enough to check by hand."""

from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.data import catalogue
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.splits import data_version, prepare
from crowdsweep.errors import DataError, UnknownName


def small(split=("train", "train", "dev", "test", "unlabelled", "train"), gold=((0, 1), (3, 0)), scale="nominal"):
    """Six items, three annotators; item 3 has gold and no labels, item 5 is a train item with no labels."""
    rows = [(0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 0, 0), (1, 1, 0), (2, 0, 1), (2, 2, 0), (4, 1, 1)]
    item, annotator, label = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    return CrowdDataset(
        name="small",
        scale=scale,
        annotations=Annotations.of(item=item, annotator=annotator, label=label, n_items=6, n_annotators=3, n_classes=2),
        items=Items(n_items=6, features=np.arange(6, dtype=np.float32)[:, None]),
        split=np.array([SPLITS.index(name) for name in split], dtype=np.int8),
        gold=Gold(
            item=np.array([i for i, _ in gold], dtype=np.int32), label=np.array([k for _, k in gold], dtype=np.int32)
        ),
        item_names=NumberedNames("item", 6),
        annotator_names=NumberedNames("annotator", 3),
        class_names=("0", "1"),
    )


def codes(items):
    return items.features[:, 0].astype(int).tolist()


def test_by_default_annotated_train_items_train():
    data = prepare(small(), {}, 0)
    assert codes(data.training.items) == [0, 1]
    assert data.training.annotations.label.tolist() == [0, 1, 1, 0, 0]
    assert (data.gold.item.tolist(), data.gold.label.tolist()) == ([0], [1])
    assert codes(data.training.unlabelled) == [4]
    assert codes(data.training.validation.items) == [2]
    assert data.training.validation.annotations.label.tolist() == [1, 0]
    assert data.heldout is None
    assert set(data.evaluation) == {"train", "dev", "test"}
    assert data.evaluation["train"].reference.tolist() == [[0, 1], [1, 0]]
    assert data.evaluation["train"].has_gold.tolist() == [True, False]
    assert data.evaluation["dev"].reference.tolist() == [[0.5, 0.5]]
    assert data.evaluation["test"].reference.tolist() == [[1, 0]]


def test_training_all_takes_every_annotated_item_and_scores_the_others():
    data = prepare(small(), {"training": "all"}, 0)
    assert codes(data.training.items) == [0, 1, 2, 4]
    assert len(data.training.annotations) == 8
    assert data.training.validation is None
    assert data.training.unlabelled is None
    assert set(data.evaluation) == {"train", "test"}


def test_without_a_train_split_every_annotated_item_trains():
    data = prepare(small(split=("none",) * 6), {}, 0)
    assert codes(data.training.items) == [0, 1, 2, 4]
    assert set(data.evaluation) == {"train"}
    with pytest.raises(DataError, match="training: split needs items of the split train"):
        prepare(small(split=("none",) * 6), {"training": "split"}, 0)


def test_the_global_scenario_forgets_annotators_everywhere():
    data = prepare(small(), {"scenario": "global"}, 0)
    assert data.training.annotations.anonymous
    assert data.training.n_annotators == 5
    assert data.training.validation.annotations.anonymous
    assert data.training.validation.annotations.n_annotators == 2


def test_idle_annotators_stay_declared_in_the_individual_scenario():
    data = prepare(small(), {"redundancy": 1}, 0)
    assert data.training.n_annotators == 3
    assert data.training.annotations.labels_per_item.tolist() == [1, 1]


def test_references_come_from_annotations_before_thinning():
    """Two of three say 1: the reference of item 0 stays 2/3 however few labels train."""
    data = prepare(small(gold=()), {"redundancy": 1}, 0)
    assert data.evaluation["train"].reference[0] == pytest.approx([1 / 3, 2 / 3])


def test_an_item_whose_annotators_all_drop_out_does_not_train():
    dropped = [prepare(small(), {"annotator_dropout": 0.67}, seed).training for seed in range(8)]
    assert {tuple(codes(part.items)) for part in dropped} == {(0,), (0, 1)}
    assert all(part.annotations.n_active_annotators == 1 for part in dropped)


def test_samples_differ_by_seed():
    kept = {tuple(prepare(small(), {"redundancy": 1}, seed).training.annotations.label) for seed in range(12)}
    assert len(kept) > 1


def test_the_same_labels_train_whatever_the_scenario():
    known, unknown = (
        prepare(small(), {"redundancy": 2, "scenario": scenario}, 1).training.annotations
        for scenario in ("individual", "global")
    )
    assert known.anonymised().fingerprint() == unknown.fingerprint()


def test_multilabel_thinning_counts_answers(shared_data):
    base = read_folder(shared_data / "medical-relations")
    rows = prepare(base, {"redundancy": 3}, 0).training.annotations
    pairs = np.unique(rows.item.astype(np.int64) * rows.n_annotators + rows.annotator)
    assert np.bincount(pairs // rows.n_annotators).max() == 3
    assert rows.labels_per_item.max() > 3


def tokens(annotators=(0, 1, 2), splits=("train", "train", "dev")):
    """Three sentences of three, two and three tokens; every annotator tags every token of the first two, but the last
    annotator only the first token of each."""
    unit = np.array([0, 0, 0, 1, 1, 2, 2, 2], dtype=np.int32)
    rows = [(i, t, i % 2) for i in range(5) for t in annotators if t != 2 or i in (0, 3)]
    item, annotator, label = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    return CrowdDataset(
        name="tokens",
        annotations=Annotations.of(item=item, annotator=annotator, label=label, n_items=8, n_annotators=3, n_classes=2),
        items=Items(n_items=8, features=np.arange(8, dtype=np.float32)[:, None], unit=unit),
        split=np.array([SPLITS.index(splits[code]) for code in unit], dtype=np.int8),
        gold=Gold(item=np.array([6], dtype=np.int32), label=np.array([0], dtype=np.int32)),
        item_names=NumberedNames("token", 8),
        annotator_names=NumberedNames("annotator", 3),
        class_names=("O", "B-x"),
    )


def test_the_training_items_of_sentences_are_whole_sentences():
    """Where the last annotator alone is left, tokens that nobody tagged stand between those that somebody did."""
    data = prepare(tokens(annotators=(2,)), {}, 0)
    assert codes(data.training.items) == [0, 1, 2, 3, 4]
    assert data.training.annotations.labels_per_item.tolist() == [1, 0, 0, 1, 0]
    assert data.training.items.unit.tolist() == [0, 0, 0, 1, 1]
    assert data.evaluation["train"].scored.tolist() == [0, 3]
    assert codes(data.evaluation["dev"].items) == [5, 6, 7]
    everything = prepare(tokens(annotators=(2,), splits=("none",) * 3), {}, 0)
    assert codes(everything.training.items) == [0, 1, 2, 3, 4]


def test_redundancy_counts_the_annotators_of_a_sentence():
    for seed in range(6):
        rows = prepare(tokens(annotators=(0, 1)), {"redundancy": 1}, seed).training.annotations
        who = rows.annotator.tolist()
        assert rows.item.tolist() == [0, 1, 2, 3, 4]
        assert len(set(who[:3])) == len(set(who[3:])) == 1


def test_what_an_annotator_said_of_a_sentence_is_held_out_whole():
    held = set()
    for seed in range(12):
        data = prepare(tokens(), {}, seed, 0.4)
        unit = data.training.items.unit[data.heldout.item]
        pairs = set(zip(unit.tolist(), data.heldout.annotator.tolist(), strict=True))
        assert len(data.heldout) == sum({(0, 2): 1, (1, 2): 1, (0, 0): 3, (0, 1): 3}.get(pair, 2) for pair in pairs)
        assert (data.training.annotations.labels_per_item >= 1).all()
        held |= pairs
    assert held == {(unit, annotator) for unit in (0, 1) for annotator in (0, 1, 2)}


def test_votes_for_tokens_are_thinned_and_held_out_one_by_one(shared_data):
    """Nothing says which votes for the tokens of a sentence are one annotator's."""
    base = read_folder(shared_data / "pos-tagging")
    flat = replace(base, items=replace(base.items, unit=None))
    for params, fraction in (({"redundancy": 2}, 0.0), ({}, 0.1)):
        one, other = (prepare(dataset, params, 3, fraction) for dataset in (base, flat))
        assert one.training.annotations.fingerprint() == other.training.annotations.fingerprint()


def test_an_annotators_repeated_answers_are_held_out_together():
    """Annotator 0 says class 0 three times of every item, the others class 1 once: also where annotators are forgotten,
    the three answers to an item go together."""
    item = np.repeat(np.arange(10, dtype=np.int32), 6)
    annotator, label = np.tile([0, 0, 0, 1, 2, 3], 10), np.tile([0, 0, 0, 1, 1, 1], 10)
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=10, n_annotators=4, n_classes=2)
    base = replace(
        small(split=("none",) * 6, gold=()),
        annotations=rows,
        items=Items(n_items=10),
        split=np.zeros(10, dtype=np.int8),
        item_names=NumberedNames("item", 10),
    )
    for scenario in ("individual", "global"):
        for seed in range(3):
            held = prepare(base, {"scenario": scenario}, seed, 0.3).heldout
            repeated = np.bincount(held.item[held.label == 0], minlength=10)
            assert set(repeated.tolist()) <= {0, 3}
            assert (repeated > 0).sum() + (held.label == 1).sum() == round(0.3 * 40)
            assert repeated.any()


def test_torn_units_are_refused():
    with pytest.raises(DataError, match=r"every unit .* in one split, got one that is torn"):
        replace(tokens(), split=np.array([1, 1, 2, 1, 1, 2, 2, 2], dtype=np.int8))
    with pytest.raises(DataError, match="units by ascending code from 0"):
        Items(n_items=3, unit=np.array([0, 1, 0], dtype=np.int32))


@pytest.mark.parametrize(
    ("dataset", "params", "fraction", "version"),
    [
        (small(), {}, 0.0, 1),
        (small(), {"redundancy": 1, "scenario": "global"}, 0.1, 1),
        (small(scale="multilabel"), {}, 0.0, 2),
        (catalogue.load("anesthesia", {}), {"redundancy": 2}, 0.0, 1),
        (catalogue.load("anesthesia", {}), {}, 0.1, 2),
        (catalogue.load("digits", {}), {"redundancy": 2}, 0.1, 1),
        (tokens(annotators=(0, 1), splits=("train",) * 3), {}, 0.0, 1),
        (tokens(annotators=(0, 1)), {}, 0.1, 2),
        (tokens(annotators=(0, 1)), {"redundancy": 1}, 0.0, 2),
        (tokens(annotators=(0, 1)), {"annotator_dropout": 0.5}, 0.0, 2),
        (tokens(annotators=(2,)), {}, 0.0, 2),
    ],
)
def test_the_version_of_data_rises_where_pairs_and_units_decide(dataset, params, fraction, version):
    assert data_version(dataset, params, fraction) == version


def test_simulated_crowds_follow_their_annotators_into_the_global_scenario():
    base = catalogue.load("gaussians", {"annotators": 50, "items": 40})
    known, unknown = (prepare(base, {"scenario": scenario}, 0) for scenario in ("individual", "global"))
    rows = known.training.annotations
    expected = sorted(
        zip(rows.item.tolist(), rows.label.tolist(), known.crowd.group[rows.annotator].tolist(), strict=True)
    )
    rows = unknown.training.annotations
    assert len(unknown.crowd.group) == rows.n_annotators == len(rows)
    assert sorted(zip(rows.item.tolist(), rows.label.tolist(), unknown.crowd.group.tolist(), strict=True)) == expected


def test_votes_are_always_global(shared_data):
    base = read_folder(shared_data / "stemming")
    data = prepare(base, {}, 0, 0.1)
    assert data.training.annotations.anonymous
    assert data.training.n_annotators == len(data.training.annotations) + len(data.heldout)
    with pytest.raises(DataError, match="votes are anonymous; use global"):
        prepare(base, {"scenario": "individual"}, 0)
    with pytest.raises(DataError, match="annotator_dropout needs known annotators"):
        prepare(base, {"annotator_dropout": 0.1}, 0)


def test_labelme_as_the_papers_part_it(shared_data):
    data = prepare(read_folder(shared_data / "labelme"), {}, 0)
    assert (data.training.n_items, len(data.training.annotations), data.training.n_annotators) == (1000, 2547, 59)
    assert [data.evaluation[name].items.n_items for name in ("train", "dev", "test")] == [1000, 500, 1188]
    assert data.training.validation is None  # dev items have gold, no annotations
    assert prepare(read_folder(shared_data / "labelme"), {"scenario": "global"}, 0).training.n_annotators == 2547


@pytest.mark.parametrize(
    ("params", "fraction", "error", "message"),
    [
        ({"redundancey": 2}, 0, UnknownName, "did you mean 'redundancy'"),
        ({"redundancy": "two"}, 0, DataError, 'redundancy\': expected integer, at least 1, or null; got "two"'),
        ({"training": "some"}, 0, DataError, 'got "some"'),
        ({}, 1.0, DataError, "held-out fraction of at least 0 and below 1, got 1.0"),
        ({}, -0.1, DataError, "held-out fraction"),
    ],
)
def test_mistakes_are_told(params, fraction, error, message):
    with pytest.raises(error, match=message):
        prepare(small(), params, 0, fraction)


def test_nothing_to_train_on_is_told():
    lonely = small(split=("dev", "dev", "dev", "test", "none", "train"))
    with pytest.raises(DataError, match="training items with annotations, found none"):
        prepare(lonely, {}, 0)


def test_a_crowd_that_nobody_draws_is_told():
    with pytest.raises(DataError, match="no built-in source draws it"):
        prepare(replace(small(), seed_dependent=True), {}, 0)


@pytest.mark.parametrize(
    ("name", "params", "fraction", "kept", "heldout"),
    [
        ("digits", {"redundancy": 3}, 0.1, "3c5342e82080950ad4688af7b0bc6dbe", "a6070961b981788e0850be20c799689a"),
        ("gaussians", {}, 0.1, "341c8a93ce9062b1caf7406b16687670", "3c08a9b610281a188cbbdc011252862f"),
        (
            "gaussians",
            {"scenario": "global", "redundancy": 2},
            0.2,
            "d39ac0d9a09f0cafa728dc0a7a7e2cd2",
            "2fc5c182e4a0db54290b17c033c5aaab",
        ),
        ("anesthesia", {"redundancy": 2}, 0.0, "f28ba07ad6c2eef7e7932831a80e46fc", None),
    ],
)
def test_the_draws_of_old_records_stay_as_they_are(name, params, fraction, kept, heldout):
    """Fingerprints of seed 0 as they were when trials without a version of their data were recorded."""
    base = catalogue.load(name, {"feature_seed": 0} if name == "gaussians" else {})  # what was the default then
    assert data_version(base, params, fraction) == 1
    data = prepare(base, params, 0, fraction)
    assert data.training.annotations.fingerprint() == kept
    assert (None if data.heldout is None else data.heldout.fingerprint()) == heldout


def many(n_items=23, unit=None, unlabelled=0):
    """Items with a feature that numbers them, one annotation each, but for the last one; some are `unlabelled`."""
    item = np.arange(n_items - 1, dtype=np.int32)
    split = np.zeros(n_items, np.int8)
    split[:unlabelled] = SPLITS.index("unlabelled")
    return replace(
        small(),
        annotations=Annotations.of(
            item=item, annotator=item % 3, label=item % 2, n_items=n_items, n_annotators=3, n_classes=2
        ),
        items=Items(n_items=n_items, features=np.arange(n_items, dtype=np.float32)[:, None], unit=unit),
        split=split,
        item_names=NumberedNames("item", n_items),
        gold=Gold(item=item, label=item % 2),
    )


def test_each_seed_tests_another_fold_and_all_of_them_every_item_once():
    base, params = many(unlabelled=3), {"folds": 4}
    tested = []
    for seed in range(4):
        data = prepare(base, params, seed)
        parts = [codes(data.training.items), *(codes(data.evaluation[name].items) for name in ("dev", "test"))]
        assert sorted(code for part in parts for code in part) == list(range(3, 22))
        assert codes(data.training.unlabelled) == [0, 1, 2]
        assert codes(data.training.validation.items) == parts[1]
        assert len(parts[1]) in (4, 5)
        tested.append(parts[2])
        assert parts[1] == codes(prepare(base, params, (seed + 1) % 4).evaluation["test"].items)
    assert sorted(code for part in tested for code in part) == list(range(3, 22))
    assert codes(prepare(base, params, 4).evaluation["test"].items) not in tested  # dealt anew


def test_folds_keep_sentences_whole():
    unit = np.repeat(np.arange(8), [1, 5, 2, 3, 4, 2, 3, 3]).astype(np.int32)
    for seed in range(6):
        data = prepare(many(unit=unit), {"folds": 3}, seed)
        parts = [set(codes(data.training.items)), *(set(codes(data.evaluation[n].items)) for n in ("dev", "test"))]
        assert sum(map(len, parts)) == 23  # the last token has no annotation, its sentence has
        for own in range(8):
            assert sum(not part.isdisjoint(np.flatnonzero(unit == own).tolist()) for part in parts) == 1


def test_folds_that_cannot_be_dealt_are_refused():
    with pytest.raises(DataError, match="parameter 'folds': expected integer, at least 3, or null; got 2"):
        prepare(many(), {"folds": 2}, 0)
    with pytest.raises(DataError, match="folds: expected at most 22, one for each unit; got 23"):
        prepare(many(), {"folds": 23}, 0)
    with pytest.raises(DataError, match="folds keep items from training"):
        prepare(many(), {"folds": 3, "training": "all"}, 0)
