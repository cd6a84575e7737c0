"""labels.csv, answers.csv and annotators.csv: labels as they stand in the data, gold first, what contradicts it."""

from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml
from data_folders import folder_of

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.catalogue import load
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.errors import BadInput, FitFailed
from crowdsweep.labelling.chosen import chosen_of_dataset
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.labelling.folder import default_folder
from crowdsweep.labelling.tables import class_columns, decided

THREE = "item,annotator,label\n1,ann,0\n1,bob,0\n2,ann,1\n2,bob,1\n3,ann,2\n3,bob,2\n"


def rows_of(path):
    table = pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(strings_can_be_null=False))
    return [{name: str(value) for name, value in row.items()} for row in table.to_pylist()]


def labelled(folder, out, *more):
    assert run_command_line(["label", str(folder), "--model", "majority-vote", "--out", str(out), *more]) == 0
    return {row["item"]: row for row in rows_of(out / "labels.csv")}


@pytest.mark.parametrize("names", [("cat", "dog", "owl"), ("other", "other", "owl"), ("1", "0", "owl")])
def test_labels_are_written_and_names_beside_them(names, tmp_path):
    classes = "label,name\n" + "".join(f"{code},{name}\n" for code, name in enumerate(names))
    folder = folder_of(tmp_path / "d", annotations=THREE, classes=classes)
    rows = labelled(folder, tmp_path / "o", "--export", "crowd-kit", "--export", "cleanlab")
    assert {item: row["label"] for item, row in rows.items()} == {"1": "0", "2": "1", "3": "2"}
    assert [row["name"] for row in rows.values()] == list(names)
    for name in ("probabilities", "raw-probabilities", "crowd-kit-probabilities"):
        assert pq.read_table(tmp_path / "o" / f"{name}.parquet").column_names[-3:] == ["0", "1", "2"]
    exported = pq.read_table(tmp_path / "o" / "crowd-kit-labels.parquet").to_pydict()
    assert exported["agg_label"] == ["0", "1", "2"]
    fit = cs.fit("majority-vote", str(folder))
    assert fit.classes == ("0", "1", "2")
    assert fit.labels["label"].to_pylist() == ["0", "1", "2"]
    data = read_folder(folder)
    write_folder(data, tmp_path / "again")
    again = read_folder(tmp_path / "again")
    assert (again.class_labels, again.fingerprint) == (data.class_labels, data.fingerprint)
    odd = [found.kind for found in mistakes(data)]
    assert odd == {"cat": [], "other": ["names of several classes"]}.get(
        names[0], ["names that are the label of another class"]
    )


def test_without_names_of_their_own_there_is_no_such_column(tmp_path):
    rows = labelled(folder_of(tmp_path / "d", annotations=THREE), tmp_path / "o")
    assert not {"name", "gold"} & rows["1"].keys()


def test_a_class_may_be_called_item(tmp_path):
    text = THREE.replace(",0\n", ",item\n").replace(",1\n", ",p(item)\n").replace(",2\n", ",task\n")
    folder = folder_of(tmp_path / "d", annotations=text)
    labelled(folder, tmp_path / "o", "--export", "crowd-kit")
    table = pq.read_table(tmp_path / "o" / "probabilities.parquet")
    assert table["item"].to_pylist() == ["1", "2", "3"]
    assert (len(table.column_names), len(set(table.column_names))) == (4, 4)
    kit = pq.read_table(tmp_path / "o" / "crowd-kit-probabilities.parquet")
    assert kit["task"].to_pylist() == ["1", "2", "3"]
    assert class_columns(["item", "p(item)", "x"], ["item"]) == ["p(p(item))", "p(item)", "x"]


