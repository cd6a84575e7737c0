"""Predicted answers of an annotator that the model was not fitted to, from a few of the annotator's answers."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.labelling.fitted import AlignedFit, Fitted
from crowdsweep.labelling.tables import decided
from crowdsweep.models.clusters import ARRAYS, ClusteredCrowd
from crowdsweep.models.fitting import ScaledPredictor


def new_annotator(fitted: Fitted, answers: Mapping[str, str | Sequence[str]]) -> pa.Table:
    """Predicts a new annotator's answer to each item that the model was fitted to.

    Models with clusters of annotators (pgm-bp, pgm-annealing) infer from the answers which clusters the annotator may
    belong to (`ClusteredCrowd.new_annotator`). In fmm, which has one cluster, everybody answers alike. ldl-nm infers
    the annotator's embedding (`infer_annotator`). Probabilities are averaged over the fits.

    Args:
        answers: item → the annotator's answer, or several answers.

    Returns:
        `item`, `label`, its `probability`, and a column `p(CLASS)` for each class.

    Raises:
        BadInput: the model cannot predict a new annotator, or an item or a class is not known.
    """
    items, given = _coded(fitted, answers)
    probs = np.mean([_predicted(fitted, fit, items, given) for fit in fitted.fits], axis=0)
    classes = fitted.dataset.class_labels
    return pa.Table.from_pydict(
        {
            "item": [fitted.dataset.item_names[int(code)] for code in fitted.code],
            **decided(probs, classes, multilabel=False),
            **{f"p({name})": probs[:, place] for place, name in enumerate(classes)},
        }
    )


def _coded(
    fitted: Fitted, answers: Mapping[str, str | Sequence[str]]
) -> tuple[np.ndarray, Float64[np.ndarray, "answered classes"]]:
    """Returns the answered items, by their place in the fit, and how often each class was answered."""
    dataset = fitted.dataset
    place = {dataset.item_names[int(code)]: place for place, code in enumerate(fitted.code)}
    classes = {name: code for code, name in enumerate(dataset.class_labels)}
    if not answers:
        raise BadInput("answers: expected at least one item with the answer that it was given, got none")
    given = np.zeros((len(answers), len(classes)))
    for row, (item, said) in enumerate(answers.items()):
        if item not in place:
            raise UnknownName("item", item, place, "answers")
        for label in [said] if isinstance(said, str) else said:
            if label not in classes:
                raise UnknownName("class", label, classes, f"answers, item {item!r}")
            given[row, classes[label]] += 1
        if not given[row].any():
            raise BadInput(f"answers, item {item!r}: expected an answer, got none")
    return np.array([place[item] for item in answers]), given


def _predicted(
    fitted: Fitted, fit: AlignedFit, items: np.ndarray, given: Float64[np.ndarray, "answered classes"]
) -> ItemProbs:
    if set(ARRAYS) <= set(fit.result.extras):
        crowd = ClusteredCrowd.of(fit.result.extras)
        row, label = np.nonzero(given)
        often = given[row, label].astype(np.int64)
        who = crowd.new_annotator(np.repeat(items[row], often), np.repeat(label, often))
        return crowd.answers(np.arange(len(fitted.code)), who)
    from crowdsweep.models.joint._ldl_network import AnnotatorEnsemble  # noqa: PLC0415 - torch, where it is needed
    from crowdsweep.models.joint._unseen_annotator import ANSWERS, infer_annotator  # noqa: PLC0415

    ensemble, known = fit.result.predictor, fitted.training.items
    if isinstance(ensemble, ScaledPredictor):
        ensemble, known = ensemble.predictor, ensemble.scale.items(known)
    if not isinstance(ensemble, AnnotatorEnsemble):
        raise BadInput(
            f"model {fitted.model!r}: it predicts no labels of an annotator that it was not fitted to; pgm-bp, "
            f"pgm-annealing and ldl-nm do"
        )
    shares = given / given.sum(axis=1, keepdims=True)
    return infer_annotator(ensemble, known.take(items), shares, ANSWERS).answers(known)
