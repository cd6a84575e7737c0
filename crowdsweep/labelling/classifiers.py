"""Trained classifiers as files: weights as safetensors, their description as JSON. No file contains code.

`save_classifiers` writes one file of weights for each fit. `load_classifier` returns a classifier that labels items by
the mean of all fits.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int64
from safetensors.numpy import save_file

from crowdsweep.arrays import ItemFeatures, ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.errors import BadInput
from crowdsweep.labelling.classifier_files import (
    DESCRIPTION,
    FORMAT,
    digests_of,
    read_classifier_description,
    read_weights,
)
from crowdsweep.models.classifier import NetworkPredictor
from crowdsweep.models.contract import Predictor
from crowdsweep.models.fitting import ScaledPredictor
from crowdsweep.models.joint._em_with_network import Reordered
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.scaling import Scale


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SavedClassifier:
    """Classifiers read from a folder.

    Attributes:
        class_names: in the order of the probabilities.
        fits: one classifier per fit, with its classes in that order.
    """

    class_names: tuple[str, ...]
    fits: Sequence["PlainClassifier"]

    def predict(self, features: ItemFeatures) -> ItemProbs:
        """Returns class probabilities, the mean over the fits.

        Args:
            features: float32 [items, features].

        Raises:
            BadInput: the number of features is wrong, or the features or the probabilities are not finite.
        """
        wanted = _dense(self.fits[0].predictor).widths[0]
        if features.ndim != 2 or features.shape[1] != wanted:
            raise BadInput(f"classifier: expected features of shape [items, {wanted}], got {features.shape}")
        items = Items(n_items=len(features), features=np.ascontiguousarray(features, dtype=np.float32))
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            found = np.mean([fit.predict(items) for fit in self.fits], axis=0)
        if not np.isfinite(found).all():
            raise BadInput(
                "classifier: expected finite features and weights that give probabilities of them, got NaN: are the "
                "features on the scale of those that it was trained on?"
            )
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainClassifier:
    """A network on features. `order` gives for each class of the data the network's class; `scale`, if any, is applied
    to features before the network reads them."""

    predictor: NetworkPredictor
    order: Int64[np.ndarray, " classes"]
    scale: Scale | None = None

    def reordered(self, order: Int64[np.ndarray, " classes"] | None) -> "PlainClassifier":
        """Returns the classifier with its classes in another order; itself for None."""
        return self if order is None else replace(self, order=self.order[order])

    def predict(self, items: Items) -> ItemProbs:
        """Returns class probabilities."""
        read = items if self.scale is None else self.scale.items(items)
        return self.predictor.predict(read, self.predictor.uses[0])[:, self.order]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers of the classifier: weights and biases, with the classes in order, and `mean` and `factor` of the
        features."""
        values, last = dict(self.predictor.values), _dense(self.predictor).n_layers - 1
        values |= {name: np.ascontiguousarray(values[name][:, self.order]) for name in (f"w{last}", f"b{last}")}
        return values if self.scale is None else {**values, "mean": self.scale.mean, "factor": self.scale.factor}


def plain_classifier(predictor: Predictor) -> PlainClassifier | None:
    """Returns a predictor as a plain network on features; None where it is anything else."""
    if isinstance(predictor, ScaledPredictor):
        inner = plain_classifier(predictor.predictor)
        return None if inner is None else replace(inner, scale=predictor.scale)
    if isinstance(predictor, Reordered):
        inner = plain_classifier(predictor.predictor)
        return None if inner is None else inner.reordered(predictor.order)
    if isinstance(predictor, NetworkPredictor) and isinstance(predictor.network, DenseNetwork):
        return PlainClassifier(predictor=predictor, order=np.arange(predictor.network.n_classes))
    return None


def save_classifiers(folder: Path, fits: Sequence[PlainClassifier], class_names: Sequence[str], model: str) -> None:
    """Writes classifiers into a new folder.

    Args:
        fits: classifiers of one shape.
    """
    folder.mkdir()
    network = _dense(fits[0].predictor)
    for number, fit in enumerate(fits):
        save_file(fit.arrays, folder / f"fit-{number}.safetensors")
    names = [f"fit-{number}.safetensors" for number in range(len(fits))]
    scaled = "" if fits[0].scale is None else "brought to (features - mean) * factor in float64, then float32; "
    description = {
        "format": FORMAT,
        "model": model,
        "network": {"kind": "dense", "activation": "relu", "output": "softmax", **asdict(network)},
        "classes": list(class_names),
        "fits": names,
        "digests": digests_of(folder, names),
        "reads": f"float32 features [items, {network.widths[0]}]; {scaled}layer n is x @ w_n + b_n",
        "predicts": "the mean over the fits of their probabilities",
    }
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load_classifier(folder: str | Path) -> SavedClassifier:
    """Reads a folder that any version of `save_classifiers` wrote.

    Raises:
        BadInput: the folder holds something else, or some of its content was damaged or changed.
    """
    place = Path(folder)
    about = read_classifier_description(place)
    network = DenseNetwork(widths=tuple(about.network.widths))
    digests = about.digests or {}
    fits = [_loaded(place / name, network, digests.get(name)) for name in about.fits]
    return SavedClassifier(class_names=tuple(about.classes), fits=fits)


def _loaded(path: Path, network: DenseNetwork, digest: str | None) -> PlainClassifier:
    shapes = {parameter.name: parameter.shape for parameter in network.parameters()}
    arrays = read_weights(path, shapes, network.widths[0], digest)
    scale = Scale(mean=arrays.pop("mean"), factor=arrays.pop("factor")) if "mean" in arrays else None
    predictor = NetworkPredictor(network=network, values=arrays)
    return PlainClassifier(predictor=predictor, order=np.arange(network.n_classes), scale=scale)


def _dense(predictor: NetworkPredictor) -> DenseNetwork:
    assert isinstance(predictor.network, DenseNetwork)  # noqa: S101 - `plain_classifier` gave it
    return predictor.network