def test_gold_wins(tmp_path):
    text = "item,annotator,label\n" + "".join(f"{i},{who},{'yn'[i % 2]}\n" for i in range(12) for who in "abc")
    items = "item,gold\n0,n\n1,n\n99,y\n" + "".join(f"{i},\n" for i in range(2, 12))
    folder = folder_of(tmp_path / "d", annotations=text, items=items)
    rows = labelled(folder, tmp_path / "o")
    for item, label in (("0", "n"), ("1", "n"), ("99", "y")):
        found = rows[item]
        assert (found["label"], found["gold"], found["labelled_by"]) == (label, label, "gold")
        assert (float(found["probability"]), float(found["entropy"])) == (1.0, 0.0)
    assert (rows["0"]["agreement"], rows["99"]["answers"]) == ("0", "0")
    assert (rows["2"]["labelled_by"], rows["2"]["gold"]) == ("annotations", "")
    raw = pq.read_table(tmp_path / "o" / "raw-probabilities.parquet").to_pydict()
    assert raw["y"][raw["item"].index("0")] == 1.0, "what the model says stands beside it"
    assert raw["y"][raw["item"].index("99")] is None
    notes = yaml.safe_load((tmp_path / "o" / "label.yaml").read_text())["notes"]
    assert any("otherwise of 1 of 2 items with gold" in note for note in notes)
    answers = rows_of(tmp_path / "o" / "answers.csv")
    assert [(row["item"], row["second_look"]) for row in answers[:3]] == [("0", "yes")] * 3
    assert [float(row["probability"]) for row in answers] == sorted(float(row["probability"]) for row in answers)
    assert answers[-1]["second_look"] == "no"


def test_an_unsure_answer_is_as_right_as_what_it_gives_to_each_class(tmp_path):
    rows = "".join(f"{i},{who},{'yn'[i % 2]},1\n" for i in range(12) for who in "abc") + "0,d,n,0.1\n"
    folder = folder_of(
        tmp_path / "d", annotations="item,annotator,label,probability\n" + rows, items="item,gold\n0,y\n"
    )
    labelled(folder, tmp_path / "o")
    found = next(row for row in rows_of(tmp_path / "o" / "answers.csv") if row["annotator"] == "d")
    assert (float(found["probability"]), found["second_look"]) == (pytest.approx(0.9, abs=1e-6), "no")


def test_multi_label_gold_by_class_wins_for_its_class(tmp_path):
    text = "item,annotator,label\n" + "".join(f"{i},{who},red\n" for i in range(4) for who in "abc")
    folder = folder_of(
        tmp_path / "d", annotations=text + "0,d,blue\n", items="item,gold_red,gold_blue\n0,0,\n1,1,0\n2,,\n3,,\n"
    )
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    rows = labelled(folder, tmp_path / "o")
    assert "red" not in rows["0"]["label"].split("|")
    assert (rows["0"]["labelled_by"], rows["1"]["labelled_by"]) == ("annotations", "gold")


def judges(random, together):
    """Two people of accuracy .88, and three judges of .8, who err together or each on their own."""
    truth = random.integers(0, 2, 200)
    shared = random.random(200) < 0.2
    text, gold = "item,annotator,label\n", "item,gold\n"
    for item, right in enumerate(truth.tolist()):
        gold += f"{item},{'ny'[right] if item < 80 else ''}\n"
        for who in ("ann", "bob", "j1", "j2", "j3"):
            errs = random.random() < 0.12 if who in ("ann", "bob") else random.random() < 0.2
            if together and who.startswith("j"):
                errs = shared[item] if random.random() < 0.95 else errs
            text += f"{item},{who},{'ny'[1 - right if errs else right]}\n"
    return text, gold


def test_who_errs_together_is_named(tmp_path):
    for together in (True, False):
        text, gold = judges(np.random.default_rng(2), together)
        folder = folder_of(tmp_path / f"d{together}", annotations=text, items=gold)
        fit = cs.fit("dawid-skene", str(folder))
        table = fit.annotators.to_pandas().set_index("annotator")
        assert (table["gold_n"] == 80).all()
        truth = dict(line.split(",") for line in gold.split()[1:81])
        answers = (line.split(",") for line in text.split()[1:])
        right = sum(truth.get(item) == label for item, who, label in answers if who == "ann")
        assert table.loc["ann", "gold_right"] == right
        assert table.loc["ann", "gold_accuracy_low"] < right / 80 < table.loc["ann", "gold_accuracy_high"]
        pairs = " ".join(note for note in fit.notes if "wrong on the same items" in note)
        assert ("j1 and j2" in pairs, "ann and bob" in pairs) == (together, False)
        assert any("gold contradicts the accuracy" in note for note in fit.notes) == together


def test_without_gold_too_much_agreement_is_told(tmp_path):
    for together in (True, False):
        text, _ = judges(np.random.default_rng(3), together)
        notes = cs.fit("dawid-skene", str(folder_of(tmp_path / f"d{together}", annotations=text))).notes
        assert any("more often than independent errors allow" in note for note in notes) == together


