"""Crowd models as scikit-learn estimators, which take the answers of many annotators in place of `y`."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from crowdsweep.api.answers import dataset_of_answers, given_answers, no_answers
from crowdsweep.api.fits import Fit, fit_quietly
from crowdsweep.api.loading import Data
from crowdsweep.api.sklearn_tags import splits_answers
from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import CrowdDataset, Items
from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.labelling.fitted import DEFAULT_SEEDS
from crowdsweep.models import registered

_OWN = ("model", "seeds", "random_state", "missing")


class CrowdClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns from the answers of annotators who may disagree.

    `fit` takes a matrix of answers in place of labels, with a row per item and a column per annotator. **-1, NaN, None
    and empty texts mean that there is no answer**, as for `crowdsweep data import matrix`; this holds in `score` and in
    scikit-learn's cross-validation too. A one-dimensional `y` is one annotator who answered every item. It has no
    missing answers: -1 is a class, as for scikit-learn's own classifiers.

    Cross-validation scores by `score`: the share of the left-out items' answers that are the predicted class. Where
    gold is known, pass a scoring function. It gets the rows of `X` (here `gold` maps the bytes of a row to its class):

        def accuracy(fitted, X, answers):
            return np.mean(fitted.predict(X) == [gold[row.tobytes()] for row in X])

        GridSearchCV(CrowdClassifier("soft-mv"), {"learning_rate": [0.001, 0.1]}, scoring=accuracy).fit(X, answers)

    Hyper-parameters are those of the model (`crowdsweep models NAME`); `fit` checks their values. `get_params` returns
    only those that were given, but `set_params` takes any of them.

    Args:
        model: a name that `crowdsweep.models()` lists. A model without a classifier labels the items that were answered
            (`result_`), but cannot predict others.
        seeds: number of fits that are averaged. Results are reproducible: the same data give the same numbers.
        random_state: random state of the fits: a whole number (None is 0), or what scikit-learn takes.
        missing: texts that mean no answer; None for the usual ones (-1, NA, None, …), `[]` where every text and number
            is an answer. NaN and None are never answers.
        params: hyper-parameters of the model.

    Attributes:
        classes_: the classes, in the order of probabilities.
        result_: the fitted model, with tables of labels, of annotators, and of what to label next (`crowdsweep.Fit`).
        n_features_in_: number of features; only where items have features.
    """

    classes_: np.ndarray
    result_: Fit
    n_features_in_: int
    _params: Mapping[str, Any] = {}

    def __init__(
        self,
        model: str = "cmm",
        *,
        seeds: int = DEFAULT_SEEDS,
        random_state: Any = None,
        missing: Sequence[Any] | None = None,
        **params: Any,
    ) -> None:
        self.model = model
        self.seeds = seeds
        self.random_state = random_state
        self.missing = missing
        if params:
            self._params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - no parameter is an estimator
        """Returns the estimator's parameters, and those hyper-parameters of the model that were given."""
        return {**{name: getattr(self, name) for name in _OWN}, **self._params}

    def set_params(self, **params: Any) -> "CrowdClassifier":
        """Sets parameters of the estimator, or any hyper-parameter of the model; `fit` checks their values.

        Raises:
            UnknownName: the model has no such hyper-parameter.
        """
        own = {name: params.pop(name) for name in _OWN if name in params}
        model = own.get("model", self.model)
        if params and isinstance(model, str) and model in registered.model_names():
            known = [*_OWN, *(parameter.name for parameter, _ in registered.every_parameter(model))]
            for name in params:
                if name not in known:
                    raise UnknownName("parameter", name, known, f"CrowdClassifier({model!r})")
        for name, value in own.items():
            setattr(self, name, value)
        if params:
            self._params = {**self._params, **params}
        return self

    def __sklearn_tags__(self) -> Tags:
        """Returns scikit-learn's tags: a classifier's, except where a matrix of answers is about to be split."""
        tags = super().__sklearn_tags__()
        if splits_answers():
            tags.estimator_type = None
        return tags

    def fit(self, X: Any, y: Any) -> "CrowdClassifier":
        """Fits the model to all answers.

        Args:
            X: features [items, features]; None where the model needs none, or `y` has them.
            y: answers [items, annotators] or [items], texts or numbers; or a dataset from `crowdsweep.load`, whose
                items are the rows of `X`.

        Raises:
            BadInput: the model or a parameter is not known, or the answers cannot be used.
            FitFailed: a fit failed.

        Warns:
            ConvergenceWarning: (of scikit-learn) a fit ended while its objective still clearly improved.
        """
        if y is None:
            raise BadInput("CrowdClassifier requires y to be passed, but the target y is None")
        data, self.classes_ = self._of_data(X, y) if isinstance(y, Data) else self._of_matrix(X, y)
        first_seed = self._first_seed()
        self.result_ = fit_quietly(self.model, data, seeds=self.seeds, first_seed=first_seed, **self._params)
        if self.result_.fitted.unfinished:
            warnings.warn(self.result_.fitted.unfinished, ConvergenceWarning, stacklevel=2)
        return self

    def predict_proba(self, X: Any) -> ItemProbs:
        """Returns probabilities [items, classes] in the order of `classes_`, as a mean over the fits.

        Args:
            X: features [items, features].

        Raises:
            BadInput: the model has no classifier, or the features do not fit it.
        """
        check_is_fitted(self, "result_")
        return self.result_.probabilities_of(self._items(X, reset=False))

    def predict(self, X: Any) -> Shaped[np.ndarray, " items"]:
        """Returns the most likely class of each item; see `predict_proba`."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy for trusted labels; for answers, the share of them that are the predicted class.

        On items that were left out of the fit, as in cross-validation, this share ranks models and settings without
        gold. It is not an accuracy: a model that predicts every item right gets the mean accuracy of the answers.

        Args:
            X: features [items, features].
            y: trusted labels [items], or answers [items, annotators].
            sample_weight: weights of the items.

        Raises:
            BadInput: `y` is neither, or has no answer.
        """
        if isinstance(y, Data) or np.ndim(y) not in (1, 2):
            raise BadInput("score: expected trusted labels [items] or answers [items, annotators]")
        answers = np.asarray(y)
        if answers.ndim == 1:
            return float(super().score(X, y, sample_weight))
        missing = MissingValues.of(self.missing)
        item, annotator = np.nonzero(given_answers(answers, missing.in_matrices()))
        if not len(item):
            raise BadInput(f"score: expected at least one answer, got none; {no_answers(missing)}")
        right = answers[item, annotator] == self.predict(X)[item]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)[item]))

    def _of_data(self, features: Any, y: Data) -> tuple[CrowdDataset, Shaped[np.ndarray, " classes"]]:
        dataset = y.dataset
        if dataset.scale == "multilabel":
            raise BadInput("CrowdClassifier: expected answers of one class each, got multi-label data; see `fit`")
        if features is not None:
            items = self._items(features)
            if items.n_items != dataset.items.n_items:
                raise BadInput(f"X: expected a row for each of {dataset.items.n_items} items, got {items.n_items}")
            dataset = replace(dataset, items=replace(dataset.items, features=items.features))
        elif dataset.items.features is not None:
            self.n_features_in_ = dataset.items.features.shape[1]
        return dataset, np.array(dataset.class_labels)

    def _of_matrix(self, features: Any, y: Any) -> tuple[CrowdDataset, Shaped[np.ndarray, " classes"]]:
        answers = np.asarray(y)
        if answers.ndim not in (1, 2):
            raise BadInput(f"y: expected answers [items, annotators] or [items], got shape {list(answers.shape)}")
        if answers.ndim == 1 and features is not None:
            checked: Any = validate_data(self, features, y, dtype=np.float32)
            check_classification_targets(checked[1])
            answers, items = checked[1], _with_features(checked[0])
        else:
            items = Items(n_items=len(answers)) if features is None else self._items(features)
        if answers.ndim == 1:
            return dataset_of_answers(answers[:, None], items, all_given=True)
        columns = getattr(y, "columns", None)  # a DataFrame's
        names = None if columns is None else list(map(str, columns))
        return dataset_of_answers(answers, items, annotators=names, missing=MissingValues.of(self.missing))

    def _first_seed(self) -> int:
        """Returns the first seed of the fits; two different whole-number states share no seed."""
        state = self.random_state
        if state is None or isinstance(state, int | np.integer):
            return int(state or 0) * int(self.seeds)
        return int(check_random_state(state).randint(2**16)) * int(self.seeds)

    def _items(self, given: Any, *, reset: bool = True) -> Items:
        features: Any = validate_data(self, given, reset=reset, dtype=np.float32)
        return _with_features(features)


def _with_features(features: np.ndarray) -> Items:
    return Items(n_items=len(features), features=np.ascontiguousarray(features))
