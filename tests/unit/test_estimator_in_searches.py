"""`cs.CrowdClassifier` in scikit-learn's cross-validation and searches, where answers are missing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crowdsweep as cs
from crowdsweep.errors import BadInput, UnknownName

QUICK = {"network": "linear", "learning_rate": 0.1, "epochs": 20, "steps": 0, "seeds": 1}
RANDOM = np.random.default_rng(0)
GOLD = RANDOM.integers(0, 2, 60)
FEATURES = RANDOM.normal(size=(60, 2)) + 4 * np.eye(2)[GOLD]
RIGHT = RANDOM.random((60, 5)) < 0.9
ANSWERS = np.where(RANDOM.random((60, 5)) < 0.6, np.where(RIGHT, GOLD[:, None], 1 - GOLD[:, None]), -1)

FORMS = {
    "-1": ANSWERS,
    "NaN": np.where(ANSWERS < 0, np.nan, ANSWERS),
    "None": np.array([None, "no", "yes"], dtype=object)[ANSWERS + 1],
    "texts": np.array(["", "no", "yes"])[ANSWERS + 1],
    "frame": pd.DataFrame(np.where(ANSWERS < 0, np.nan, ANSWERS)),
    "Int64": pd.DataFrame(ANSWERS).replace(-1, pd.NA).astype("Int64"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_search_without_a_scorer_finds_the_better_point(form) -> None:
    # Of this state the network that it begins with is wrong, so that it has to learn.
    search = GridSearchCV(cs.CrowdClassifier("soft-mv", random_state=4, **QUICK), {"learning_rate": [1e-7, 0.1]}, cv=2)
    search.fit(FEATURES, FORMS[form])
    assert search.best_params_ == {"learning_rate": 0.1}
    assert search.best_score_ > 0.8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_folds_score_answers_alike_however_they_are_missing() -> None:
    pipeline = make_pipeline(StandardScaler(), cs.CrowdClassifier("soft-mv", **QUICK))
    scores = [cross_val_score(pipeline, FEATURES, FORMS[form], cv=2) for form in ("-1", "NaN", "frame")]
    assert np.array_equal(scores[0], scores[1])
    assert np.array_equal(scores[0], scores[2])


def test_a_score_of_answers_is_the_share_that_is_predicted() -> None:
    fitted = cs.CrowdClassifier("soft-mv", **QUICK).fit(FEATURES, ANSWERS)
    given = ANSWERS >= 0
    same = fitted.predict(FEATURES)[:, None] == ANSWERS
    assert fitted.score(FEATURES, ANSWERS) == pytest.approx(same[given].mean())
    weight = np.arange(60.0)
    expected = (same * given * weight[:, None]).sum() / (given * weight[:, None]).sum()
    assert fitted.score(FEATURES, ANSWERS, sample_weight=weight) == pytest.approx(expected)
    assert fitted.score(FEATURES, GOLD) == pytest.approx((fitted.predict(FEATURES) == GOLD).mean())
    assert cross_val_score(fitted, FEATURES, GOLD, cv=2, scoring="neg_log_loss").max() < 0  # by name, of one label
    assert is_classifier(fitted)


@pytest.mark.long
def test_a_random_state_draws_other_fits_and_none_is_zero() -> None:
    def probabilities(**given):
        return cs.CrowdClassifier("soft-mv", **QUICK, **given).fit(FEATURES, ANSWERS).predict_proba(FEATURES)

    assert np.array_equal(probabilities(), probabilities(random_state=0))
    assert np.array_equal(probabilities(random_state=7), probabilities(random_state=np.int64(7)))
    assert not np.array_equal(probabilities(), probabilities(random_state=7))
    drawn = [probabilities(random_state=np.random.RandomState(3)) for _ in range(2)]
    assert np.array_equal(*drawn)
    fit = cs.fit(
        "soft-mv",
        cs.load({"item": [1, 2], "annotator": [1, 1], "label": [0, 1]}, features={"item": [1, 2], "f": [0, 1]}),
        seeds=2,
        first_seed=3,
        network="linear",
    )
    assert list(fit.fitted.seeds) == [3, 4]
    assert "seeds=2, first_seed=3" in fit.command
    with pytest.raises(BadInput, match="first_seed: expected a whole number of at least 0, got -1"):
        cs.fit("majority-vote", cs.load({"item": [1, 2], "annotator": [1, 1], "label": [0, 1]}), first_seed=-1)


def test_nonsense_is_refused_when_it_is_set() -> None:
    estimator = cs.CrowdClassifier("soft-mv", **QUICK)
    before = estimator.get_params()
    for params in ({"nonsense": 1}, {"learning_rate": 1, "epoch": 3}, {"model": "majority-vote", "epochs": 3}):
        with pytest.raises(UnknownName, match="CrowdClassifier"):
            estimator.set_params(**params)
    assert estimator.get_params() == before
    assert clone(estimator).set_params(model="majority-vote", random_state=1).model == "majority-vote"


def test_names_of_features_are_kept_whatever_the_answers_are() -> None:
    frame = pd.DataFrame(FEATURES, columns=["width", "height"])
    for answers in (ANSWERS, GOLD, ANSWERS[:, :1].clip(0)):
        fitted = cs.CrowdClassifier("soft-mv", **QUICK).fit(frame, answers)
        assert fitted.feature_names_in_.tolist() == ["width", "height"]
        fitted.predict(frame)
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(frame[["height", "width"]])
