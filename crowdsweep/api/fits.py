"""A model fitted to all data, from Python: the tables that `crowdsweep label` writes, and predictions."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.api.loading import Data, as_table, load, names_of, numbers_of, without_numpy
from crowdsweep.api.notebook import as_html
from crowdsweep.api.threads import one_thread
from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.errors import BadInput, ConvergenceWarning, FitFailed
from crowdsweep.labelling.calibration import Calibrations
from crowdsweep.labelling.clusters import ClusterTables, cluster_tables
from crowdsweep.labelling.crowd_tables import CrowdTables, crowd_tables
from crowdsweep.labelling.fitted import DEFAULT_SEEDS, Fitted, fit_everything
from crowdsweep.labelling.labelled import Labelled, labelled_items
from crowdsweep.labelling.new_annotator import new_annotator
from crowdsweep.labelling.tables import (
    answers_table,
    class_columns,
    decided,
    labels_table,
    probabilities_table,
    with_texts,
)
from crowdsweep.models import registered
from crowdsweep.record.store_uri import Store, store_named


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit:
    """A fitted model; `fit` and `Results.label` return it. All tables are Arrow tables, with Arrow's `.to_pandas()`.

    Attributes:
        fitted: model, dataset and all fits.
        source: the folder or name that the dataset was loaded from; empty for a table.
        why: why this model was chosen, in words.
        command: Python call that makes this object again.
    """

    fitted: Fitted
    source: str = ""
    why: str
    command: str

    @property
    def model(self) -> str:
        """Registered name of the model."""
        return self.fitted.model

    @property
    def params(self) -> Mapping[str, Any]:
        """All hyper-parameters of the model."""
        return self.fitted.params

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels of the classes, in the order of all probabilities."""
        return self.fitted.dataset.class_labels

    @property
    def labels(self) -> pa.Table:
        """Labels of the items, a row per item.

        Columns are `item`, `label`, `probability`, `entropy` (nats), `answers` (their number), `agreement` (the share
        of the answers that are the label), `split`, `labelled_by` (`gold`, `classifier` where it decides, else
        `annotations`), and `fits_agree` (the share of fits that give the label). Optional columns are `name` (of the
        class) and `gold`.
        """
        return labels_table(self._labelled)

    @property
    def probabilities(self) -> pa.Table:
        """Probabilities of the classes, a row per item: the ones that `labels` are decided by.

        Columns are `item` and one per class with its name (`p(item)`, if a class is named `item`). Probabilities are
        calibrated, and 1 or 0 where there is gold.
        """
        return probabilities_table(self._labelled)

    @property
    def raw_probabilities(self) -> pa.Table:
        """Probabilities of the model itself: as `probabilities`, but not calibrated, and without gold."""
        return probabilities_table(self._labelled, raw=True)

    @property
    def answers(self) -> pa.Table:
        """All answers, a row each, the one least likely to be right first.

        Columns are `item`, `annotator`, `label`, `probability` (of being right), and `second_look` (whether to check
        the answer).
        """
        return with_texts(answers_table(self._labelled))

    @property
    def calibration(self) -> Calibrations:
        """How the probabilities were calibrated, for items with answers and for items without."""
        return self._labelled.calibrations

    @property
    def notes(self) -> list[str]:
        """Sentences on annotators: where gold contradicts the model, and who makes the same errors."""
        return list(self._crowd.notes)

    @property
    def annotators(self) -> pa.Table | None:
        """Quality of the annotators, a row each; None where annotators are anonymous.

        Columns are the number of answers, the accuracy with its interval (which assumes independent errors), and the
        number of right answers among those to items with gold. Others are the information per label (`bits_per_label`),
        agreement with other annotators, bias, and whether the annotator answers without looking.
        """
        return self._crowd.annotators

    @property
    def confusion(self) -> pa.Table | None:
        """Expected confusions, with columns `annotator`, `true`, `given` and `expected` (number of such answers).

        None where annotators are anonymous.
        """
        return self._crowd.confusion

    @property
    def next_items(self) -> pa.Table:
        """Items by the expected information of one more label (`gain_bits`), highest first, and whom to `ask`."""
        return self._crowd.next_items

    @cached_property
    def clusters(self) -> ClusterTables | None:
        """Clusters of the first fit; None where the model has no clusters.

        The tables `items` and `annotators` have the probabilities of belonging to each cluster; the table `answers` has
        the labels that clusters give.
        """
        return cluster_tables(self.fitted)

    def new_annotator(self, answers: Mapping[Any, Any]) -> pa.Table:
        """Predicts the answers of an annotator that the model was not fitted to, from a few answers of theirs.

        Args:
            answers: item → class, or a list of classes where the annotator answered the item several times. Items and
                classes have the names of the data: numbers, where `load` was given numbers.

        Returns:
            A table with a row per item that the model was fitted to: `item`, `label`, its `probability`, and a column
            `p(CLASS)` per class.

        Raises:
            BadInput: the model cannot predict new annotators (pgm-bp, pgm-annealing and ldl-nm can), or an item or a
                class is not known.
        """
        given = [list(said) if isinstance(said, list | tuple | np.ndarray) else [said] for said in answers.values()]
        labels = iter(names_of([label for said in given for label in said], "label"))
        told = {
            item: [*islice(labels, len(said))]
            for item, said in zip(names_of(list(answers), "item"), given, strict=True)
        }
        with one_thread():
            return new_annotator(self.fitted, told)

    def predict(self, features: Any) -> pa.Table:
        """Labels items by the trained classifier; unlike those of `labels`, its probabilities are not calibrated.

        Args:
            features: numbers [items, features]; or a table with the same columns of numbers, and optionally `item`; or,
                for a model that reads texts, a list of texts.

        Returns:
            A table with `label` and `probability` of each item, after `item` where that was given.

        Raises:
            BadInput: the model has no classifier and labels only items with answers, or the features do not fit it.
        """
        names, probs = self._predicted(features)
        multilabel = self.fitted.dataset.scale == "multilabel"
        return pa.Table.from_pydict({**names, **decided(probs, self.classes, multilabel=multilabel)})

    def predict_proba(self, features: Any) -> pa.Table:
        """Returns a table with a column of probabilities per class, after `item` if that was given; see `predict`."""
        names, probs = self._predicted(features)
        columns = class_columns(self.classes, list(names))
        return pa.Table.from_pydict({**names, **{name: probs[:, place] for place, name in enumerate(columns)}})

    def probabilities_of(self, items: Items) -> ItemProbs:
        """Returns the classifier's probabilities [items, classes], as a mean over the fits.

        Raises:
            BadInput: the model has no classifier, or the classifier cannot read these items.
        """
        if not self.fitted.predictors:
            raise BadInput(
                f"model {self.model!r}: it labels only items that have answers, which are in `labels`; to label others "
                f"by their features choose a model with a classifier, such as dl-ds or cmm"
            )
        known, given = self.fitted.dataset.items.features, items.features
        if known is not None and given is not None and known.shape[1] != given.shape[1]:
            raise BadInput(f"features: expected shape [items, {known.shape[1]}], got {list(given.shape)}")
        try:
            with one_thread():
                return np.mean(self.fitted.predictions(items), axis=0)
        except FitFailed as error:
            raise BadInput(f"features: model {self.model!r} cannot read these: {error}") from error

    def save(self, folder: str | Store, exports: Sequence[str] = ()) -> None:
        """Writes the files of `crowdsweep label`: labels.csv and .parquet, annotators.csv, next.csv, the classifier, …

        Args:
            folder: a new or empty folder, or one that labels were written to; or a URI (`s3://bucket/prefix`).
            exports: forms of other tools to write too, as `--export` names them: `["argilla"]`, `["same"]`.

        Raises:
            BadInput: the folder holds something else, or a form is not known or cannot hold these labels.
            WriteFailed: the folder cannot be written.
        """
        # These modules import sweeps, reports and networks; a fit alone should not wait for that.
        from crowdsweep.labelling.exports.asked import Exports  # noqa: PLC0415
        from crowdsweep.labelling.folder import write_labels  # noqa: PLC0415
        from crowdsweep.labelling.label_files import check_folder  # noqa: PLC0415

        place = store_named(folder)
        check_folder(place)
        asked = Exports(forms=[exports] if isinstance(exports, str) else list(exports))
        writers = asked.writers(self.fitted.dataset)
        words = f"{str(folder)!r}, exports={asked.forms!r}" if asked.forms else f"{str(folder)!r}"
        dataset = self.source or self.fitted.dataset.name
        about = {"command": f"{self.command}.save({words})", "why": self.why, "dataset": dataset}
        labelled, crowd = self._labelled, self._crowd
        with one_thread():
            write_labels(labelled, crowd, place, about, writers)

    def __repr__(self) -> str:
        fits = "1 fit" if len(self.fitted.fits) == 1 else f"{len(self.fitted.fits)} fits"
        return (
            f"<Fit {self.model} on {self.fitted.dataset.name}: {fits}, {self.fitted.training.n_items} items labelled>"
        )

    def _repr_html_(self) -> str:
        facts = {"why": self.why, "fits": len(self.fitted.fits), **self.params}
        return as_html(f"{self.model} on {self.fitted.dataset.name}", facts, {"": self.labels})

    @cached_property
    def _labelled(self) -> Labelled:
        with one_thread():
            return labelled_items(self.fitted)

    @cached_property
    def _crowd(self) -> CrowdTables:
        labelled = self._labelled
        with one_thread():
            return crowd_tables(labelled)

    def _predicted(self, features: Any) -> tuple[dict[str, Any], ItemProbs]:
        names, items = _items_of(features)
        return names, self.probabilities_of(items)


