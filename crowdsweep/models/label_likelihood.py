"""The likelihood of a label given each true class, which a model that is trained end to end states once.

A `LogLikelihood` is asked of `Labels`: those of a training step (`end_to_end.StepLabels`), or any that a trained model
is asked about (`end_to_end_fitted.FittedLabels`).
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int64

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.named import NamedNetwork

PerLabel = Float[torch.Tensor, " labels"]
PerClass = Float[torch.Tensor, "labels classes"]
PerRow = Float[torch.Tensor, "labels width"]
Distinct = Float[torch.Tensor, "distinct width"]
Which = Int64[torch.Tensor, " labels"]
Shared = Float[torch.Tensor, "replicas ..."]


@runtime_checkable
class Labels(Protocol):
    """Labels whose likelihood is computed: those of a training step, or any that a fitted model is asked about."""

    @property
    def label(self) -> Which:
        """y of each."""
        ...

    def annotators(self, name: str) -> tuple[Distinct, Which]:
        """Returns the rows (`Rows`) of the annotators who gave the labels, and which of them gave each."""
        ...

    def outputs(self, network: NamedNetwork) -> PerRow:
        """Returns what another network than the classifier gives for the item of each label."""
        ...

    def parameter(self, name: str) -> tuple[Shared, Which]:
        """Returns a parameter of every replica, and which replica each label is of."""
        ...


LogLikelihood = Callable[[Labels], PerClass]


def mixture(log_f: PerClass, log_likelihood: PerClass) -> PerLabel:
    """Returns log sum_k f_k p(y | k) of each label."""
    return torch.logsumexp(log_f + log_likelihood, dim=1)
