"""`import crowdsweep as cs`: what the command line answers, to the last bit, from Python."""

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

import crowdsweep as cs
from crowdsweep.analysis.trial_table import TRIAL_COLUMNS
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.on_disk.folder import write_folder
from crowdsweep.data.simulate import simulate_crowd
from crowdsweep.errors import BadInput, ConvergenceWarning, DataError, UnknownName
from crowdsweep.files.manifest import LIST_FILE
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.record.events import SweepStatus
from crowdsweep.seeds import SeedStream
from crowdsweep.sweep.driver import SweepOutcome

ROWS = {
    "item": ["p2", "p1", "p1", "p2", "p10", "p10"],
    "annotator": ["bob", "ann", "bob", "ann", "ann", "cleo"],
    "label": ["dog", "cat", "cat", "cat", "dog", "dog"],
    "gold": ["dog", "cat", None, None, None, None],
}
CHANGES = {"wall_s", "batch_wall_s", "peak_bytes", "host"}  # from one run to the next


def in_a_process(*words: str, threads: str = "1") -> str:
    """Runs Python in a process of its own, and returns what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, *words],
        env={**environment, "OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder: 120 items with features, 80 of them answered three times."""
    random = np.random.default_rng(0)
    gold = random.integers(0, 2, 120).astype(np.int32)
    annotations, _ = simulate_crowd(
        gold[:80],
        items=np.arange(80, dtype=np.int32),
        n_items=120,
        n_annotators=6,
        labels_per_item=3.0,
        group_probs=np.array([1.0]),
        confusion=np.array([[[0.85, 0.15], [0.2, 0.8]]]),
        seeds=SeedStream(0),
    )
    base = cs.load(ROWS).dataset
    features = (random.normal(size=(120, 40)) + 2 * np.eye(2)[gold][:, [0, 1] * 20]).astype(np.float32)
    data = replace(
        base,
        annotations=annotations,
        items=replace(base.items, n_items=120, features=features),
        split=np.zeros(120, np.int8),
        gold=replace(base.gold, item=np.empty(0, np.int32), label=np.empty(0, np.int32)),
        item_names=[f"i{code}" for code in range(120)],
        annotator_names=[f"a{code}" for code in range(6)],
    )
    folder = tmp_path_factory.mktemp("data") / "pictures"
    write_folder(data, folder)
    return folder


def test_importing_it_imports_nothing_of_it() -> None:
    program = (
        "import json, sys; before = set(sys.modules); import crowdsweep\n"
        "fresh = set(sys.modules) - before\n"
        "print([name for name in fresh if name.partition('.')[0] not in sys.stdlib_module_names], len(fresh))"
    )
    fresh, number = in_a_process("-c", program).rsplit(" ", 1)
    assert fresh == "['crowdsweep']"
    assert int(number) < 60  # the standard library's that typing and importlib bring


