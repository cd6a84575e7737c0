"""What people take away: labels, annotators, what to label next, a classifier."""

import errno
import os
import shlex
from itertools import product

import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml
from crowdkit.aggregation import DawidSkene

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items
from crowdsweep.data.on_disk.folder import write_folder
from crowdsweep.labelling.annotators import annotator_facts, spammer_scores
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.labelling.crowd import crowd_of
from crowdsweep.labelling.crowd_tables import crowd_tables
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import labelled_items
from crowdsweep.labelling.leave_one_out import leave_one_out_answers
from crowdsweep.labelling.next_items import gains
from crowdsweep.labelling.questions import Questions, questions_of
from crowdsweep.labelling.tables import labels_table


def crowd(item, annotator, label, *, n_items, n_annotators, n_classes, features=None):
    return CrowdDataset(
        name="made-up",
        annotations=Annotations.of(
            item=np.asarray(item),
            annotator=np.asarray(annotator),
            label=np.asarray(label),
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=n_classes,
        ),
        items=Items(n_items=n_items, features=features),
        split=np.zeros(n_items, dtype=np.int8),
        gold=Gold(item=np.empty(0, np.int32), label=np.empty(0, np.int32)),
        item_names=[f"i{code}" for code in range(n_items)],
        annotator_names=[f"a{code}" for code in range(n_annotators)],
        class_names=tuple(f"c{code}" for code in range(n_classes)),
    )


def answers_of(random, gold, item, accuracy, n_classes):
    """Answers to these items that are right with this probability each, else any of the others."""
    wrong = (gold[item] + random.integers(1, n_classes, len(item))) % n_classes
    return np.where(random.random(len(item)) < accuracy, gold[item], wrong)


def rows_of(path):
    return pa_csv.read_csv(path).to_pylist()


@pytest.mark.filterwarnings("ignore:The (inplace|copy) keyword")  # crowd-kit's, under pandas 3.1 (2026-11)
def test_labels_are_an_independent_dawid_skenes(shared_data, tmp_path):
    words = ["label", str(shared_data / "rte"), "--model", "dawid-skene", "--set", "shrinkage=0"]
    assert run_command_line([*words, "--out", str(tmp_path / "o")]) == 0
    table = pd.read_csv(shared_data / "rte" / "annotations.csv").rename(columns={"item": "task", "annotator": "worker"})
    theirs = DawidSkene(n_iter=1000, tol=1e-9).fit_predict(table)
    raw = pq.read_table(tmp_path / "o" / "raw-probabilities.parquet").to_pandas().set_index("item")
    assert raw.idxmax(axis=1).to_dict() == {str(item): str(label) for item, label in theirs.items()}
    gold = pd.read_csv(shared_data / "rte" / "items.csv").set_index("item")["gold"]
    rows = rows_of(tmp_path / "o" / "labels.csv")
    assert {row["item"]: row["label"] for row in rows} == gold.to_dict()
    assert {row["labelled_by"] for row in rows} == {"gold"}
    assert pq.read_table(tmp_path / "o" / "labels.parquet").num_rows == 800


