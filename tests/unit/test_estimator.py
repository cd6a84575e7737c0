"""`cs.CrowdClassifier`: scikit-learn's own checks, and the command line's answers."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, DataError, UnknownName

QUICK = {"network": "linear", "learning_rate": 0.1, "epochs": 30, "steps": 0, "patience": None}

# Checks of scikit-learn that do not apply, each with the reason.
FAIL = {
    "check_supervised_y_2d": "a matrix of one column is a crowd of one, and nothing to be warned of",
}
NOT_RUN = {
    "check_array_api_input": "it is run where SCIPY_ARRAY_API is set; arrays are numpy's here",
    "check_do_not_raise_errors_in_init_or_set_params": "the suite checks types of arguments; run without that below",
}


def checks():
    for estimator, check in estimator_checks_generator(cs.CrowdClassifier("soft-mv", seeds=1, **QUICK)):
        name = check.func.__name__
        marks = [pytest.mark.xfail(reason=FAIL[name], strict=True)] if name in FAIL else []
        if name not in NOT_RUN:
            told = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            yield pytest.param(estimator, check, id=f"{name}-{told}", marks=marks)


CHECKS = list(checks())


@pytest.mark.filterwarnings("ignore")  # checks provoke warnings on purpose
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_s_checks(estimator, check) -> None:
    check(estimator)


def test_most_checks_of_scikit_learn_apply() -> None:
    assert len(CHECKS) - len(FAIL) > 45


def test_nothing_is_refused_before_it_is_fitted() -> None:
    program = (
        "import crowdsweep as cs\n"
        "from sklearn.utils.estimator_checks import check_do_not_raise_errors_in_init_or_set_params as check\n"
        "check('CrowdClassifier', cs.CrowdClassifier('soft-mv', epochs=3))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def answers_of(n_items=150, n_annotators=5, seed=0):
    """Features, gold and a matrix of answers, two fifths of which are missing."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, 3, n_items)
    features = random.normal(size=(n_items, 3)) + 3 * np.eye(3)[gold]
    wrong = (gold[:, None] + random.integers(1, 3, (n_items, n_annotators))) % 3
    answers = np.where(random.random((n_items, n_annotators)) < 0.8, gold[:, None], wrong)
    return features, gold, np.where(random.random((n_items, n_annotators)) < 0.6, answers, -1)


def test_a_matrix_gives_what_the_command_gives(tmp_path) -> None:
    _, _, answers = answers_of()
    np.save(tmp_path / "answers.npy", answers)
    assert run_command_line(["data", "import", "matrix", str(tmp_path / "answers.npy"), str(tmp_path / "d")]) == 0
    words = ["label", str(tmp_path / "d"), "--model", "dawid-skene", "--set", "smoothing=0.5"]
    assert run_command_line([*words, "--out", str(tmp_path / "o")]) == 0
    ours = cs.CrowdClassifier("dawid-skene", smoothing=0.5).fit(None, answers)
    assert ours.result_.labels.equals(pq.read_table(tmp_path / "o" / "labels.parquet"))
    assert ours.result_.probabilities.equals(pq.read_table(tmp_path / "o" / "probabilities.parquet"))
    with pytest.raises(BadInput, match="labels only items that have answers"):
        ours.predict([[1.0]])


def test_a_dataset_gives_what_a_fit_gives(tmp_path) -> None:
    features, _, answers = answers_of()
    item, annotator = np.nonzero(answers >= 0)
    rows = {"item": item, "annotator": annotator, "label": answers[item, annotator]}
    known = {"item": np.arange(len(features)), **{f"f{n}": features[:, n] for n in range(3)}}
    data = cs.load(rows, features=known)
    fit = cs.fit("dl-ds", data, seeds=2, **QUICK)
    expected = fit.predict_proba(features)
    for X, y in ((None, data), (features, data), (features, cs.load(rows)), (features, answers)):
        ours = cs.CrowdClassifier("dl-ds", seeds=2, **QUICK).fit(X, y)
        assert np.array_equal(ours.predict_proba(features), expected.to_pandas().to_numpy())
        assert ours.n_features_in_ == 3
        assert ours.classes_.tolist() == ([0, 1, 2] if y is answers else ["0", "1", "2"])
        assert ours.predict(features).tolist() == ours.classes_[expected.to_pandas().to_numpy().argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    "form",
    [
        lambda answers: np.where(answers < 0, np.nan, answers),
        lambda answers: pd.DataFrame(answers).replace(-1, pd.NA).astype("Int64"),
        lambda answers: [[None if answer < 0 else answer for answer in row] for row in answers.tolist()],
        lambda answers: np.array(["", "a", "b", "c"])[answers + 1],
        lambda answers: pd.DataFrame(np.array([None, "a", "b", "c"], dtype=object)[answers + 1]),
        lambda answers: np.where(answers == 0, np.nan, answers + 0.0),
    ],
)
def test_answers_that_are_missing_are_marked_in_many_ways(form) -> None:
    _, _, answers = answers_of()
    given = form(answers)
    ours = cs.CrowdClassifier("majority-vote").fit(None, given)
    kept = np.asarray(ours.result_.labels["answers"])
    expected = (answers > 0) if len(ours.classes_) == 2 else (answers >= 0)
    assert kept.sum() == expected.sum()
    assert ours.classes_.tolist() in ([0, 1, 2], ["a", "b", "c"], [1, 2])