def test_all_that_is_promised_is_there_and_sorted() -> None:
    assert cs.__all__ == sorted(cs.__all__)
    assert set(cs.__all__) <= set(dir(cs))
    for name in cs.__all__:
        assert getattr(cs, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = cs.fitt


def test_a_vote_needs_no_network_library() -> None:
    program = (
        "import sys, crowdsweep as cs\n"
        f"fit = cs.fit('dawid-skene', {ROWS!r})\n"
        "fit.labels, fit.annotators, fit.next_items\n"
        "heavy = {'torch', 'ray', 'mlflow', 'optuna', 'sklearn', 'matplotlib'}\n"
        "print(cs.models()['dawid-skene'][:5], sorted(heavy & set(sys.modules)))"
    )
    assert in_a_process("-c", program) == "Dawid []\n"


def test_models_are_listed_before_and_after_one_was_imported() -> None:
    program = (
        "import crowdsweep as cs; first = cs.models()\n"
        "from crowdsweep.models import registered; print(cs.models() == first)"
    )
    assert in_a_process("-c", program) == "True\n"
    assert list(cs.models()) == sorted(cs.models())
    assert cs.models()["majority-vote"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "settings"),
    [("dawid-skene", {"smoothing": 0.5}), ("cmm", {"iterations": 4, "restarts": 2, "steps": 0})],
)
def test_a_fit_writes_what_the_command_writes_whatever_its_threads(model, settings, pictures, tmp_path) -> None:
    program = (
        "import sys, json, crowdsweep as cs\n"
        "cs.fit(sys.argv[1], sys.argv[2], seeds=2, **json.loads(sys.argv[3])).save(sys.argv[4])"
    )
    in_a_process("-c", program, model, str(pictures), json.dumps(settings), str(tmp_path / "python"), threads="4")
    words = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = ["label", str(pictures), "--model", model, "--seeds", "2", *words, "--out", str(tmp_path / "command")]
    in_a_process("-m", "crowdsweep", *command)
    ours, theirs = (
        {path.relative_to(tmp_path / name): path for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("python", "command")
    )
    assert set(ours) == set(theirs)
    assert (Path("classifier/fit-0.safetensors") in ours) == (model == "cmm")
    for name in set(ours) - {Path("label.yaml"), Path(LIST_FILE)}:  # the latter has the digest of the former
        assert ours[name].read_bytes() == theirs[name].read_bytes(), name
    told, other = (yaml.safe_load((tmp_path / name / "label.yaml").read_text()) for name in ("python", "command"))
    for key in ("command", "why", "written"):
        assert told.pop(key) != "" != other.pop(key)
    assert told == other


def test_what_made_labels_stands_beside_them(pictures, tmp_path) -> None:
    cs.fit("dawid-skene", pictures, smoothing=0.5).save(tmp_path / "one")
    line = yaml.safe_load((tmp_path / "one" / "label.yaml").read_text())["command"]
    assert line.startswith("crowdsweep.fit('dawid-skene', crowdsweep.load(")
    exec(f"import crowdsweep\n{line.replace(repr(str(tmp_path / 'one')), repr(str(tmp_path / 'two')))}")
    assert (tmp_path / "one" / "labels.csv").read_bytes() == (tmp_path / "two" / "labels.csv").read_bytes()


def test_the_tables_are_the_files(pictures, tmp_path) -> None:
    fit = cs.fit("dl-ds", pictures, seeds=2, epochs=5)
    fit.save(tmp_path / "o")
    assert fit.labels.equals(pq.read_table(tmp_path / "o" / "labels.parquet"))
    assert fit.probabilities.equals(pq.read_table(tmp_path / "o" / "probabilities.parquet"))
    assert fit.confusion is not None
    assert fit.confusion.equals(pq.read_table(tmp_path / "o" / "confusion.parquet"))
    assert fit.annotators is not None
    assert fit.annotators.column_names == pa_csv.read_csv(tmp_path / "o" / "annotators.csv").column_names
    assert fit.next_items.column_names == pa_csv.read_csv(tmp_path / "o" / "next.csv").column_names
    assert fit.labels.to_pandas().shape == (120, 9)


def test_predictions_are_what_items_without_answers_get(pictures, tmp_path) -> None:
    data = cs.load(pictures)
    fit = cs.fit("dl-ds", data, seeds=2, epochs=5)
    fit.save(tmp_path / "o")
    features = data.dataset.items.features
    assert features is not None
    places = [data.items.index(f"i{code}") for code in range(80, 120)]
    fresh = fit.raw_probabilities.filter(pa.compute.equal(fit.labels["answers"], 0))
    rows = sorted(places)
    given = {"item": [data.items[row] for row in rows], **{f"f{n}": features[rows, n] for n in range(40)}}
    assert fit.predict_proba(given).equals(fresh)
    assert fit.predict_proba(features[rows]).equals(fresh.drop_columns(["item"]))
    saved = load_classifier(tmp_path / "o" / "classifier")
    np.testing.assert_allclose(saved.predict(features[rows]), fresh.drop_columns(["item"]).to_pandas(), atol=1e-7)
    told = fit.predict(pd.DataFrame(given))
    assert told.column_names == ["item", "label", "probability"]
    assert told["label"].equals(fit.labels.filter(pa.compute.equal(fit.labels["answers"], 0))["label"])


class Stream:
    """What polars, DuckDB and others give to Arrow."""

    def __init__(self, rows) -> None:
        self._table = pa.table(rows)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        pd.DataFrame,
        pa.table,
        Stream,
        lambda rows: pa.table(rows).to_batches()[0],
        lambda rows: pd.DataFrame(rows).astype("category"),
        lambda rows: pd.DataFrame(rows, index=list("abcdef")),
        lambda rows: {name: pa.array(column).cast(pa.string_view()) for name, column in rows.items()},
    ],
)
def test_every_form_of_a_table_is_the_dataset_of_its_folder(form, tmp_path) -> None:
    csv = "".join(
        f"{','.join(str(value or '') for value in row)}\n" for row in [list(ROWS), *zip(*ROWS.values(), strict=True)]
    )
    (tmp_path / "rows.csv").write_text(csv)
    words = ["data", "import", "csv", str(tmp_path / "rows.csv"), str(tmp_path / "folder")]
    assert run_command_line([*words, *(part for name in ROWS for part in (f"--{name}", name))]) == 0
    loaded, folder = cs.load(form(ROWS)), cs.load(tmp_path / "folder")
    assert loaded.dataset.fingerprint == folder.dataset.fingerprint
    assert loaded.items == folder.items == ["p1", "p2", "p10"]
    assert loaded.classes == ("cat", "dog")
    assert list(loaded.dataset.annotator_names) == ["ann", "bob", "cleo"]
    loaded.save(tmp_path / "saved")
    assert cs.load(tmp_path / "saved").dataset.fingerprint == loaded.dataset.fingerprint


