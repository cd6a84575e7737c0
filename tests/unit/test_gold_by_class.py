"""Gold of multi-label items that is known class by class: read, written, and scored where it is known."""

import numpy as np
import pytest

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError
from crowdsweep.metrics.metric_table import METRICS, ItemMetric, ScoredItems
from crowdsweep.record.array_names import names_of
from crowdsweep.trial.item_scores import item_scores

ANSWERS = "item,annotator,label\na,x,0|1\na,y,1\nb,x,2\nb,y,\nc,x,0\nc,y,0\n"
CLASSES = "label,name\n0,IS\n1,CAUSES\n2,TREATS\n"
ITEMS = "item,gold_causes,gold_TREATS,gold_source\na,1,0,x\nb,,1,y\nc,,,z\n"


def folder_with(tmp_path, items=ITEMS):
    folder = tmp_path / "relations"
    folder.mkdir()
    for name, text in (("annotations", ANSWERS), ("classes", CLASSES), ("items", items)):
        (folder / f"{name}.csv").write_text(text)
    (folder / "dataset.yaml").write_text("scale: multilabel")
    return folder


def test_each_class_is_known_or_not_of_each_item(tmp_path):
    data = read_folder(folder_with(tmp_path))
    assert list(zip(data.gold.item.tolist(), data.gold.label.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert data.gold.applies is not None
    assert data.gold.applies.tolist() == [True, False, True]
    assert data.unread_columns == ("items: gold_source",)
    trial = prepare(data, {}, seed=0)
    train = trial.evaluation["train"]
    assert train.has_gold.tolist() == [True, True, False]
    assert train.known is not None
    assert train.known.tolist() == [[False, True, True], [False, False, True], [True, True, True]]
    assert train.reference.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_a_written_folder_reads_the_same(tmp_path):
    data = read_folder(folder_with(tmp_path))
    write_folder(data, tmp_path / "again")
    again = read_folder(tmp_path / "again")
    assert again.gold.applies is not None
    for one, other in ((data.gold.item, again.gold.item), (data.gold.label, again.gold.label)):
        assert one.tolist() == other.tolist()
    assert again.gold.applies.tolist() == [True, False, True]
    flipped = ITEMS.replace("b,,1,y", "b,,0,y")
    other = tmp_path / "other"
    other.mkdir()
    assert read_folder(folder_with(other, flipped)).fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("item,gold_CAUSES\na,yes\n", r"items.csv, row 1, column gold_CAUSES: expected 1, 0 or empty, got 'yes'"),
        ("item,gold_CAUSES,gold_1\na,1,1\n", "expected gold in one column, or in one for each class, got gold_CAUSES"),
        ("item,gold,gold_CAUSES\na,0|1,1\n", "got gold, gold_CAUSES; remove one"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, items, message):
    with pytest.raises(DataError, match=message):
        read_folder(folder_with(tmp_path, items))


def test_scores_are_means_over_what_is_known(tmp_path):
    data = read_folder(folder_with(tmp_path))
    trial = prepare(data, {}, seed=0)
    part = trial.evaluation["train"]
    kept = part.has_gold
    assert part.known is not None
    scored = ScoredItems(
        reference=part.reference[kept],
        predicted=np.array([[0.9, 0.8, 0.7], [0.9, 0.9, 0.6]]),
        scale="multilabel",
        code=part.code[kept],
        known=part.known[kept],
    )
    metric = METRICS["accuracy"]
    assert isinstance(metric, ItemMetric)
    assert metric.score(scored) == pytest.approx(2 / 3)  # a: CAUSES right, TREATS wrong; b: TREATS right
    found = item_scores({"train_accuracy": 2 / 3}, {("train", ""): scored}, trial)
    scores = found[names_of("train_accuracy")[0]]["accuracy"]
    assert scores == pytest.approx([1 * 2 / 3, 1 * 2 / 3])
    assert scores.mean() == pytest.approx(2 / 3)
    f1 = METRICS["macro_f1"]
    assert isinstance(f1, ItemMetric)
    assert f1.score(scored) == pytest.approx((1 + 2 / 3) / 2)  # CAUSES 1; TREATS one of two right


def test_the_medical_relations_have_gold_of_two_classes(shared_data):
    data: CrowdDataset = read_folder(shared_data / "medical-relations")
    assert sorted({data.class_names[code] for code in data.gold.label.tolist()}) == ["CAUSES", "TREATS"]
    for name, gold in (("CAUSES", 975), ("TREATS", 621)):
        assert (data.gold.label == data.class_names.index(name)).sum() == gold