QUICK = ("soft-mv", "dl-ds", "cmm", "dl-em")


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        # By answers; fmm knows no annotators.
        *product(("dawid-skene", "one-coin", "majority-vote", "mace", "fmm"), (2, 3, 5)),
        # With a classifier in between, which takes its time.
        *(
            pytest.param(model, n_classes, marks=[] if n_classes == 3 and model in QUICK else pytest.mark.long)
            for model, n_classes in product(
                ("soft-mv", "dl-ds", "crowdlab", "cmm", "dl-em", "speelfc-d", "pd"), (2, 3, 5)
            )
        ),
    ],
)
def test_ten_planted_spammers_among_a_hundred_are_found(n_classes, model):
    random = np.random.default_rng(n_classes)
    gold = random.integers(0, n_classes, 600)
    item = np.concatenate([random.permutation(600)[:60] for _ in range(100)])
    annotator = np.repeat(np.arange(100), 60)
    label = answers_of(random, gold, item, random.uniform(0.75, 0.95, 100)[annotator], n_classes)
    for spammer in range(10):  # some answer at random, some mostly or always one class
        shares = np.eye(n_classes)[0] if spammer == 3 else random.dirichlet(np.ones(n_classes))
        label[annotator == spammer] = random.choice(n_classes, 60, p=shares)
    features = (random.normal(size=(600, n_classes)) + 2 * np.eye(n_classes)[gold]).astype(np.float32)
    data = crowd(item, annotator, label, n_items=600, n_annotators=100, n_classes=n_classes, features=features)
    table = crowd_tables(labelled_items(fit_everything(model, {}, data, {}, n_seeds=1))).annotators
    assert table is not None
    said = np.array(table["spammer"].to_pylist())
    assert (said[:10] != "no").all()
    assert (said[:10] == "yes").sum() >= 8, "of two classes sixty random answers may look like a weak annotator's"
    assert (said[10:] == "yes").sum() <= 1
    accuracy = np.array(table["accuracy"].to_pylist())
    assert np.abs(accuracy[10:].mean() - (label == gold[item])[annotator >= 10].mean()) < (
        0.03 if model in ("dawid-skene", "one-coin") else 0.06  # votes are less sure of an item than what weighs them
    )


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("counted", [False, True])
def test_what_others_make_of_an_answer_equals_loops(counted, kinds, monkeypatch):
    monkeypatch.setattr("crowdsweep.labelling.leave_one_out.CHUNK_ENTRIES", 20)  # some annotators at a time
    random = np.random.default_rng(kinds)
    questions = Questions(
        question=random.integers(0, 8, 60),
        annotator=random.integers(0, 7, 60),  # somebody answers something twice
        answer=random.integers(0, 3, 60),
        weight=random.integers(1, 3, 60).astype(np.float64),
        certainty=np.ones(60),
        posterior=random.dirichlet(np.ones(3), 8),
        kinds=kinds,
    )
    confusions = random.dirichlet(np.ones(3), (7, kinds, 3))
    chunks = [*leave_one_out_answers(questions, None if counted else lambda code: confusions[code])()]
    assert len(chunks) > 1
    row = 0
    order = np.argsort(questions.annotator, kind="stable")
    for part in chunks:
        for place, answer, weight, found in zip(part.place, part.answer, part.weight, part.others, strict=True):
            own, row = order[row], row + 1
            assert (part.code[place], answer) == (questions.annotator[own], questions.answer[own])
            assert weight == questions.weight[own]
            asked = questions.question[own]
            others = np.flatnonzero((questions.question == asked) & (questions.annotator != questions.annotator[own]))
            expected = np.zeros(3) if counted else questions.posterior[asked % kinds :: kinds].mean(axis=0)
            for other in others:
                if counted:
                    expected[questions.answer[other]] += questions.weight[other]
                else:
                    said = confusions[questions.annotator[other], asked % kinds, :, questions.answer[other]]
                    expected = expected * said ** questions.weight[other]
            np.testing.assert_allclose(found, expected / expected.sum() if expected.any() else 1 / 3, rtol=1e-9)
    assert row == 60


def test_few_answers_tell_nothing_of_spamming():
    random = np.random.default_rng(0)
    gold = random.integers(0, 3, 50)
    item, annotator = np.tile(np.arange(50), 5), np.repeat(np.arange(5), 50)
    label = answers_of(random, gold, item, np.full(250, 0.9), 3)
    item, annotator = np.append(item, [0, 1]), np.append(annotator, [5, 5])
    data = crowd(item, annotator, np.append(label, [0, 0]), n_items=50, n_annotators=6, n_classes=3)
    table = crowd_tables(labelled_items(fit_everything("dawid-skene", {}, data, {}))).annotators
    assert table is not None
    assert table["spammer"].to_pylist() == ["no"] * 5 + ["unclear"]


def test_an_answer_is_no_evidence_for_itself():
    rows = crowd([0, 0], [0, 1], [0, 1], n_items=1, n_annotators=2, n_classes=2).annotations
    chunks = leave_one_out_answers(questions_of(rows, np.array([[0.5, 0.5]]), multilabel=False), None)
    facts = annotator_facts(chunks, crowd_of(chunks, 2), np.full((1, 2), 0.5))
    assert facts.accuracy.tolist() == pytest.approx([0.25, 0.25], abs=0.01)  # Beta(1/2, 3/2): one answer, wrong
    assert facts.high.min() > 0.7
    assert facts.consensus.tolist() == [0, 0]


