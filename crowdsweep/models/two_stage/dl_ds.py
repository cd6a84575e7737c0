"""Dawid-Skene, then a classifier: it learns the posterior that Dawid-Skene gives each item.

Annotators' confusion matrices and the items' classes are estimated from the labels alone, then the classifier is
trained on the soft posterior. With one label per annotator there is nothing to tell annotators apart by, and it fails.
Baseline of Mena and Nanculef (CIARP 2019), where it is called DL-DS.

    T_i   targets (posterior)          f(x)   the classifier          pi_t   annotators

Deviations: log space, and `smoothing` pseudo-counts in the matrices (0 is the paper's); under `protocol: equal_budget`
all epochs are trained instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import CLASSIFIER_SPACE, Training, aggregated, two_stage

TOLERANCE, PAPER_TOLERANCE = 1e-5, 1e-3


@final
@dataclass(frozen=True, kw_only=True)
class DLDS:
    """Hyper-parameters of Dawid-Skene with a classifier.

    Attributes:
        training: of the classifier.
        smoothing: pseudo-counts in every cell of the confusion matrices.
        iterations: the most steps of Dawid-Skene's EM.
        tolerance: EM stops once its objective rises by less than this share of itself; none: 1e-5, or 1e-3 under
            `protocol: paper`, which is about where the authors stop (at 3 % of the log-likelihood and, later, of the
            matrices' entries).
    """

    training: Training = Training()
    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 50
    tolerance: Annotated[float, Ge(0)] | None = None

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Runs Dawid-Skene's EM and trains on its posterior."""
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = PAPER_TOLERANCE if self.training.protocol == "paper" else TOLERANCE
        first = DawidSkene(smoothing=self.smoothing, iterations=self.iterations, tolerance=tolerance)
        return self.training.fit(data, contexts, aggregated(first, data, contexts))


MODEL = two_stage(
    "dl-ds",
    title="Dawid-Skene, then a classifier",
    model=DLDS,
    source="Mena and Nanculef 2019, section 4 (DL-DS)",
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}, **CLASSIFIER_SPACE},
)
