"""What naive oracles of aggregators begin with: answers as a dense table, and a fit to compare with."""

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream


def table_of(rows: Annotations) -> np.ndarray:
    """Returns how much answer each annotator gave for each label of each item [items, annotators, classes]."""
    found = np.zeros((rows.n_items, rows.n_annotators, rows.n_classes))
    for j in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[j])
        certain = 1.0 if rows.probability is None else float(rows.probability[j])
        for label in range(rows.n_classes):
            share = certain if label == rows.label[j] else (1 - certain) / (rows.n_classes - 1)
            found[rows.item[j], rows.annotator[j], label] += weight * share
    return found


def fit(name: str, rows: Annotations, **params: object) -> FitResult:
    """Returns the fit of an aggregator."""
    data = TrainingData(annotations=rows, items=Items(n_items=rows.n_items))
    return fit_one(registered.build_model(name, params), data, FitContext(seeds=SeedStream(0)))
