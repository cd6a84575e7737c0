"""A crowd model as an estimator of scikit-learn: answers of many annotators in place of `y`."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from crowdsweep.api.answers import dataset_of_answers
from crowdsweep.api.fits import Fit, fit_quietly
from crowdsweep.api.loading import Data
from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import CrowdDataset, Items
from crowdsweep.errors import BadInput
from crowdsweep.labelling.fitted import DEFAULT_SEEDS


class CrowdClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns from answers that disagree.

    `fit` takes a matrix of answers in place of labels, a row an item and a column an annotator. **-1, NaN, None and
    empty texts mean that there is no answer**, as for `crowdsweep data import matrix`. One dimension is one annotator
    who answered every item, and nothing is missing there: -1 is a class, as for scikit-learn's own classifiers.

    Hyper-parameters are the model's (`crowdsweep models NAME`) and are checked when it is fitted. Only those that were
    given are parameters of the estimator; any other can be set.

    Args:
        model: a name that `crowdsweep.models()` lists. One without a classifier labels what was answered (`result_`)
            and predicts nothing.
        seeds: fits that are averaged. Results have no other chance in them: the same data give the same numbers.
        params: hyper-parameters of the model.

    Attributes:
        classes_: in the order of probabilities.
        result_: the fitted model, with tables of labels, of annotators, and of what to label next (`crowdsweep.Fit`).
        n_features_in_: where items have features.
    """

    classes_: np.ndarray
    result_: Fit
    n_features_in_: int
    _params: Mapping[str, Any] = {}

    def __init__(self, model: str = "cmm", *, seeds: int = DEFAULT_SEEDS, **params: Any) -> None:
        self.model = model
        self.seeds = seeds
        if params:
            self._params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - no parameter is an estimator
        """Returns `model`, `seeds` and the hyper-parameters that were given."""
        return {"model": self.model, "seeds": self.seeds, **self._params}

    def set_params(self, **params: Any) -> "CrowdClassifier":
        """Sets `model`, `seeds` or any hyper-parameter; they are checked by `fit`."""
        own = {name: params.pop(name) for name in ("model", "seeds") if name in params}
        for name, value in own.items():
            setattr(self, name, value)
        if params:
            self._params = {**self._params, **params}
        return self

    def fit(self, X: Any, y: Any) -> "CrowdClassifier":
        """Fits the model to all answers.

        Args:
            X: features [items, features]; None where the model needs none, or `y` brings them.
            y: answers [items, annotators] or [items], of any type of label; or a dataset from `crowdsweep.load`, whose
                items are the rows of `X`.

        Raises:
            BadInput: the model or a parameter is not known, or the answers cannot be used.
            FitFailed: a fit failed.

        Warns:
            ConvergenceWarning: scikit-learn's: a fit ended while its objective still clearly improved.
        """
        if y is None:
            raise BadInput("CrowdClassifier requires y to be passed, but the target y is None")
        data, self.classes_ = self._of_data(X, y) if isinstance(y, Data) else self._of_matrix(X, y)
        self.result_ = fit_quietly(self.model, data, seeds=self.seeds, **self._params)
        if self.result_.fitted.unfinished:
            warnings.warn(self.result_.fitted.unfinished, ConvergenceWarning, stacklevel=2)
        return self

    def predict_proba(self, X: Any) -> ItemProbs:
        """Returns probabilities [items, classes] in the order of `classes_`, the mean over the fits.

        Args:
            X: features [items, features].

        Raises:
            BadInput: the model has no classifier, or these are no such features.
        """
        check_is_fitted(self, "result_")
        return self.result_.probabilities_of(self._items(X, reset=False))

    def predict(self, X: Any) -> Shaped[np.ndarray, " items"]:
        """Returns the likeliest class of each item; see `predict_proba`."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the share of items whose predicted class is the trusted one.

        Args:
            X: features [items, features].
            y: one trusted label for each item.
            sample_weight: of items.

        Raises:
            BadInput: `y` is a matrix of answers: agreement with a crowd is no accuracy.
        """
        if isinstance(y, Data) or np.ndim(y) != 1:
            raise BadInput("score: expected one trusted label for each item, got answers of a crowd")
        return float(super().score(X, y, sample_weight))

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
        return dataset, np.array(dataset.class_names)

    def _of_matrix(self, features: Any, y: Any) -> tuple[CrowdDataset, Shaped[np.ndarray, " classes"]]:
        answers = np.asarray(y)
        if answers.ndim not in (1, 2):
            raise BadInput(f"y: expected answers [items, annotators] or [items], got shape {list(answers.shape)}")
        if answers.ndim == 1 and features is not None:
            checked: Any = validate_data(self, features, y, dtype=np.float32)
            features, answers = checked
            check_classification_targets(answers)
        items = Items(n_items=len(answers)) if features is None else self._items(features)
        if answers.ndim == 1:
            return dataset_of_answers(answers[:, None], items, all_given=True)
        columns = getattr(y, "columns", None)  # a DataFrame's
        return dataset_of_answers(answers, items, annotators=None if columns is None else list(map(str, columns)))

    def _items(self, given: Any, *, reset: bool = True) -> Items:
        features: Any = validate_data(self, given, reset=reset, dtype=np.float32)
        return Items(n_items=len(features), features=np.ascontiguousarray(features))