def test_a_bar_in_a_name_is_no_second_class():
    probs = np.array([[0.9, 0.8], [0.9, 0.1]])
    assert decided(probs, ("a|b", "c"), multilabel=True)["label"].to_pylist() == ["a\\|b|c", "a\\|b"]
    assert decided(np.array([[0.9, 0.1]]), ("a|b", "c"), multilabel=False)["label"].to_pylist() == ["a|b"]


def test_labels_of_other_data_are_not_replaced_where_nobody_says_where(tmp_path, monkeypatch):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        folder_of(tmp_path / place / "birds", annotations=THREE)
    monkeypatch.chdir(tmp_path)
    for place in ("a", "b", "a"):
        assert run_command_line(["label", f"{place}/birds", "--model", "majority-vote"]) == 0
    made = sorted(path.name for path in (tmp_path / "crowdsweep-labels").iterdir())
    assert made == ["birds", "birds-b"]
    first = yaml.safe_load((tmp_path / "crowdsweep-labels" / "birds" / "label.yaml").read_text())
    assert first["dataset"] == "a/birds"
    assert default_folder(tmp_path / "new", "anesthesia") == tmp_path / "new"
    fingerprint = load("b/birds", {}).fingerprint
    assert default_folder(Path("crowdsweep-labels/birds"), "b/birds", fingerprint).name == "birds-b"  # the same data
    assert chosen_of_dataset("a/birds", "majority-vote", (), None).dataset == "a/birds"


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"[]", b"{", b'{"format": 1, "network": []}', b"\xff"])
def test_a_damaged_classifier_is_one_error(damage, tmp_path):
    (tmp_path / "classifier.json").write_bytes(damage)
    with pytest.raises(BadInput, match="expected a folder `classifier`"):
        load_classifier(tmp_path)
    (tmp_path / "classifier.json").write_text(
        '{"format": 1, "network": {"kind": "dense", "widths": [2, 2]}, "classes": ["a", "b"], '
        '"fits": ["f.safetensors"]}'
    )
    (tmp_path / "f.safetensors").write_bytes(damage)
    with pytest.raises(BadInput, match="expected a folder `classifier`"):
        load_classifier(tmp_path)


def test_a_predictor_that_raises_is_a_failed_fit(tmp_path):
    text, _ = judges(np.random.default_rng(0), together=False)
    folder = folder_of(tmp_path / "d", annotations=text)
    fitted = cs.fit("dawid-skene", str(folder)).fitted

    def broken(*_):
        raise RuntimeError("no luck")

    with pytest.raises(FitFailed, match="no luck"):
        fitted._asked(broken)()


@pytest.mark.unchecked
def test_seeds_of_labels_are_at_least_one(tmp_path):
    found = cs.Results(store=tmp_path)
    for seeds in (-1, 0, True, 1.5):
        with pytest.raises(BadInput, match="seeds: expected a whole number"):
            found.label(seeds=seeds)


def test_overrides_take_numbers_of_numpy(tmp_path):
    folder_of(tmp_path / "d", annotations=THREE)
    sweep = {"name": "s", "datasets": [str(tmp_path / "d")], "models": ["majority-vote"], "engine": "inline"}
    with pytest.raises(BadInput, match=r"overrides, seeds\.report: expected a value that a sweep file may have"):
        cs.run(sweep, store=tmp_path / "s", overrides={"seeds.report": object()})
    with pytest.raises(BadInput, match="seeds"):  # read as the number that it is, and refused for its size
        cs.run(sweep, store=tmp_path / "s", overrides={"seeds.report": np.int64(-3)}, quiet=True)


def test_labels_of_a_fit_that_collapsed_are_warned_of():
    said = {"ann": "ngngn", "bob": "nggg ", "cleo": "ggnnn"}
    rows = [(f"p{n}", who, label) for who, labels in said.items() for n, label in enumerate(labels) if label != " "]
    item, annotator, label = zip(*rows, strict=True)
    answers = {"item": item, "annotator": annotator, "label": label}
    for model, warned in (("hierarchical-dawid-skene", True), ("majority-vote", False)):
        fit = cs.fit(model, answers)
        assert (len(set(fit.labels["label"].to_pylist())) == 1) == warned
        assert any(f"do not use these labels: {model} collapsed" in note for note in fit.notes) == warned