def test_names_of_columns_are_annotators() -> None:
    answers = pd.DataFrame({"ann": [0, 1, 1], "bob": [0, 1, -1]})
    fit = cs.CrowdClassifier("dawid-skene").fit(None, answers).result_
    assert fit.annotators is not None
    assert fit.annotators["annotator"].to_pylist() == ["ann", "bob"]
    assert fit.annotators["answers"].to_pylist() == [3, 2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_learns_in_pipelines_grids_and_folds_and_can_be_pickled() -> None:
    features, gold, answers = answers_of()
    estimator = cs.CrowdClassifier("dl-ds", seeds=1, **QUICK)
    pipeline = make_pipeline(StandardScaler(), estimator).fit(features, answers)
    assert pipeline.score(features, gold) > 0.9
    assert np.array_equal(
        pickle.loads(pickle.dumps(pipeline)).predict_proba(features), pipeline.predict_proba(features)
    )
    said = cross_val_predict(estimator, features, answers, cv=3)
    assert (said == gold).mean() > 0.9
    grid = GridSearchCV(
        estimator,
        {"learning_rate": np.array([1e-6, 0.1]), "smoothing": [0.1]},
        scoring=lambda fitted, X, y: (fitted.predict(X)[:, None] == y)[y >= 0].mean(),
        cv=2,
    )
    assert grid.fit(features, answers).best_params_ == {"learning_rate": 0.1, "smoothing": 0.1}


def test_parameters_are_those_that_were_given() -> None:
    estimator = cs.CrowdClassifier("dl-ds", seeds=2, epochs=3)
    own = {"random_state": None, "missing": None}
    assert estimator.get_params() == {"model": "dl-ds", "seeds": 2, "epochs": 3, **own}
    copy = clone(estimator).set_params(model="soft-mv", learning_rate=0.1)
    assert copy.get_params() == {"model": "soft-mv", "seeds": 2, "epochs": 3, "learning_rate": 0.1, **own}
    assert estimator.get_params()["model"] == "dl-ds"
    assert repr(copy) == "CrowdClassifier(epochs=3, learning_rate=0.1, model='soft-mv', seeds=2)"
    assert "soft-mv" in copy._repr_html_()
    assert cs.CrowdClassifier().get_params() == {"model": "cmm", "seeds": 5, **own}


def test_what_cannot_be_used_is_told() -> None:
    features, gold, answers = answers_of(12)
    estimator = cs.CrowdClassifier("dl-ds", seeds=1, **QUICK)
    for X, y, error, message in (
        (features, answers[:5], DataError, "y: expected a row of answers for each of 12 items, got 5"),
        (features, answers[None], BadInput, r"got shape \[1, 12, 5\]"),
        (features, np.where(answers < 0, -1, 0), DataError, "got one class, 0; -1, NaN"),
        (features, np.full((12, 2), np.nan), DataError, "got no answer"),
        (features, answers + 0.25, DataError, "Unknown label type"),
        (features, np.array([["a", 1]] * 12, dtype=object), DataError, "got int and str"),
        (features[:5], cs.load({"item": [1, 2], "annotator": [1, 1], "label": [0, 1]}), BadInput, "each of 2 items"),
        (None, answers, DataError, "needs features"),
        (features, None, BadInput, "requires y"),
    ):
        with pytest.raises(error, match=message):
            estimator.fit(X, y)
    with pytest.raises(UnknownName, match="did you mean 'epochs'"):
        clone(estimator).set_params(epoch=3).fit(features, answers)
    with pytest.raises(NotFittedError):
        clone(estimator).predict(features)
    estimator.fit(features, answers)
    with pytest.raises(BadInput, match="expected at least one answer, got none"):
        estimator.score(features, np.full((12, 2), -1))
    for missing, said in ((None, "-1, NaN, None"), ([], "none; NaN, None"), (["x", -2], "-2, x, NaN, None")):
        with pytest.raises(BadInput, match=f"{said} and empty cells mean no answer"):
            clone(estimator).set_params(missing=missing).fit(features, answers).score(
                features, np.full((12, 2), np.nan)
            )
    with pytest.raises(DataError, match="got no answer; NaN, None and empty cells mean no answer"):
        clone(estimator).set_params(missing=[]).fit(features, np.full((12, 2), np.nan))
    with pytest.raises(BadInput, match=r"trusted labels \[items\] or answers"):
        estimator.score(features, answers[None])
    assert 0 <= estimator.score(features, gold) <= 1