def test_numbers_have_no_spelling() -> None:
    table = pd.DataFrame({"item": [1.0, 2.0, 2.0], "annotator": [7, 7, 8], "label": [1, 0, 1], "gold": [np.nan, 1, 1]})
    data = cs.load(table)
    assert (data.items, data.classes) == (["1", "2"], ("0", "1"))
    assert data.dataset.gold.label.tolist() == [1]


def test_what_is_missing_among_fractions_is_missing() -> None:
    columns = {"item": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": [0.5, 1.5, 0.5, 0.5]}
    data = cs.load({**columns, "gold": [0.5, np.nan, np.nan, np.nan]})
    assert (data.classes, len(data.dataset.gold.item)) == (("0.5", "1.5"), 1)
    assert not len(cs.load({**columns, "gold": [np.nan] * 4}).dataset.gold.item)


def test_classes_are_declared_and_weights_and_features_are_read() -> None:
    rows = {**ROWS, "weight": [1, 2, 1, 1, 1, 1]}
    features = pd.DataFrame({"item": ["p10", "p2", "p3", "p1"], "x": [1, 2, 3, 4], "y": [0.5, 0.5, 0.5, 1.5]})
    data = cs.load(rows, classes=["dog", "cat", "bird"], features=features, scenario="global")
    assert data.classes == ("dog", "cat", "bird")
    assert data.items == ["p1", "p2", "p3", "p10"]
    assert data.dataset.items.features is not None
    assert data.dataset.items.features[:, 0].tolist() == [4, 2, 3, 1]
    assert data.dataset.annotations.weight is not None
    assert data.dataset.annotations.weight.sum() == 7
    assert cs.fit("dawid-skene", data).annotators is None
    assert cs.load(data) is data


BAD_TABLES = [
    ({"task": [1]}, {}, "table: expected a column 'item', got columns 'task'; rename it"),
    (3, {}, "table: expected a folder, a name, or a table"),
    ({**ROWS, "label": ["a"]}, {}, "expected columns of one length"),
    ({**ROWS, "label": ["a", 2, "a", "b", "a", "b"]}, {}, "table, column label: expected columns"),
    (
        {**ROWS, "item": [*ROWS["item"][:5], None]},
        {},
        "table, row 6, column item: expected an item, got an empty field",
    ),
    ({**ROWS, "label": ["cat"] * 6, "gold": ["cat"] * 6}, {}, "got only 'cat'; declare them by `classes`"),
    ({**ROWS, "gold": [None, "cat", "dog", None, None, None]}, {}, "table, column gold: expected one gold class for"),
    ({**ROWS, "gold": ["Dog", None, None, None, None, None]}, {}, "'Dog' where labels say 'dog'"),
    (ROWS, {"scenaro": "global"}, "did you mean 'scenario'"),
    (ROWS, {"features": {"x": [1]}}, "features: expected a column 'item'"),
    (ROWS, {"features": {"item": ["p1"], "x": ["z"]}}, "features, column x: expected numbers"),
    (ROWS, {"features": {"item": ["p1"], "x": [1]}}, "features: expected features of every item, 2 have none"),
    ("anesthesia", {"features": {"item": ["p1"], "x": [1]}}, "features: expected the KIND"),
    ("anesthesia", {"classes": ["a"]}, "classes: anesthesia is a folder or a name"),
]


@pytest.mark.parametrize(("source", "settings", "message"), BAD_TABLES)
def test_what_is_no_table_of_answers_is_told_by_its_column(source, settings, message) -> None:
    with pytest.raises(BadInput) as caught:
        cs.load(source, **settings)
    assert message in str(caught.value)
    assert "crowdsweep-table" not in str(caught.value)  # where it lay for a moment is nobody's


def test_bad_models_parameters_and_features_are_the_command_s_errors(pictures) -> None:
    with pytest.raises(UnknownName, match="did you mean 'dawid-skene'"):
        cs.fit("dawid-sken", ROWS)
    with pytest.raises(UnknownName, match="did you mean 'smoothing'"):
        cs.fit("dawid-skene", ROWS, smothing=1)
    with pytest.raises(BadInput, match="seeds: expected a whole number"):
        cs.fit("dawid-skene", ROWS, seeds=0)
    with pytest.raises(DataError, match="needs features"):
        cs.fit("cmm", ROWS)
    with pytest.raises(BadInput, match="labels only items that have answers"):
        cs.fit("dawid-skene", ROWS).predict([[1.0]])
    fit = cs.fit("dl-ds", pictures, seeds=1, epochs=1)
    for given, message in (
        ([[1.0, 2.0]], r"expected shape \[items, 40\]"),
        ([1.0], r"got shape \[1\]"),
        ([["a"]], "expected numbers"),
        ([[np.nan] * 40], "row 0: expected finite"),
        (["a text"], "cannot read these"),
    ):
        with pytest.raises(BadInput, match=message):
            fit.predict(given)


def test_numpy_s_numbers_are_numbers() -> None:
    with pytest.warns(ConvergenceWarning, match="still clearly improved"):
        fit = cs.fit("dawid-skene", ROWS, smoothing=np.float64(0.5), iterations=np.int64(3))
    assert fit.params["iterations"] == 3


SWEEP = {
    "name": "s",
    "datasets": ["anesthesia"],
    "models": ["majority-vote", {"name": "dawid-skene", "search": {"smoothing": {"values": [0.5, 2]}}}],
    "engine": "inline",
    "seeds": {"search": 1, "report": 2},
    "tracking": {"enabled": False},
}


def test_a_sweep_is_the_command_s_sweep(tmp_path, capsys) -> None:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(SWEEP))
    assert run_command_line(["run", str(tmp_path / "s.yaml"), "--store", str(tmp_path / "command"), "--quiet"]) == 0
    theirs = cs.results(str(tmp_path / "command"))
    ours = cs.run(SWEEP, store=tmp_path / "python", quiet=True)
    for phase in ("report", "all"):
        told, other = (found.trials(phase).drop_columns(list(CHANGES)) for found in (ours, theirs))
        assert told.equals(other)
        assert set(TRIAL_COLUMNS) - CHANGES - {"asked"} <= set(told.column_names)
    assert ours.table.equals(ours.trials("report"))
    chosen = ours.recommended()
    assert (chosen.model, dict(chosen.params)) == (theirs.recommended().model, dict(theirs.recommended().params))
    ranked = ours.comparison.to_pylist()[0]
    assert (ranked["rank"], ranked["model"]) == (1, chosen.model)
    assert run_command_line(["label", str(tmp_path / "command"), "--out", str(tmp_path / "one")]) == 0
    ours.label().save(tmp_path / "two")
    for name in ("labels.csv", "annotators.csv", "next.csv", "probabilities.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    named = pickle.loads(pickle.dumps(ours.label(model="dawid-skene", seeds=1)))
    assert named.params["smoothing"] in (0.5, 2)
    told, other = (yaml.safe_load((tmp_path / name / "label.yaml").read_text()) for name in ("two", "one"))
    assert told["why"] == other["why"]
    assert "crowdsweep.results(" in told["command"]
    before = ours.table.num_rows
    again = cs.run(tmp_path / "s.yaml", store=tmp_path / "python", quiet=True, overrides={"seeds.report": 3})
    assert again.table.num_rows == ours.table.num_rows == before * 3 // 2
    assert again.report.is_file()
    assert repr(again) == "<Results s: done, 8 of 8 trials done>"
    assert "majority-vote" in again._repr_html_()


def test_what_failed_in_a_sweep_is_told(misbehaving, tmp_path, caplog) -> None:
    sweep = {
        **SWEEP,
        "models": ["majority-vote", {"name": "poisoned", "params": {"every": 1}}],
        "budget": {"failed_trials": 1},
    }
    found = cs.run(sweep, store=tmp_path / "s", quiet=True)
    assert found.status["failed"] == 2
    assert (
        "s: 2 trials failed; the report lists them with their errors. Try them again with retry_failed" in caplog.text
    )


def test_an_interrupted_sweep_is_an_interrupt(tmp_path, monkeypatch) -> None:
    outcome = SweepOutcome(status=SweepStatus.INTERRUPTED, planned=4, finished=1, failed=0, ran=1, dropped=True)
    monkeypatch.setattr("crowdsweep.app.run", lambda *_, **__: outcome)
    with pytest.raises(KeyboardInterrupt, match="nothing that finished is lost"):
        cs.run(SWEEP, store=tmp_path / "s")


def test_a_sweep_needs_the_thread_that_hears_ctrl_c(tmp_path) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(BadInput, match="in the main thread"):
        threads.submit(cs.run, SWEEP, store=tmp_path / "s").result()


def test_bad_sweeps_are_the_command_s_errors(tmp_path) -> None:
    with pytest.raises(BadInput, match=r"models\.0\.name: unknown model 'dawid-sken'"):
        cs.run({**SWEEP, "models": ["dawid-sken"]})
    with pytest.raises(BadInput, match=r"--set seeds\.reprt=3"):
        cs.run(SWEEP, overrides={"seeds.reprt": 3})
    with pytest.raises(BadInput, match="found nothing there"):
        cs.results(tmp_path / "nowhere")


def test_everything_shows_itself_and_escapes_what_it_shows() -> None:
    rows = {**ROWS, "item": ["<script>", "p1"] * 3, "gold": [None] * 6}
    fit = cs.fit("dawid-skene", rows, seeds=1)
    assert repr(cs.load(rows)) == "<Data table: 2 items, 3 annotators, 6 labels, 2 classes>"
    assert repr(fit) == "<Fit dawid-skene on table: 1 fit, 2 items labelled>"
    html = fit._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<td>cat</td>" in html
    assert "cat, dog" in cs.load(rows)._repr_html_()
