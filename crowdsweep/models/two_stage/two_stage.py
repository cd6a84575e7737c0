"""Any aggregator, then any classifier: the other two-stage models are special cases of it.

`aggregate` names a model of labels alone, whose own hyper-parameters stand beside it:
`{aggregate: dawid-skene, smoothing: 0.1, network: mlp}`. The classifier is trained on what the aggregator says of each
item. A search may run over `aggregate` too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models import registered
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult, Model
from crowdsweep.models.two_stage._pair import two_stage
from crowdsweep.models.two_stage._targets import aggregated, fit_quietly
from crowdsweep.models.two_stage._training import CLASSIFIER_SPACE, Training
from crowdsweep.registry import discovery
from crowdsweep.registry.parameters import Variants, parameters_of

_READS_ITEMS = {"features", "text", "gold"}


@final
class Aggregators(Mapping[str, type[Any]]):
    """The models of labels alone, built-in and plug-ins, by name; each is imported when it is looked up.

    Models with a classifier of their own are left out: their hyper-parameters would have two meanings here.
    """

    def __getitem__(self, name: str) -> type[Any]:
        if name not in _candidates() or not _aggregates(name):
            raise KeyError(name)
        return registered.model_info(name).model

    def __iter__(self) -> Iterator[str]:
        return (name for name in _candidates() if _aggregates(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _candidates() -> list[str]:
    """Returns the names of models outside the folders of models with a classifier, without importing any."""
    places = discovery.find("model").values()
    return [
        place.name for place in places if not place.module.startswith(("crowdsweep.models.joint", __package__ or ""))
    ]


@cache
def _aggregates(name: str) -> bool:
    info = registered.model_info(name)
    return not info.needs & _READS_ITEMS and "network" not in parameters_of(info.model)


@final
@dataclass(frozen=True, kw_only=True)
class TwoStage:
    """Hyper-parameters of an aggregator and a classifier.

    Attributes:
        aggregate: the model that makes the targets.
    """

    aggregate: Annotated[Model, Variants(Aggregators)] = MajorityVote()
    training: Training = Training()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        first = [replace(context, seeds=context.seeds.child("aggregate")) for context in contexts]
        return self.training.fit(data, contexts, list(map(aggregated, data, fit_quietly(self.aggregate, data, first))))


MODEL = two_stage(
    name="two-stage",
    title="Any aggregator, then a classifier",
    model=TwoStage,
    source="Folklore; the pairs of Mena and Nanculef 2019, section 4, among them",
    space={"aggregate": {"values": ["majority-vote", "multinomial", "one-coin", "dawid-skene"]}, **CLASSIFIER_SPACE},
    version=3,
)