def fit(model: str, data: Any, /, *, seeds: int = DEFAULT_SEEDS, first_seed: int = 0, **params: Any) -> Fit:
    """Fits a model to every answer of a dataset, whatever its split, as `crowdsweep label DATA --model MODEL` does.

    Args:
        model: a name that `models()` lists.
        data: a dataset from `load`, or anything that `load` takes.
        seeds: number of fits, which are averaged after their classes are aligned; a deterministic model is fitted once.
        first_seed: seed of the first fit; the other fits have the next ones.
        params: hyper-parameters of the model; `crowdsweep models NAME` describes them.

    Raises:
        BadInput: the model or a parameter is not known, or the model cannot be fitted to these data.
        FitFailed: a fit failed.

    Warns:
        ConvergenceWarning: a fit ended while its objective still clearly improved.
    """
    found = fit_quietly(model, data, seeds=seeds, first_seed=first_seed, **params)
    if found.fitted.unfinished:
        warnings.warn(found.fitted.unfinished, ConvergenceWarning, stacklevel=2)
    return found


def fit_quietly(model: str, data: Any, /, *, seeds: int, first_seed: int = 0, **params: Any) -> Fit:
    """Fits a model as `fit` does, but leaves the warning (`Fitted.unfinished`) to the caller."""
    loaded = load(data)
    check_seeds(seeds)
    if isinstance(first_seed, bool) or not isinstance(first_seed, int | np.integer) or first_seed < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput(f"first_seed: expected a whole number of at least 0, got {first_seed!r}")
    given = {name: without_numpy(value) for name, value in params.items()}
    registered.build_model(model, given)  # loads the numeric libraries, which `one_thread` then limits
    with one_thread():
        fitted = fit_everything(
            model, given, loaded.dataset, loaded.params, n_seeds=int(seeds), first_seed=int(first_seed)
        )
    command = _command(model, loaded, seeds, int(first_seed), given)
    return Fit(fitted=fits_to_save(fitted), source=loaded.source, why="named in Python", command=command)


