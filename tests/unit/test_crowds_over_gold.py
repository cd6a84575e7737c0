"""A simulated crowd over a dataset's gold: as able as it is said to be, and nothing of the real one left."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from crowdsweep.data import catalogue
from crowdsweep.data.catalogue import CrowdName
from crowdsweep.data.crowds_over_gold import CROWDS
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Scalar
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.splits import prepare, seed_matters
from crowdsweep.errors import DataError


@pytest.fixture(scope="module")
def rte(shared_data: Path) -> CrowdDataset:
    return read_folder(shared_data / "rte")


@pytest.mark.parametrize("name", CROWDS)
def test_members_are_right_as_often_as_their_group(rte: CrowdDataset, name: str) -> None:
    data = prepare(rte, {"crowd": name, "annotators": 50, "labels_per_item": 20}, 0)
    rows, crowd = data.training.annotations, data.crowd
    assert crowd is not None
    gold = np.full(rows.n_items, -1)
    gold[data.gold.item] = data.gold.label
    right = rows.label == gold[rows.item]
    for group, expected in enumerate(CROWDS[name].right):
        members = crowd.group[rows.annotator] == group
        assert right[members].mean() == pytest.approx(expected, abs=0.03)
    assert len(rows) / rows.n_items == pytest.approx(20, abs=0.5)


def test_every_name_that_is_taken_is_a_crowd() -> None:
    assert set(CROWDS) == set(get_args(CrowdName))


def test_each_seed_draws_anew_and_all_models_meet_one_draw(rte: CrowdDataset) -> None:
    params: dict[str, Scalar] = {"crowd": "setup1"}
    one, same, other = (prepare(rte, params, seed).training.annotations for seed in (0, 0, 1))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert one.n_annotators == 100
    assert seed_matters(rte, params)


def test_items_of_other_splits_get_no_answers(rte: CrowdDataset) -> None:
    split = np.where(np.arange(rte.items.n_items) % 2, SPLITS.index("test"), SPLITS.index("train")).astype(np.int8)
    data = prepare(replace(rte, split=split), {"crowd": "setup1"}, 0)
    assert data.training.items.n_items == 400
    assert data.evaluation["test"].has_gold.all()


def test_what_has_no_gold_or_a_crowd_of_its_own_is_refused() -> None:
    with pytest.raises(DataError, match="expected items with gold"):
        prepare(catalogue.load("anesthesia", {}), {"crowd": "setup1"}, 0)
    with pytest.raises(DataError, match="a simulated one already"):
        prepare(catalogue.load("gaussians", {}), {"crowd": "setup1"}, 0)
    with pytest.raises(DataError, match="expected a simulated crowd with it"):
        prepare(catalogue.load("anesthesia", {}), {"labels_per_item": 5}, 0)


def test_a_crowd_that_cannot_give_so_many_labels_is_refused(rte: CrowdDataset) -> None:
    with pytest.raises(DataError, match=r"at most annotators \(3\)"):
        prepare(rte, {"crowd": "setup1", "annotators": 3}, 0)
