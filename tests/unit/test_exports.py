"""Labels in the forms of other tools, read as those tools read them."""

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from crowdkit.aggregation import DawidSkene

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items
from crowdsweep.data.on_disk.folder import write_folder
from crowdsweep.errors import BadInput
from crowdsweep.importing.forms.label_studio import read_label_studio
from crowdsweep.importing.rows import FileOptions
from crowdsweep.labelling.exports.asked import Exports
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import labelled_items

ITEM = [0, 0, 0, 1, 1, 2, 2, 2, 2]
ANNOTATOR = [0, 1, 3, 0, 1, 0, 1, 3, 3]
LABEL = [2, 2, 0, 1, 1, 0, 0, 0, 2]


@pytest.fixture
def dataset():
    """Four items, of which one has no answer, and four annotators, of whom one never answered."""
    return CrowdDataset(
        name="moods",
        annotations=Annotations.of(
            item=np.array(ITEM),
            annotator=np.array(ANNOTATOR),
            label=np.array(LABEL),
            n_items=4,
            n_annotators=4,
            n_classes=3,
        ),
        items=Items(n_items=4, text=["so it goes", "oh!", '"<why>"', "mm"]),
        split=np.zeros(4, dtype=np.int8),
        gold=Gold(item=np.empty(0, np.int32), label=np.empty(0, np.int32)),
        item_names=("7", "8", "9", "10"),
        annotator_names=("ann", "bob", "cy", "di"),
        class_names=("1", "0", "a & b"),
    )


def files_of(dataset, *forms):
    fitted = fit_everything("dawid-skene", {}, dataset, {})
    labelled = labelled_items(fitted)
    writers = Exports(forms=forms).writers(fitted.dataset)
    return labelled, {name: content for write in writers for name, content in write(labelled).items()}


def test_label_studio_gets_predictions_and_the_interface_that_shows_them(dataset):
    labelled, files = files_of(dataset, "label-studio")
    tasks = json.loads(files["label-studio.json"])
    assert [task["data"] for task in tasks] == [
        {"item": "7", "text": "so it goes"},
        {"item": "8", "text": "oh!"},
        {"item": "9", "text": '"<why>"'},
    ]
    interface = ElementTree.fromstring(files["label-studio.xml"])
    (shown,), (choices,) = interface.findall("Text"), interface.findall("Choices")
    assert (shown.get("value"), choices.get("toName"), choices.get("choice")) == ("$text", shown.get("name"), "single")
    assert [choice.get("value") for choice in choices] == list(dataset.class_names)
    for task, probs in zip(tasks, labelled.probs, strict=True):
        (prediction,) = task["predictions"]
        assert (prediction["model_version"], prediction["score"]) == ("dawid-skene", probs.max())
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"], result["type"]) == (choices.get("name"), "text", "choices")
        assert result["value"] == {"choices": [dataset.class_names[probs.argmax()]]}


def test_a_prediction_is_what_label_studio_exports_once_it_was_accepted(dataset, tmp_path):
    """Accepted predictions come back as annotations with the same result, which `data import` reads."""
    _, files = files_of(dataset, "label-studio")
    tasks = json.loads(files["label-studio.json"])
    for number, task in enumerate(tasks):
        task["id"] = number
        task["annotations"] = [{"completed_by": 1, "result": task.pop("predictions")[0]["result"]}]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    assert [row.labels for row in read_label_studio(path, FileOptions()).rows] == [("a & b",), ("0",), ("1",)]


PROJECT = """<View>
  <Header value="Which?"/>
  <HyperText name="letter" value="$body"/>
  <Choices name="mood" toName="letter">
    <Choice value="zero" alias="0"/><Choice value="1"/><Choice value="a &amp; b"/>
  </Choices>
  <Choices name="tone" toName="letter"><Choice value="1"/><Choice value="loud"/></Choices>
</View>"""


def test_predictions_for_a_project_go_by_its_names(dataset, tmp_path):
    write_folder(dataset, tmp_path / "moods")
    (tmp_path / "project.xml").write_text(PROJECT)
    words = ["label", str(tmp_path / "moods"), "--model", "dawid-skene", "--out", str(tmp_path / "out")]
    words += ["--export", "label-studio", "--interface", str(tmp_path / "project.xml")]
    assert run_command_line(words) == 0
    first = json.loads((tmp_path / "out" / "label-studio.json").read_text())[0]
    assert first["data"] == {"item": "7", "body": "so it goes"}
    (answer,) = first["predictions"][0]["result"]
    assert (answer["from_name"], answer["to_name"], answer["value"]) == ("mood", "letter", {"choices": ["a & b"]})
    assert not (tmp_path / "out" / "label-studio.xml").exists(), "the project has its own"
    assert f"--interface {tmp_path}/project.xml" in (tmp_path / "out" / "label.yaml").read_text()


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        ("<View>", "expected the labelling interface of a Label Studio project, XML"),
        ("<View/>", "expected one <Choices> with all of 1, 0, a & b, got none"),
        (PROJECT.replace(' alias="0"', ""), "got mood without '0'; tone without '0'"),
        (PROJECT.replace("<Header", '<Choices name="x" toName="letter" value="$options"/><Header'), "got 2 of them"),
        (PROJECT.replace('toName="letter"', 'toName="latter"'), "a tag of that name with value"),
        (PROJECT.replace("$body", "static"), "got name 'mood' and value 'static'"),
    ],
)
def test_an_interface_that_cannot_show_the_predictions_is_refused(dataset, tmp_path, interface, message):
    file = tmp_path / "project.xml"
    file.write_text(interface)
    with pytest.raises(BadInput, match=re.escape(message)):
        Exports(forms=["label-studio"], interface=file).writers(dataset)