def test_spammer_scores_are_of_rows_that_differ():
    same, other = np.full((2, 2), 0.5), np.eye(2)
    assert spammer_scores(np.stack([same, other, other[::-1]])).tolist() == pytest.approx([0, 1, 1])


def test_the_gain_of_a_label_is_mutual_information():
    posterior, matrix = np.array([[0.3, 0.7], [1.0, 0.0]]), np.array([[0.9, 0.1], [0.2, 0.8]])
    joint = posterior[0][:, None] * matrix
    expected = (joint * np.log2(joint / (joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)))).sum()
    assert gains(posterior, matrix) == pytest.approx([expected, 0.0])


@pytest.mark.long
def test_labelling_what_tells_most_raises_accuracy_more_than_chance():
    better = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        gold = random.integers(0, 3, 1000)
        item = np.repeat(np.arange(1000), 3)
        annotator = np.concatenate([random.permutation(40)[:3] for _ in range(1000)])
        skill = random.uniform(0.6, 0.9, 40)
        label = answers_of(random, gold, item, skill[annotator], 3)

        def with_more(picked, random=random, gold=gold, item=item, annotator=annotator, label=label, skill=skill):
            asked = random.integers(0, 40, len(picked) * 3)
            more = np.repeat(picked, 3)
            said = answers_of(random, gold, more, skill[asked], 3)
            rows = [np.append(one, other) for one, other in ((item, more), (annotator, asked), (label, said))]
            data = crowd(*rows, n_items=1000, n_annotators=40, n_classes=3)
            fitted = fit_everything("dawid-skene", {}, data, {})
            return (fitted.item_probs.argmax(axis=1) == gold).mean()

        data = crowd(item, annotator, label, n_items=1000, n_annotators=40, n_classes=3)
        ranked = (
            crowd_tables(labelled_items(fit_everything("dawid-skene", {}, data, {}))).next_items["item"].to_pylist()
        )
        top = np.array([int(name[1:]) for name in ranked[:100]])
        better += with_more(top) > with_more(random.permutation(1000)[:100])
    assert better >= 19


@pytest.mark.long
def test_unlabelled_items_are_labelled_by_the_classifier(tmp_path):
    random = np.random.default_rng(0)
    gold = random.integers(0, 2, 120)
    features = (random.normal(size=(120, 2)) + 3 * np.eye(2)[gold]).astype(np.float32)
    item, annotator = np.repeat(np.arange(80), 3), np.tile(np.arange(3), 80)
    label = answers_of(random, gold, item, np.full(240, 0.85), 2)
    data = crowd(item, annotator, label, n_items=120, n_annotators=3, n_classes=2, features=features)
    write_folder(data, tmp_path / "data")
    for model in ("dl-ds", "cmm"):
        out = tmp_path / model
        words = ["label", str(tmp_path / "data"), "--model", model, "--seeds", "2", "--out", str(out)]
        assert run_command_line([*words, "--set", "network=linear", "--set", "learning_rate=0.03"]) == 0
        rows = rows_of(out / "labels.csv")
        last_words = {row["labelled_by"] for row in rows if row["answers"]}
        assert last_words == {"annotations" if model == "cmm" else "classifier"}
        without = [row for row in rows if not row["answers"]]
        assert [row["labelled_by"] for row in without] == ["classifier"] * 40
        right = [row["label"] == f"c{gold[int(row['item'][1:])]}" for row in without]
        assert np.mean(right) > 0.9
        probs = pq.read_table(out / "raw-probabilities.parquet").to_pandas().set_index("item")
        saved = load_classifier(out / "classifier")
        again = saved.predict(features[80:])
        assert saved.class_names == ("c0", "c1")
        np.testing.assert_allclose(again, probs.loc[[f"i{code}" for code in range(80, 120)]].to_numpy(), atol=1e-6)
        recipe = yaml.safe_load((out / "label.yaml").read_text())
        assert (recipe["model"], recipe["params"]["network"], recipe["seeds"]) == (model, "linear", [0, 1])


