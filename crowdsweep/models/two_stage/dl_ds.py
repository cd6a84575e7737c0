"""Dawid-Skene, then a classifier: it learns the posterior that Dawid-Skene gives each item.

Annotators' confusion matrices and the items' classes are estimated from the labels alone, then the classifier is
trained on the soft posterior. With one label per annotator the matrices cannot be estimated, and it fails.
Baseline of Mena and Nanculef (CIARP 2019), where it is called DL-DS.

    T_i   targets (posterior)          f(x)   the classifier          pi_t   annotators

Deviations: log space, and `smoothing` pseudo-counts in the matrices (0 is the paper's); under `protocol: equal_budget`
EM runs until its objective converges, and all epochs are trained instead of stopping early. As the authors do,
`protocol: paper` ends EM at the first step that changes neither the log-likelihood nor, on average, the matrices'
entries by more than 3 %.

Their I-JS on labelme (published 0.153; ours 0.184) is of matrices some of whose rows stay zero: those of classes whose
expected counts underflow in single precision. Such rows are scored as 1e-7 in every entry, without being normalised,
against half of the true row. A dense implementation that does the same gives 0.156; ours keeps the little mass that
such rows have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import evenly, soft_vote, stack
from crowdsweep.models.aggregate.dawid_skene import fit_matrices
from crowdsweep.models.contract import FitContext, FitResult, no_op
from crowdsweep.models.two_stage._pair import two_stage
from crowdsweep.models.two_stage._targets import aggregated
from crowdsweep.models.two_stage._training import CLASSIFIER_SPACE, Training

TOLERANCE, PAPER_TOLERANCE = 1e-5, 0.03


@final
@dataclass(frozen=True, kw_only=True)
class DLDS:
    """Hyper-parameters of Dawid-Skene with a classifier.

    Attributes:
        training: of the classifier.
        smoothing: pseudo-counts in every cell of the confusion matrices.
        iterations: the most steps of Dawid-Skene's EM.
        tolerance: EM stops once its objective rises by less than this share of itself (`protocol: paper`: and the
            matrices' entries change by less, on average); none: 1e-5, or 0.03 under `protocol: paper`.
    """

    training: Training = Training()
    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 50
    tolerance: Annotated[float, Ge(0)] | None = None

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        paper = self.training.protocol == "paper"
        tolerance = PAPER_TOLERANCE if paper else TOLERANCE
        crowds = stack([part.annotations for part in data])
        fitted = fit_matrices(
            crowds,
            soft_vote(crowds),
            evenly(crowds, self.smoothing),
            iterations=self.iterations,
            tolerance=tolerance if self.tolerance is None else self.tolerance,
            reports=[no_op] * len(data),
            matrices_rest=paper,
        )
        return self.training.fit(data, contexts, list(map(aggregated, data, fitted.results(self.smoothing))))


MODEL = two_stage(
    name="dl-ds",
    title="Dawid-Skene, then a classifier",
    model=DLDS,
    source="Mena and Nanculef 2019, section 4 (DL-DS)",
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}, **CLASSIFIER_SPACE},
    version=3,
)