def test_several_classes_an_item_want_several_choices(dataset, tmp_path):
    file = tmp_path / "project.xml"
    file.write_text(PROJECT)
    several = replace(dataset, scale="multilabel")
    with pytest.raises(BadInput, match='expected choice="multiple"'):
        Exports(forms=["label-studio"], interface=file).writers(several)
    file.write_text(PROJECT.replace('name="mood"', 'name="mood" choice="multiple"'))
    Exports(forms=["label-studio"], interface=file).writers(several)
    for form in ("crowd-kit", "cleanlab"):
        with pytest.raises(BadInput, match=f"--export {form}: it needs one class"):
            Exports(forms=[form]).writers(several)


def test_an_interface_without_label_studio_is_a_mistake(dataset, tmp_path):
    with pytest.raises(BadInput, match="add --export label-studio"):
        Exports(forms=["cleanlab"], interface=tmp_path / "project.xml").writers(dataset)


@pytest.mark.filterwarnings("ignore:The (inplace|copy) keyword")  # crowd-kit's, under pandas 3.1 (2026-11)
def test_crowd_kit_reads_its_own_series_and_frame(dataset):
    _, files = files_of(dataset, "crowd-kit")
    rows = pd.DataFrame(
        {
            "task": [dataset.item_names[one] for one in ITEM[:-1]],
            "worker": [dataset.annotator_names[one] for one in ANNOTATOR[:-1]],
            "label": [dataset.class_names[one] for one in LABEL[:-1]],
        }
    )
    theirs = DawidSkene(n_iter=10)
    labels = theirs.fit_predict(rows)
    ours = pd.read_parquet(io.BytesIO(files["crowd-kit-labels.parquet"]))["agg_label"]
    assert (ours.index.name, ours.name) == (labels.index.name, labels.name)
    assert set(ours.index) == set(labels.index)
    assert all(isinstance(label, str) for label in ours)
    probabilities = pd.read_parquet(io.BytesIO(files["crowd-kit-probabilities.parquet"]))
    assert probabilities.index.name == theirs.probas_.index.name
    assert set(theirs.probas_.columns) <= set(probabilities.columns)
    assert probabilities.idxmax(axis=1).tolist() == ours.tolist()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_cleanlab_gets_its_matrix_and_probabilities(dataset):
    labelled, files = files_of(dataset, "cleanlab")
    matrix = pd.read_parquet(io.BytesIO(files["cleanlab-labels.parquet"]))
    probs = np.load(io.BytesIO(files["cleanlab-pred-probs.npy"]), allow_pickle=False)
    assert json.loads(files["cleanlab-classes.json"]) == ["1", "0", "a & b"]
    assert matrix.index.tolist() == ["7", "8", "9"]
    assert matrix.columns.tolist() == ["ann", "bob", "di"], "who never answered would be a column without answers"
    np.testing.assert_array_equal(matrix.to_numpy(float), [[2, 2, 0], [1, 1, np.nan], [0, 0, 2]])
    np.testing.assert_array_equal(probs, labelled.probs)
    assert probs.shape == (len(matrix), dataset.n_classes)


def test_what_a_form_cannot_hold_is_refused(dataset, monkeypatch):
    monkeypatch.setattr("crowdsweep.labelling.exports.cleanlab._MOST_CELLS", 8)
    with pytest.raises(BadInput, match="3 items × 3 annotators"):
        files_of(dataset, "cleanlab")


def test_the_command_writes_them_beside_the_labels(dataset, tmp_path):
    write_folder(dataset, tmp_path / "moods")
    words = ["label", str(tmp_path / "moods"), "--model", "dawid-skene", "--out", str(tmp_path / "out")]
    assert run_command_line([*words, "--export", "cleanlab", "--export", "label-studio"]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"labels.csv", "label-studio.json", "label-studio.xml", "cleanlab-labels.parquet"} <= names
    assert not [name for name in names if name.startswith("crowd-kit")]
    assert "--export cleanlab --export label-studio" in (tmp_path / "out" / "label.yaml").read_text()
