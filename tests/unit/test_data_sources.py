"""The embedded datasets: their figures, their crowds, and how they are found."""

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from crowdsweep.data import catalogue
from crowdsweep.data.on_disk.folder import write_folder
from crowdsweep.data.simulate import simulate_crowd
from crowdsweep.data.sources import gaussians as setup1
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError, UnknownName
from crowdsweep.seeds import SeedStream


def drawn(name, seed=0, **params):
    base = catalogue.load(name, params)
    source = catalogue.source(name)
    assert source is not None
    assert source.draw is not None
    return source.draw(base, SeedStream(seed).child("crowd"))


def test_anesthesia_has_the_counts_of_1979():
    data = catalogue.load("anesthesia", {})
    rows = data.annotations
    assert (len(rows), rows.n_items, rows.n_annotators, rows.n_classes) == (315, 45, 5, 4)
    assert np.bincount(rows.label).tolist() == [128, 124, 48, 15]
    assert rows.labels_per_annotator.tolist() == [135, 45, 45, 45, 45]
    assert len(data.gold) == 0


def test_anesthesia_equals_the_published_table(shared_data):
    with (shared_data / "anesthesia" / "annotations.csv").open() as file:
        published = Counter((int(r["item"]) - 1, int(r["annotator"]), int(r["label"])) for r in csv.DictReader(file))
    rows = catalogue.load("anesthesia", {}).annotations
    assert Counter(zip(rows.item.tolist(), rows.annotator.tolist(), rows.label.tolist(), strict=True)) == published


def test_gaussians_have_the_sizes_and_the_bayes_accuracy_of_setup_1():
    data = catalogue.load("gaussians", {})
    assert [len(data.items_of(split)) for split in ("train", "dev", "test")] == [2457, 0, 819]
    assert np.bincount(data.gold.label).tolist() == [1092] * 3
    features = data.items.features
    train = data.items_of("train")
    assert features[train].mean(axis=0) == pytest.approx([0, 0], abs=1e-5)
    assert features[train].std(axis=0) == pytest.approx([1, 1], abs=1e-5)
    # The best rule is the nearest centre: 94.8 % on the stored data. Undo the scaling with the known deviations.
    means = np.stack([features[train][data.gold.label[train] == k].mean(axis=0) for k in range(3)])
    spread = np.mean([features[train][data.gold.label[train] == k].std(axis=0) for k in range(3)], axis=0)
    distance = np.linalg.norm((features[:, None] - means) / spread, axis=2)
    assert (distance.argmin(axis=1) == data.gold.label).mean() == pytest.approx(0.948, abs=0.015)


def test_gaussians_crowd_answers_train_items_as_the_published_matrices_say():
    data = drawn("gaussians", annotators=1000, labels_per_item=20)
    rows, crowd = data.annotations, data.crowd
    assert set(rows.item.tolist()) == set(data.items_of("train").tolist())
    assert rows.labels_per_item[data.items_of("train")].mean() == pytest.approx(20, abs=0.3)
    assert np.bincount(crowd.group) / 1000 == pytest.approx([0.25, 0.55, 0.20], abs=0.06)
    truth = data.gold.label[rows.item]
    for group in range(3):
        for true in range(3):
            picked = (crowd.group[rows.annotator] == group) & (truth == true)
            share = np.bincount(rows.label[picked], minlength=3) / picked.sum()
            assert share == pytest.approx(setup1._CONFUSION[group, true], abs=0.03)
    assert (truth == rows.label).mean() == pytest.approx(0.612, abs=0.02)  # the printed mean label accuracy
    pairs = rows.item.astype(np.int64) * rows.n_annotators + rows.annotator
    assert len(np.unique(pairs)) == len(pairs)


def test_sparse_crowds_leave_annotators_idle_but_declared():
    data = drawn("gaussians", annotators=10_000)
    assert data.annotations.n_annotators == 10_000
    # About 7,080 active at T = 10,000 in the authors' draw.
    assert data.annotations.n_active_annotators == pytest.approx(7080, abs=150)


