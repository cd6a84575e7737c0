"""`cs.CrowdClassifier` is a classifier to scikit-learn before it is fitted, whatever holds it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import crowdsweep as cs
from crowdsweep.api.sklearn_tags import splits_answers

QUICK = {"network": "linear", "learning_rate": 0.1, "epochs": 20, "steps": 0, "patience": None, "seeds": 1}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RANDOM = np.random.default_rng(0)
GOLD = np.repeat([0, 1], [40, 20])
FEATURES = RANDOM.normal(size=(60, 2)) + 4 * np.eye(2)[GOLD]
RIGHT = RANDOM.random((60, 4)) < 0.9
ANSWERS = np.where(RANDOM.random((60, 4)) < 0.7, np.where(RIGHT, GOLD[:, None], 1 - GOLD[:, None]), -1)
FORMS = {
    "-1": ANSWERS,
    "NaN": np.where(ANSWERS < 0, np.nan, ANSWERS),
    "None last": np.array(["no", "yes", None], dtype=object)[np.where(ANSWERS < 0, 2, ANSWERS)],
    "Int64": pd.DataFrame(ANSWERS).replace(-1, pd.NA).astype("Int64"),
    "lists": [[None if answer < 0 else answer for answer in row] for row in ANSWERS.tolist()],
}


def unfitted():
    return cs.CrowdClassifier("soft-mv", **QUICK)


HOLDERS = {
    "alone": unfitted,
    "pipeline": lambda: make_pipeline(StandardScaler(), unfitted()),
    "search": lambda: GridSearchCV(unfitted(), {"learning_rate": [0.1]}, cv=2),
    "search of a pipeline": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), unfitted()), {"crowdclassifier__learning_rate": [0.1]}, cv=2
    ),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_it_is_one_before_and_after_it_is_fitted(holder) -> None:
    estimator = HOLDERS[holder]()
    assert is_classifier(estimator)
    assert get_tags(estimator).estimator_type == "classifier"
    if holder == "pipeline":
        assert is_classifier(estimator.fit(FEATURES, FORMS["NaN"]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("holder", ["alone", "pipeline"])
def test_answers_are_parted_as_they_stand(holder, form) -> None:
    estimator = HOLDERS[holder]()
    expected = cross_val_score(estimator, FEATURES, FORMS[form], cv=KFold(3))
    assert cross_val_score(estimator, FEATURES, FORMS[form], cv=3).tolist() == expected.tolist()
    assert np.isfinite(expected).all()
    fitted = estimator.fit(FEATURES, FORMS[form])
    assert cross_val_score(fitted, FEATURES, FORMS[form], cv=3).tolist() == expected.tolist()


def test_a_search_inside_cross_validation_takes_nan() -> None:
    search = HOLDERS["search of a pipeline"]()
    assert cross_val_score(search, FEATURES, FORMS["NaN"], cv=2).min() > 0.6
    sizes, _, scores = learning_curve(unfitted(), FEATURES, FORMS["NaN"], cv=2, train_sizes=[0.5, 1.0])
    assert scores.shape == (len(sizes), 2)
    assert (cross_val_predict(unfitted(), FEATURES, FORMS["NaN"], cv=2) == GOLD).mean() > 0.8


def test_one_label_an_item_is_parted_by_class() -> None:
    expected = cross_val_score(unfitted(), FEATURES, GOLD, cv=StratifiedKFold(3), scoring="roc_auc")
    assert cross_val_score(unfitted(), FEATURES, GOLD, cv=3, scoring="roc_auc").tolist() == expected.tolist()
    assert expected.min() > 0.9


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_it_votes_beside_others(voting) -> None:
    names = np.array(["no", "yes"])[GOLD]
    ensemble = VotingClassifier([("crowd", unfitted()), ("plain", LogisticRegression())], voting=voting)
    assert ensemble.fit(FEATURES, names).score(FEATURES, names) > 0.9


def test_it_is_stacked_and_calibrated() -> None:
    stacked = StackingClassifier([("crowd", unfitted())], final_estimator=LogisticRegression(), cv=2)
    assert stacked.fit(FEATURES, GOLD).score(FEATURES, GOLD) > 0.9
    calibrated = CalibratedClassifierCV(unfitted(), cv=2).fit(FEATURES, GOLD)
    assert np.allclose(calibrated.predict_proba(FEATURES).sum(axis=1), 1)
    assert calibrated.score(FEATURES, GOLD) > 0.9


def test_only_scikit_learn_is_answered_by_what_it_holds() -> None:
    y = FORMS["NaN"]
    assert y.ndim == 2
    assert not splits_answers()
    assert is_classifier(unfitted())
