"""Trained classifiers as files: weights as safetensors, what they are as JSON. Nothing in them can run.

`save_classifiers` writes one file of weights for each fit; `load_classifier` gives back what labels items by the mean
of them all.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Int64
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from crowdsweep.arrays import ItemFeatures, ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.errors import BadInput
from crowdsweep.models.classifier import NetworkPredictor
from crowdsweep.models.contract import Predictor
from crowdsweep.models.joint._em_with_network import Reordered
from crowdsweep.models.networks.dense import DenseNetwork

DESCRIPTION = "classifier.json"
_FORMAT = 1


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SavedClassifier:
    """Classifiers read from a folder.

    Attributes:
        class_names: in the order of the probabilities.
        fits: one a fit, its classes in that order.
    """

    class_names: tuple[str, ...]
    fits: Sequence[NetworkPredictor]

    def predict(self, features: ItemFeatures) -> ItemProbs:
        """Returns class probabilities, the mean over the fits.

        Args:
            features: float32 [items, features].

        Raises:
            BadInput: not so many features.
        """
        wanted = self.fits[0].network.parameters()[0].shape[0]
        if features.ndim != 2 or features.shape[1] != wanted:
            raise BadInput(f"classifier: expected features of shape [items, {wanted}], got {features.shape}")
        items = Items(n_items=len(features), features=np.ascontiguousarray(features, dtype=np.float32))
        return np.mean([fit.predict(items, fit.uses[0]) for fit in self.fits], axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainClassifier:
    """A network on features, and for each class of the data which of its own it is."""

    predictor: NetworkPredictor
    order: Int64[np.ndarray, " classes"]

    def reordered(self, order: Int64[np.ndarray, " classes"] | None) -> "PlainClassifier":
        """Returns it with its classes in another order."""
        return self if order is None else PlainClassifier(predictor=self.predictor, order=self.order[order])


def plain_classifier(predictor: Predictor) -> PlainClassifier | None:
    """Returns the network on features that a predictor is; None where it is more than that, or something else."""
    if isinstance(predictor, Reordered):
        inner = plain_classifier(predictor.predictor)
        return None if inner is None else inner.reordered(predictor.order)
    if isinstance(predictor, NetworkPredictor) and isinstance(predictor.network, DenseNetwork):
        return PlainClassifier(predictor=predictor, order=np.arange(predictor.network.n_classes))
    return None


def save_classifiers(folder: Path, fits: Sequence[PlainClassifier], class_names: Sequence[str], model: str) -> None:
    """Writes classifiers into a new folder.

    Args:
        folder: is made.
        fits: of one shape.
        class_names: of the data.
        model: that trained them.
    """
    folder.mkdir()
    network = _dense(fits[0].predictor)
    last = network.n_layers - 1
    for number, fit in enumerate(fits):
        values = dict(fit.predictor.values)
        values |= {name: np.ascontiguousarray(values[name][:, fit.order]) for name in (f"w{last}", f"b{last}")}
        save_file(values, folder / f"fit-{number}.safetensors")
    description = {
        "format": _FORMAT,
        "model": model,
        "network": {"kind": "dense", "activation": "relu", "output": "softmax", **asdict(network)},
        "classes": list(class_names),
        "fits": [f"fit-{number}.safetensors" for number in range(len(fits))],
        "reads": f"float32 features [items, {network.widths[0]}]; layer n is x @ w_n + b_n",
        "predicts": "the mean over the fits of their probabilities",
    }
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load_classifier(folder: str | Path) -> SavedClassifier:
    """Reads what `save_classifiers` wrote.

    Raises:
        BadInput: the folder holds something else.
    """
    place = Path(folder)
    try:
        told: dict[str, Any] = json.loads((place / DESCRIPTION).read_text(encoding="utf-8"))
        if told["format"] != _FORMAT or told["network"]["kind"] != "dense":
            raise BadInput(f"{place}: expected classifiers of format {_FORMAT}, got {told['format']!r}")
        network = DenseNetwork(widths=tuple(map(int, told["network"]["widths"])))
        fits: list[NetworkPredictor] = []
        for name in told["fits"]:
            values = load_file(place / Path(name).name)
            shapes = {parameter.name: parameter.shape for parameter in network.parameters()}
            if {key: array.shape for key, array in values.items()} != shapes:
                raise BadInput(f"{place / name}: expected arrays of shapes {shapes}")
            fits.append(NetworkPredictor(network=network, values=values))
        return SavedClassifier(class_names=tuple(map(str, told["classes"])), fits=fits)
    except BadInput:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SafetensorError) as error:
        raise BadInput(f"{place}: expected a folder `classifier` that `crowdsweep label` wrote: {error}") from error


def _dense(predictor: NetworkPredictor) -> DenseNetwork:
    assert isinstance(predictor.network, DenseNetwork)  # noqa: S101 - `plain_classifier` gave it
    return predictor.network