def test_of_a_sweep_the_first_model_labels_at_its_chosen_point(tmp_path, capsys):
    sweep = tmp_path / "s.yaml"
    sweep.write_text(
        "name: s\ndatasets: [anesthesia]\nmodels:\n  - majority-vote\n"
        "  - {name: dawid-skene, search: {smoothing: {values: [0.5, 2]}}}\n"
        "engine: inline\nseeds: {search: 1, report: 2}\ntracking: {enabled: false}\n"
    )
    store = tmp_path / "store"
    assert run_command_line(["run", str(sweep), "--store", str(store), "--quiet"]) == 0
    assert run_command_line(["label", str(store)]) == 0
    first = yaml.safe_load((store / "labels" / "label.yaml").read_text())
    assert "ranked first in sweep s on anesthesia: held-out log-likelihood" in first["why"]
    assert run_command_line(["label", str(store), "--model", "dawid-skene"]) == 0  # what stood there is replaced
    named = yaml.safe_load((store / "labels" / "label.yaml").read_text())
    assert named["model"] == "dawid-skene"
    assert named["why"].startswith("named by --model, from sweep s on anesthesia: held-out log-likelihood -")
    assert named["params"]["smoothing"] in (0.5, 2)
    assert rows_of(store / "labels" / "labels.csv")[0].keys() >= {"item", "label", "probability", "entropy", "answers"}
    capsys.readouterr()
    assert run_command_line(["label", str(store), "--model", "dawid"]) == 2
    assert "did you mean 'dawid-skene'" in capsys.readouterr().err


