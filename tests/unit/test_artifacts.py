"""Arrays of trials: what is kept of them, where, and in which order."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from journals import made_up_sweep, made_up_trials
from mirror_checks import ok, started

from crowdsweep import app
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.data import catalogue
from crowdsweep.errors import FitFailed, JournalError
from crowdsweep.record import artifacts
from crowdsweep.record.artifacts import Artifact, within_limit
from crowdsweep.record.codec import encode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import Journal, open_rows, read_journal
from crowdsweep.record.kept_arrays import array_of, content_of, place_of
from crowdsweep.record.local_writer import LocalWriter
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.result import CROWD_CONFUSION, MOST_CLASSES_INLINE, Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.trial.learning_curve import CurveSpec
from crowdsweep.trial.runner import run_batch
from crowdsweep.views.report_files import write_report

E = "e" * 16

ARRAYS = {
    "shares": np.array([0.5, 0.25, np.nan]),
    "counts": np.arange(6, dtype=np.int32).reshape(2, 3),
    "names": np.array(["a", "déjà vu"]),
    "none": np.zeros((0, 4), dtype=bool),
}
SCORES = {"item_scores.dev", "items_scored.dev", "votes_kurtosis.dev"}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rows=LocalWriter(tmp_path))
    kept = journal.keep(ARRAYS)
    assert kept == journal.keep({name: array.copy() for name, array in ARRAYS.items()})
    journal.handle_many([started(), TrialFinished(result=replace(ok(E).result, kept=kept))])
    journal.close()
    journal = Journal(tmp_path, rows=LocalWriter(tmp_path))
    told = journal.state.results[E].kept
    journal.close()
    assert told == kept
    for name, array in ARRAYS.items():
        back = array_of(open_rows(tmp_path), told[name])
        assert back is not None
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert (told[name].dtype, told[name].shape) == (array.dtype.str, array.shape)
        np.testing.assert_array_equal(back, array)
    assert len(list(tmp_path.rglob("*.npy"))) == len(ARRAYS), "equal arrays are kept once"
    assert not list(tmp_path.rglob("*.new"))


def test_only_who_writes_the_journal_writes_arrays(tmp_path: Path) -> None:
    rows = LocalWriter(tmp_path)
    rows.put("artifacts", {"a.npy": b"first"})
    rows.put("artifacts", {"a.npy": b"other", "c.npy": b""})
    rows.close()
    with pytest.raises(JournalError, match="not open for writing"):
        rows.put("artifacts", {"b.npy": b"x"})
    for reader in (rows, open_rows(tmp_path)):
        assert reader.get("artifacts/a.npy") == b"first"
        assert reader.get("artifacts/b.npy") is None
        assert reader.get("artifacts/c.npy") == b""


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver dies while it writes an array: the next one writes it again, and what is named is whole."""
    journal = Journal(tmp_path)

    def dies(*_: object, **folders: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            journal.keep(ARRAYS)
    assert not list(tmp_path.rglob("*.npy"))
    assert not list(tmp_path.rglob("*.new")), "nor does the draft stay"
    kept = journal.keep(ARRAYS)
    journal.close()
    assert {place_of(artifact) for artifact in kept.values()} == {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.npy")
    }


def test_a_disk_that_cannot_hold_them_stops_the_record(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match="could not be written"):
        journal.keep(ARRAYS)
    with pytest.raises(JournalError, match="could not be written"):
        journal.handle(ok(E))
    journal.close()


def test_what_is_gone_or_was_too_large_is_none(tmp_path: Path) -> None:
    rows = open_rows(tmp_path)
    assert array_of(rows, Artifact(dtype="<f8", shape=(9,))) is None
    assert content_of(rows, Artifact(digest="0" * 32, dtype="<f8", shape=(9,))) is None


def test_arrays_never_stand_in_a_row() -> None:
    result = replace(ok(E).result, artifacts=ARRAYS, kept={"big": Artifact(dtype="<f8", shape=(9,))})
    row = encode(TrialFinished(result=result))
    assert "artifacts" not in row
    assert '"kept":{"big":{"digest":"","dtype":"<f8","shape":[9]}}' in row


def test_the_largest_are_left_out_and_the_record_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert artifacts.MOST_BYTES == 16 * 2**20
    monkeypatch.setattr(artifacts, "MOST_BYTES", 100)
    arrays = {"large": np.zeros(11), "small": np.zeros(4), "middle": np.zeros(8)}
    kept, left_out = within_limit(arrays)
    assert list(kept) == ["small", "middle"]
    assert left_out == {"large": Artifact(dtype="<f8", shape=(11,))}
    assert within_limit({}) == ({}, {})


def test_what_is_no_array_of_values_is_the_models_fault() -> None:
    with pytest.raises(FitFailed, match=r"extra 'shapes': expected an array of numbers.*got object"):
        within_limit({"shapes": np.array([{"a": 1}], dtype=object)})


def test_a_sweep_keeps_what_its_models_bring(tmp_path: Path) -> None:
    config = parse_sweep(
        {
            "name": "kept",
            "datasets": ["anesthesia"],
            "models": [{"name": "dawid-skene", "params": {"smoothing": 0.1}}, "majority-vote"],
            "seeds": {"report": 2},
            "engine": "inline",
            "tracking": {"enabled": False},
        }
    )
    app.run(config, tmp_path, quiet=True)
    state, rows = read_journal(tmp_path), open_rows(tmp_path)
    for key, spec in state.specs.items():
        kept = state.results[key].kept
        assert set(kept) == ({"class_shares"} if spec.model == "dawid-skene" else set())
        for artifact in kept.values():
            shares = array_of(rows, artifact)
            assert shares is not None
            assert shares.shape == artifact.shape == (4,)
            assert shares.sum() == pytest.approx(1.0)


MATRICES = """
from dataclasses import dataclass
from typing import final

import numpy as np

from crowdsweep.models.contract import ConfusionMatrices, FitResult, ModelInfo



@final
@dataclass(frozen=True, kw_only=True)
class Diagonal:
    extra: str = "numbers"

    def fit(self, data, context):
        n_classes = data.n_classes
        for step in range(1, 5):
            context.report(step, float(step), lambda: Flat(n_classes))
        return FitResult(
            item_probs=data.annotations.label_distribution(),
            annotators=ConfusionMatrices(matrices=np.repeat(np.eye(n_classes)[None], data.n_annotators, axis=0)),
            predictor=Flat(n_classes),
            extras={"own": np.arange(3) if self.extra == "numbers" else np.array([print])},
        )


class Flat:
    uses = ("plain",)

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def predict(self, items, use):
        return np.full((items.n_items, self.n_classes), 1.0 / self.n_classes)


MODEL = ModelInfo(name="diagonal", title="t", model=Diagonal, source="s", cost=lambda shape, params: 1.0)
"""


@pytest.fixture
def diagonal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TrialResult]:
    """Runs a model that knows one matrix, on a dataset with so many classes whose dev items have gold."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "diagonal.py").write_text(MATRICES)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(plugins))

    def run(n_classes: int, extra: str = "numbers") -> TrialResult:
        folder = tmp_path / f"{n_classes} classes"
        folder.mkdir()
        rows = [f"i{item},w,{item:03d}" for item in range(n_classes)]
        (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
        gold = [f"i{item},{'dev' if item % 2 else 'train'},{item:03d}" for item in range(n_classes)]
        (folder / "items.csv").write_text("\n".join(["item,split,gold", *gold]) + "\n")
        base = catalogue.load(str(folder), {})
        spec = TrialSpec(
            model="diagonal",
            params={"extra": extra},
            model_version=1,
            dataset=str(folder),
            fingerprint=base.fingerprint,
            seed=0,
        )
        (result,) = run_batch([spec], base, "cpu", lambda event: True, CurveSpec(metric="dev_accuracy", every=2))
        return result

    return run


def test_a_matrix_of_many_classes_is_an_array(diagonal: Callable[..., TrialResult]) -> None:
    few, many = diagonal(MOST_CLASSES_INLINE), diagonal(MOST_CLASSES_INLINE + 1)
    assert few.confusion is not None
    assert set(few.artifacts) == {"own"} | SCORES
    assert many.confusion is None
    np.testing.assert_array_equal(many.artifacts[CROWD_CONFUSION], np.eye(MOST_CLASSES_INLINE + 1))


def test_a_curve_says_which_metric_it_is_of(diagonal: Callable[..., TrialResult]) -> None:
    result = diagonal(4)
    assert result.watched == "dev_accuracy"
    assert [step for step, _ in result.curve] == [2, 4]
    assert result.curve[-1][1] == result.metrics["dev_accuracy"]


def test_what_does_not_fit_is_left_out_where_it_was_made(
    diagonal: Callable[..., TrialResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MOST_BYTES", 20)
    result = diagonal(4)
    assert set(result.artifacts) == {"items_scored.dev", "votes_kurtosis.dev"}  # 8 bytes each
    assert set(result.kept) == {"own", "item_scores.dev"}
    assert result.kept["own"] == Artifact(dtype="<i8", shape=(3,))
    assert result.status is Status.OK


def test_an_extra_that_is_no_array_of_values_fails_its_trial(diagonal: Callable[..., TrialResult]) -> None:
    result = diagonal(4, extra="functions")
    assert result.failure is not None
    assert (result.failure.kind, "extra 'own'" in result.failure.message) == ("FitFailed", True)


def test_the_page_draws_a_matrix_of_many_classes(tmp_path: Path) -> None:
    n_classes = MOST_CLASSES_INLINE + 1
    journal = Journal(tmp_path)
    kept = journal.keep({CROWD_CONFUSION: np.eye(n_classes)})
    events = made_up_trials("cmm", "d", [{"test_accuracy": 0.5}] * 2)
    with_matrix = [
        TrialFinished(result=replace(event.result, kept=kept)) if isinstance(event, TrialFinished) else event
        for event in events
    ]
    journal.handle_many(made_up_sweep(with_matrix, models=[{"name": "cmm", "label": "cmm", "params": {}}]))
    journal.close()
    assert "How the crowd answers, after cmm" in write_report(tmp_path).read_text()
    for file in tmp_path.glob("artifacts/*.npy"):
        file.unlink()
    assert "How the crowd answers" not in write_report(tmp_path).read_text()


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_trials_whose_arrays_are_lost_are_made_up_for(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without their arrays the intervals are others; `repair` has those trials run again."""
    config = parse_sweep(
        {
            "name": "small",
            "datasets": [{"name": "gaussians", "items": 20, "annotators": 6}],
            "models": ["majority-vote", "uniform"],
            "seeds": {"report": 3},
            "engine": "inline",
            "tracking": {"enabled": False},
        }
    )
    app.run(config, tmp_path, quiet=True)
    before = read_journal(tmp_path)
    assert repair_journal(tmp_path).copy is None
    (models,) = comparison_of(before, KeptScores(before, open_rows(tmp_path))).datasets
    files = {path: path.read_bytes() for path in (tmp_path / "artifacts").iterdir()}
    lost = [key for key in before.results if before.specs[key].model == "majority-vote"]
    for digest in {one.digest for key in lost for name, one in before.results[key].kept.items() if "scores" in name}:
        path = tmp_path / "artifacts" / f"{digest}.npy"
        path.unlink() if how == "gone" else path.write_bytes(path.read_bytes()[::-1])
    write_report(tmp_path)
    assert ("files of 3 trials are missing" in caplog.text) is (how == "gone")
    done = repair_journal(tmp_path)
    assert (done.dropped, done.missing, done.without_arrays) == (0, 0, 3)
    assert set(read_journal(tmp_path).results) == set(before.results) - set(lost)
    assert app.run(config, tmp_path, quiet=True).ran == 3
    assert {path: path.read_bytes() for path in (tmp_path / "artifacts").iterdir()} == files
    after = read_journal(tmp_path)
    assert {key: result.metrics for key, result in after.results.items()} == {
        key: result.metrics for key, result in before.results.items()
    }
    (again,) = comparison_of(after, KeptScores(after, open_rows(tmp_path))).datasets
    assert [score.metrics for score in again.ranked] == [score.metrics for score in models.ranked]


def test_the_report_maps_annotators_of_whom_a_model_kept_vectors(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    kept = journal.keep({"annotator_embeddings": vectors, "annotator_errors": np.linspace(0, 1, 12)})
    events = made_up_trials("lia", "d", [{"test_accuracy": 0.5}] * 2)
    with_vectors = [
        TrialFinished(result=replace(event.result, kept=kept)) if isinstance(event, TrialFinished) else event
        for event in events
    ]
    journal.handle_many(made_up_sweep(with_vectors, models=[{"name": "lia", "label": "lia", "params": {}}]))
    journal.close()
    assert write_report(tmp_path).read_text().count("Annotators, as lia sees them") == 1
    assert [file.name for file in tmp_path.glob("*.png")] == ["annotators-1.png"]