def test_features_follow_the_feature_seed_and_crowds_the_trial_seed():
    base = catalogue.load("gaussians", {"feature_seed": 0})
    other = catalogue.load("gaussians", {"feature_seed": 1})
    assert not np.array_equal(base.items.features, other.items.features)
    assert base.fingerprint != other.fingerprint
    first, again, second = (prepare(base, {}, seed).training for seed in (0, 0, 1))
    assert first.annotations.fingerprint() == again.annotations.fingerprint() != second.annotations.fingerprint()
    assert np.array_equal(first.items.features, second.items.features)


def test_by_default_each_trial_draws_points_and_crowd():
    base = catalogue.load("gaussians", {})
    first, again, second = (prepare(base, {}, seed) for seed in (0, 0, 1))
    for name in ("train", "test"):
        features = [trial.evaluation[name].items.features for trial in (first, again, second)]
        assert np.array_equal(features[0], features[1])
        assert not np.array_equal(features[0], features[2])
        # The points lie around the centres of the classes that gold says, here as in a fixed draw.
        trial = second.evaluation[name]
        means = [trial.items.features[trial.reference[:, k] > 0].mean(axis=0) for k in range(3)]
        assert means[0][1] > 0.8 > means[2][1] > means[1][1] + 0.5


def test_a_whole_number_for_a_float_parameter_is_the_same_dataset():
    fingerprints = {catalogue.load("gaussians", p).fingerprint for p in ({}, {"labels_per_item": 5})}
    assert len(fingerprints | {catalogue.load("gaussians", {"labels_per_item": 5.0}).fingerprint}) == 1


@pytest.mark.parametrize(("n_annotators", "labels"), [(1, 1), (3, 3), (3, 2), (10, 2), (10, 9.5), (500, 0.01)])
def test_every_item_is_answered_by_distinct_annotators(n_annotators, labels):
    gold = np.zeros(200, dtype=np.int32)
    rows, _ = simulate_crowd(
        gold,
        n_annotators=n_annotators,
        labels_per_item=labels,
        group_probs=np.array([1.0]),
        confusion=np.eye(2)[None],
        seeds=SeedStream(0),
    )
    pairs = set(zip(rows.item.tolist(), rows.annotator.tolist(), strict=True))
    assert len(pairs) == len(rows)
    assert rows.labels_per_item.min() >= 1
    assert not rows.label.any()
    if labels == n_annotators:
        assert len(rows) == 200 * n_annotators


def test_pairs_are_answered_evenly():
    """Binomial numbers with redrawn clashes leave every annotator the same chance."""
    rows, _ = simulate_crowd(
        np.zeros(20_000, dtype=np.int32),
        n_annotators=20,
        labels_per_item=4,
        group_probs=np.array([1.0]),
        confusion=np.eye(2)[None],
        seeds=SeedStream(3),
    )
    sizes = np.bincount(rows.labels_per_item, minlength=21)
    # Binomial(20, .2), nothing moved to one label.
    assert sizes[4] / 20_000 == pytest.approx(0.218, abs=0.012)
    assert sizes[1] / 20_000 == pytest.approx(0.0576 + 0.0115, abs=0.008)
    deviation = np.sqrt(20_000 * 0.2 * 0.8)
    assert np.abs(rows.labels_per_annotator - len(rows) / 20).max() < 4.5 * deviation


def test_digits_has_known_matrices_and_the_promised_splits():
    data = drawn("digits")
    assert [len(data.items_of(split)) for split in ("train", "dev", "test")] == [1078, 360, 359]
    assert data.annotations.labels_per_item[data.items_of("test")].sum() == 0
    assert data.annotations.labels_per_item[data.items_of("dev")].min() >= 1
    confusion = data.crowd.confusion
    assert confusion.sum(axis=2) == pytest.approx(np.ones((4, 10)))
    right = np.diagonal(confusion, axis1=1, axis2=2)
    assert (right[:3].mean(axis=1) > [0.8, 0.55, 0.35]).all()
    assert (right.std(axis=1) > 0.01).all()  # digits differ
    rows = data.annotations
    expected = confusion[data.crowd.group[rows.annotator], data.gold.label[rows.item]]
    observed = rows.label == data.gold.label[rows.item]
    assert observed.mean() == pytest.approx(expected[np.arange(len(rows)), data.gold.label[rows.item]].mean(), abs=0.03)