def test_where_nothing_ranks_the_models_one_is_named(tmp_path, capsys):
    (tmp_path / "once").mkdir()
    answers = "".join(f"p{item},w{item % 3},{'yn'[item % 2]}\n" for item in range(30))
    (tmp_path / "once" / "annotations.csv").write_text("item,annotator,label\n" + answers)
    sweep, store = tmp_path / "s.yaml", tmp_path / "store"
    sweep.write_text(
        "name: s\ndatasets: [once]\nmodels: [wawa, majority-vote]\nengine: inline\nseeds: {report: 1}\n"
        "tracking: {enabled: false}\n"
    )
    assert run_command_line(["run", str(sweep), "--store", str(store), "--quiet"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("labels:"))
    assert run_command_line(["label", str(store)]) == 2
    told = capsys.readouterr().err
    assert "name one by --model (" in told
    assert "go on" not in told  # the sweep has ended
    assert run_command_line(shlex.split(line)[2:]) == 0
    assert "named by --model, from sweep s on" in capsys.readouterr().out


def test_a_folder_goes_by_its_name_and_as_much_of_its_path_as_tells_it_apart(tmp_path, capsys):
    answers = "".join(f"p{item},w{who},{'yn'[item % 2]}\n" for item in range(12) for who in range(3))
    for folder in (tmp_path / "a" / "birds", tmp_path / "b" / "birds"):
        folder.mkdir(parents=True)
        (folder / "annotations.csv").write_text("item,annotator,label\n" + answers)
    rest = "models: [majority-vote]\nengine: inline\nseeds: {report: 1}\ntracking: {enabled: false}\n"
    stores = [tmp_path / "one", tmp_path / "two"]
    for store, datasets in zip(stores, ("[a/birds]", "[a/birds, b/birds]"), strict=True):
        sweep = tmp_path / "s.yaml"
        sweep.write_text(f"name: s\ndatasets: {datasets}\n{rest}")
        assert run_command_line(["run", str(sweep), "--store", str(store), "--quiet"]) == 0
    for store, name in zip(stores, ("birds", "a/birds"), strict=True):
        table = (store / "table.md").read_text()
        assert f"| {name} |" in " ".join(table.split())
        assert str(tmp_path) not in table
        assert f"{tmp_path}/a/birds</" not in (store / "report.html").read_text()
    capsys.readouterr()
    assert run_command_line(["compare", *map(str, stores)]) == 0
    assert "datasets./" not in capsys.readouterr().out
    assert run_command_line(["label", str(stores[1])]) == 2
    assert "--dataset 'a/birds' | 'b/birds'" in capsys.readouterr().err
    for named in ("b/birds", str(tmp_path / "b" / "birds")):
        assert run_command_line(["label", str(stores[1]), "--dataset", named]) == 0


@pytest.mark.parametrize(("params", "named"), [("redundancy: 2", []), ("folds: 3", ["--model", "dawid-skene"])])
def test_a_sweep_that_trains_on_less_labels_everything(params, named, tmp_path):
    sweep = tmp_path / "s.yaml"
    sweep.write_text(
        f"name: s\ndatasets: [{{name: anesthesia, {params}}}]\nmodels: [majority-vote, dawid-skene]\n"
        "engine: inline\nseeds: {report: 2}\ntracking: {enabled: false}\n"
    )
    store = tmp_path / "store"
    assert run_command_line(["run", str(sweep), "--store", str(store), "--quiet"]) == 0
    assert run_command_line(["label", str(store), *named, "--out", str(tmp_path / "with spaces")]) == 0
    rows = rows_of(tmp_path / "with spaces" / "labels.csv")
    assert (len(rows), sum(row["answers"] for row in rows)) == (45, 315)
    recipe = yaml.safe_load((tmp_path / "with spaces" / "label.yaml").read_text())
    assert shlex.split(recipe["command"])[-1] == str(tmp_path / "with spaces")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["anesthesa"], "did you mean 'anesthesia'?"),
        (["gaussians", "--model", "cmm"], "its crowd is drawn from each seed"),
        (["anesthesia", "--model", "dawid-skene", "--set", "smoothing"], "expected NAME=VALUE"),
        (["anesthesia", "--model", "dawid-skene", "--set", "smoothing=-1"], "smoothing"),
        (["anesthesia", "--model", "dawid-skene", "--set", "smoothing=["], "--set smoothing:1: this is not YAML"),
        (["anesthesia", "--model", "cmm"], "needs features"),
        (["anesthesia", "--model", "dawid-skene", "--dataset", "x"], "not the folder of a sweep"),
    ],
)
def test_what_cannot_be_labelled_is_said_in_one_line(words, message, capsys, tmp_path):
    assert run_command_line(["label", *words, "--out", str(tmp_path / "o")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_settings_are_read_as_sweep_files_are(tmp_path):
    words = ["label", "anesthesia", "--model", "dawid-skene", "--set", "tolerance=1e-9", "--out", str(tmp_path / "o")]
    assert run_command_line(words) == 0
    assert yaml.safe_load((tmp_path / "o" / "label.yaml").read_text())["params"]["tolerance"] == 1e-9


def test_a_persons_own_files_stay_where_labels_are_written_again(tmp_path, monkeypatch):
    words = ["label", "anesthesia", "--model", "dawid-skene", "--out", str(tmp_path / "o")]
    assert run_command_line([*words, "--export", "cleanlab"]) == 0
    (tmp_path / "o" / "mine.csv").write_text("mine")
    assert run_command_line(words) == 0
    names = {path.name for path in (tmp_path / "o").iterdir()}
    assert {"labels.csv", "mine.csv", "label.yaml"} <= names
    assert not [name for name in names if name.startswith("cleanlab")]  # of the earlier labels
    assert (tmp_path / "o" / "mine.csv").read_text() == "mine"

    rename = os.rename

    def full(source, target, **folders):
        if target == "labels.csv":
            raise OSError(errno.EIO, "no luck")
        return rename(source, target, **folders)

    before = (tmp_path / "o" / "label.yaml").read_text()
    monkeypatch.setattr(os, "rename", full)
    assert run_command_line(words) == 2
    assert (tmp_path / "o" / "label.yaml").read_text() == before, "what stood there stands"
    assert (tmp_path / "o" / "mine.csv").exists()


def test_other_peoples_folders_are_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert run_command_line(["label", "anesthesia", "--model", "dawid-skene", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "got one that holds other files" in told.err
    assert "named by --model" not in told.out  # refused before anything is fitted
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.long
def test_multi_label_answers_have_labels_and_annotators(shared_data):
    data = catalogue.load(str(shared_data / "medical-relations"), {})
    fitted = fit_everything("majority-vote", {}, data, {})
    labelled = labelled_items(fitted)
    labels, tables = labels_table(labelled), crowd_tables(labelled)
    assert labels.num_rows == 3142
    assert any("|" in label for label in labels["label"].to_pylist())
    assert tables.annotators is not None
    assert tables.annotators.num_rows == 466
    assert np.diff(tables.next_items["gain_bits"].to_numpy()).max() <= 0


def test_anonymous_votes_have_no_table_of_annotators(shared_data):
    data = catalogue.load(str(shared_data / "stemming"), {})
    tables = crowd_tables(labelled_items(fit_everything("majority-vote", {}, data, {})))
    assert tables.annotators is None
    assert "ask" not in tables.next_items.column_names
