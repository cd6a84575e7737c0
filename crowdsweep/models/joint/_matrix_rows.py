"""Confusion matrices as rows of free numbers: of each class, a softmax over the answers.

A row is a matrix [observed, true], flat, as the papers write it: what an answer says of each class lies together.
"""

import numpy as np
from jaxtyping import Float32

from crowdsweep.models.end_to_end import Rows
from crowdsweep.models.label_likelihood import Distinct, PerClass, Which
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import repeated
from crowdsweep.models.networks.tensors import take_rows


def confident_logits(n_classes: int, correctness: float) -> Float32[np.ndarray, " cells"]:
    """Returns the logits, flat, of the matrix with this diagonal that treats all errors alike."""
    diagonal = np.log(correctness) - np.log1p(-correctness) + np.log(max(n_classes - 1, 1))
    return (diagonal * np.eye(n_classes)).ravel().astype(np.float32)


def confident_rows(n_classes: int, correctness: float) -> Rows:
    """Returns the logits of a matrix for each annotator, all beginning with this diagonal."""
    return Rows(width=n_classes**2, start=repeated(confident_logits(n_classes, correctness)))


def log_columns(logits: Distinct, which: Which, label: Which) -> PerClass:
    """Returns the log-probability of each label for each true class.

    Args:
        logits: of the annotators who gave the labels.
        which: of them gave each label.
    """
    n_classes = round(logits.shape[1] ** 0.5)
    log_matrices = torch.log_softmax(logits.unflatten(1, (n_classes, n_classes)), dim=1)
    return take_rows(log_matrices.flatten(0, 1), which * n_classes + label)