def test_names_lists_built_ins_and_folders_and_imports_neither_scikit_learn_nor_torch(tmp_path):
    write_folder(catalogue.load("anesthesia", {}), tmp_path / "mine")
    (tmp_path / "not-a-dataset").mkdir()
    code = (
        "import sys; from crowdsweep.data import catalogue; print(*catalogue.names());"
        "assert not {'sklearn', 'torch', 'ray', 'pandas'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"CROWDSWEEP_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["anesthesia", "cifar-10", "digits", "gaussians", "mine"]


def test_a_built_in_name_wins_and_a_path_reaches_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "gaussians"
    write_folder(catalogue.load("anesthesia", {}), folder)
    write_folder(catalogue.load("anesthesia", {}), tmp_path / "wards")
    monkeypatch.setenv("CROWDSWEEP_DATA", f"{tmp_path / 'missing'}:{tmp_path}")
    assert catalogue.load("gaussians", {}).seed_dependent
    assert catalogue.load(str(folder), {}).annotations.n_items == 45
    assert catalogue.load("wards", {}).annotations.n_items == 45
    monkeypatch.chdir(tmp_path)
    assert catalogue.load("./gaussians", {}).annotations.n_items == 45


def test_the_first_folder_on_the_search_path_wins(tmp_path, monkeypatch):
    for place, name in (("one", "gaussians"), ("two", "anesthesia")):
        base = catalogue.load("anesthesia", {}) if name == "anesthesia" else drawn("gaussians", items=8)
        write_folder(base, tmp_path / place / "set")
    monkeypatch.setenv("CROWDSWEEP_DATA", f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert catalogue.load("set", {}).annotations.n_items == 24


@pytest.mark.parametrize(
    ("name", "params", "error", "message"),
    [
        ("gausians", {}, UnknownName, "did you mean 'gaussians'"),
        ("gaussians", {"anotators": 5}, UnknownName, "did you mean 'annotators'"),
        ("anesthesia", {"feature_seed": 5}, UnknownName, "unknown dataset parameter 'feature_seed'"),
        (
            "gaussians",
            {"annotators": "many"},
            DataError,
            'annotators\': expected integer, at least 1, or null; got "many"',
        ),
        ("gaussians", {"annotators": 0}, DataError, "at least 1"),
        ("gaussians", {"annotators": 3, "labels_per_item": 5}, DataError, "above 0 and at most 3, got 5"),
        ("digits", {"labels_per_item": True}, DataError, "got true"),
        ("anesthesia", {"scenario": "globl"}, DataError, 'got "globl"'),
        ("anesthesia", {"training": "none"}, DataError, 'one of "split", "all"'),
        ("anesthesia", {"redundancy": 1.5}, DataError, "redundancy': expected integer, at least 1, or null; got 1.5"),
        ("anesthesia", {"redundancy": 0}, DataError, "at least 1"),
        ("anesthesia", {"annotator_dropout": 1.0}, DataError, "below 1"),
        ("nowhere/at-all", {}, DataError, "no such folder"),
        ("..", {}, DataError, "annotations.csv"),
    ],
)
def test_mistakes_are_told(name, params, error, message, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(error, match=message):
        catalogue.load(name, params)


def test_a_million_annotators_cost_their_labels_only():
    """2,457 items and 10⁶ annotators: everything that is as long as the crowd is one int32 array."""
    data = drawn("gaussians", annotators=1_000_000)
    assert data.annotations.n_annotators == 1_000_000
    assert len(data.annotations) == pytest.approx(2457 * 5, rel=0.03)
    assert data.crowd.group.nbytes == 4_000_000
    assert data.annotator_names[999_999] == "annotator999999"
