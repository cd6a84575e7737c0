"""Dawid-Skene, then a classifier: it learns the posterior that Dawid-Skene gives each item.

Annotators' confusion matrices and the items' classes are estimated from the labels alone, then the classifier is
trained on the soft posterior. With one label an annotator there is nothing to tell annotators apart by, and it fails.
Baseline of Mena and Nanculef (CIARP 2019), where it is called DL-DS.

    T_i   targets (posterior)          f(x)   the classifier          pi_t   annotators

Deviations: log space, and `smoothing` pseudo-counts in the matrices (0 is the paper's); under `protocol: equal_budget`
all epochs are trained instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

from annotated_types import Ge, Gt, Lt

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import NetworkKind, Protocols
from crowdsweep.models._cost import training_cost
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, nobody_listens
from crowdsweep.models.two_stage._aggregate_then_train import (
    Aggregated,
    answered,
    fit_two_stage,
)

TOLERANCE, PAPER_TOLERANCE = 1e-5, 1e-3


@final
@dataclass(frozen=True, kw_only=True)
class DLDS:
    """Hyper-parameters of Dawid-Skene with a classifier.

    Attributes:
        network: the classifier.
        hidden: widths of the hidden layers of an mlp.
        dropout: share of hidden units dropped in training.
        learning_rate: of Adam.
        batch_size: items in a step.
        epochs: passes over the items; the most under `protocol: paper`.
        protocol: `paper` stops once the training loss gains less than 3 % over the best; `equal_budget` does not stop.
        smoothing: pseudo-counts in every cell of the confusion matrices.
        iterations: the most steps of Dawid-Skene's EM.
        tolerance: EM stops once its objective rises by less than this share of itself; none: 1e-5, or 1e-3 under
            `protocol: paper`, which is about where the authors stop (at 3 % of the log-likelihood and, later, of the
            matrices' entries).
    """

    network: NetworkKind = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    epochs: Annotated[int, Ge(1)] = 50
    protocol: Protocols = "equal_budget"
    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 50
    tolerance: Annotated[float, Ge(0)] | None = None

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Runs Dawid-Skene's EM and trains on its posterior."""
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = PAPER_TOLERANCE if self.protocol == "paper" else TOLERANCE
        first_stage = DawidSkene(smoothing=self.smoothing, iterations=self.iterations, tolerance=tolerance)
        # What is reported is the classifier's objective.
        quiet = [replace(context, report=nobody_listens) for context in contexts]
        aggregated = [
            Aggregated(targets=answered(part, found.item_probs), annotators=found.annotators, extras=found.extras)
            for part, found in zip(data, first_stage.fit_batch(data, quiet), strict=True)
        ]
        return fit_two_stage(self, data, contexts, aggregated)


MODEL = ModelInfo(
    name="dl-ds",
    title="Dawid-Skene, then a classifier",
    model=DLDS,
    source="Mena and Nanculef 2019, section 4 (DL-DS)",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "smoothing": {"values": [0, 0.01, 0.1, 1]},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "dropout": {"values": [0.0, 0.2, 0.5]},
        "epochs": {"values": [10, 20, 50]},
    },
    cost=training_cost,
    label_symmetric=False,
)