def check_seeds(seeds: Any) -> None:
    """Checks the number of fits.

    Raises:
        BadInput: it is not a whole number, or below 1.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int | np.integer) or seeds < 1:
        raise BadInput(f"seeds: expected a whole number of at least 1, got {seeds!r}")


def fits_to_save(fitted: Fitted) -> Fitted:
    """Returns the fits without the functions that score held-out answers, as these cannot be pickled."""
    without: dict[str, Any] = {"label_probs": None, "unseen_label_probs": None}
    return replace(fitted, fits=[replace(one, result=replace(one.result, **without)) for one in fitted.fits])


def _command(model: str, loaded: Data, seeds: int, first_seed: int, params: Mapping[str, Any]) -> str:
    """Returns the Python call that repeats the fit."""
    words = [repr(loaded.source), *(f"{name}={value!r}" for name, value in loaded.params.items())]
    data = f"crowdsweep.load({', '.join(words)})" if loaded.source else "TABLE"
    first = [f"first_seed={first_seed}"] if first_seed else []
    settings = [f"seeds={int(seeds)}", *first, *(f"{name}={value!r}" for name, value in params.items())]
    return f"crowdsweep.fit({model!r}, {data}, {', '.join(settings)})"


def _items_of(given: Any) -> tuple[dict[str, Any], Items]:
    """Returns the column `item` by its name, where there is one, and the items with their features or texts."""
    if isinstance(given, Mapping) or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        table = as_table(given, "features")
        names = {"item": table.column("item")} if "item" in table.column_names else {}
        matrix = numbers_of(table.drop_columns(list(names)), "features")
        return names, Items(n_items=len(matrix), features=_as_features(matrix))
    if isinstance(given, Sequence) and given and all(isinstance(text, str) for text in given):
        return {}, Items(n_items=len(given), text=list(given))
    return {}, items_with(given)


def items_with(features: Any) -> Items:
    """Returns items with these features.

    Args:
        features: numbers [items, features].

    Raises:
        BadInput: they are not a matrix of finite numbers.
    """
    try:
        matrix = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"features: expected numbers [items, features]: {error}") from error
    if matrix.ndim != 2:
        raise BadInput(f"features: expected numbers [items, features], got shape {list(matrix.shape)}")
    return Items(n_items=len(matrix), features=_as_features(matrix))


def _as_features(matrix: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # overflow raises below
        features = np.ascontiguousarray(matrix, dtype=np.float32)
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise BadInput(f"features, row {row}: expected finite numbers, got NaN or infinity")
    return features
