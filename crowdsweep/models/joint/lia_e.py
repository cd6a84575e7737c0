"""LIA-E: LIA where items have no features, only a vector each, learned with everything else.

Each item is free to be as difficult as its answers say, and what it shares with others is what its vector and the one
network make of it. It labels the items that it was trained on and no others.

Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations", LIA-E.

    the symbols are those of `lia`, x_i being the item's vector    item_embedding

Deviations: those of `lia`. Vectors are drawn from N(0, 1), as standardised features are spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.joint import _lia_replicas, lia
from crowdsweep.models.joint._lia import SOURCE, LiaTraining
from crowdsweep.models.networks.embedded import READS_VECTORS, VECTOR_SPACE, embedded_network


@final
@dataclass(frozen=True, kw_only=True)
class LiaE:
    """Hyper-parameters of LIA-E.

    Attributes:
        item_embedding: width of an item's vector.
        training: those of LIA.
    """

    item_embedding: Annotated[int, Ge(1)] = 16
    training: LiaTraining = LiaTraining(classifier=Classifier(network=READS_VECTORS, learning_rate=3e-3))

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        n_items = max(part.n_items for part in data)
        return _lia_replicas.fit(
            self.training,
            data,
            contexts,
            lambda classifier, n: embedded_network(
                classifier.network, n_outputs=n, n_items=n_items, width=self.item_embedding
            ),
            labels_unseen=False,
        )


MODEL = replace(
    lia.MODEL,
    name="lia-e",
    title="LIA-E: LIA with a learned vector for each item in place of features",
    model=LiaE,
    source=f"{SOURCE}, LIA-E",
    needs=frozenset({"annotators"}),
    space={**VECTOR_SPACE, **lia.MODEL.space},
    version=2,
)
