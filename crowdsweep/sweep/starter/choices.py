"""The models of a starter sweep: a few, each with a reason, each checked against what it needs.

What a model needs and takes comes from its own `ModelInfo`; this module says why somebody would try it on such data. By
their own cost formulas, all models together should end within minutes. Each model runs at its defaults, the cheapest
first; then as many models are searched as there is time for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crowdsweep.data.dataset import CrowdDataset, Scalar, TrialData
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError
from crowdsweep.models import registered
from crowdsweep.models.needs import check_needs
from crowdsweep.search.space import Space
from crowdsweep.sweep.cost_estimate import cost_by_formula
from crowdsweep.sweep.requirements import DatasetFacts, dataset_facts

POINTS, SEARCH_SEEDS, REPORT_SEEDS = 8, 3, 5
HELDOUT = 0.1
SECONDS = 400.0
"""Seconds of one core for the whole sweep, by the models' own cost formulas."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that decide which models make sense on a dataset.

    Attributes:
        trial: the data, prepared for one seed.
        params: the dataset parameters that the data were prepared with.
        offer: the properties of the prepared data.
        holds_out: whether annotations can be held out such that every item keeps one.
        labels_per_item: the largest number of labels that at least half of the items have.
    """

    trial: TrialData
    params: Mapping[str, Scalar]
    offer: DatasetFacts
    holds_out: bool
    labels_per_item: int

    @property
    def known(self) -> bool:
        """Whether it is known which annotator gave which label."""
        return not self.trial.training.annotations.anonymous

    @property
    def has_text(self) -> bool:
        """Whether items have texts that a network can read; false where an item can have several classes."""
        return self.trial.training.items.text is not None and self.trial.training.scale != "multilabel"

    @property
    def unseen(self) -> str:
        """The split that no fit sees and on which models are ranked; empty where there is none."""
        able = self.trial.training.items.features is not None
        return next((split for split in ("test", "dev") if able and split in self.offer.scored), "")

    @property
    def searchable(self) -> bool:
        """Whether hyper-parameters can be chosen by something that does not rank the models afterwards."""
        return self.holds_out or (self.unseen == "test" and "dev" in self.offer.scored)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model worth trying.

    Attributes:
        why: the reason, in a few words.
        when: whether the model is tried on data with these facts.
        searched: whether its hyper-parameters matter enough to be searched.
        reads: whether it reads features or texts of items. Where items have neither, the model is not even imported,
            since the import would load torch.
        unseen: whether it predicts items that no fit sees, though it learns from labels alone.
    """

    name: str
    why: str
    when: Callable[[Facts], bool] = lambda _: True
    searched: bool = False
    reads: bool = False
    unseen: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A candidate on a dataset.

    Attributes:
        search: whether its hyper-parameters are searched.
        seconds: for all of its trials, on one core.
        left_out: why the model is left out; empty where it is not.
    """

    candidate: Candidate
    search: bool
    seconds: float
    left_out: str = ""


def _has_features(facts: Facts) -> bool:
    return facts.trial.training.items.features is not None


def _known(facts: Facts) -> bool:
    return facts.known


def _by_distribution(facts: Facts) -> bool:
    """Whether items that no fit sees are scored against the distribution of their own answers."""
    return bool(facts.unseen) and not facts.offer.scored[facts.unseen]


def _of_several_classes(facts: Facts) -> bool:
    return facts.trial.training.scale == "multilabel"


CANDIDATES = (
    Candidate(name="majority-vote", why="the yardstick: nothing should do worse"),
    Candidate(
        name="marginal",
        why="one answer for every item: what can be said without looking at it",
        when=lambda f: _of_several_classes(f) or _by_distribution(f),
        unseen=True,
    ),
    Candidate(
        name="multinomial", why="one confusion matrix for the whole crowd", when=lambda f: not f.known, searched=True
    ),
    Candidate(name="wawa", why="votes weighted by how often their annotator agrees with the others", when=_known),
    Candidate(
        name="one-coin",
        why="one accuracy for each annotator, that of the crowd where somebody gave few labels",
        when=_known,
        searched=True,
    ),
    Candidate(
        name="dawid-skene",
        why="a confusion matrix for each annotator: for dozens of labels of each",
        when=_known,
        searched=True,
    ),
    Candidate(name="mace", why="annotators who know, or answer without looking", when=_known, searched=True),
    Candidate(
        name="hierarchical-dawid-skene",
        why="matrices drawn from around the crowd's: the default for labels alone",
        when=_known,
        searched=True,
    ),
    Candidate(
        name="ordinal-dawid-skene",
        why="matrices whose errors go to neighbouring classes first",
        when=_known,
        searched=True,
    ),
    Candidate(name="glad", why="items that are hard for everybody", when=_known, searched=True),
    Candidate(
        name="ideal", why="trained on gold: what a classifier could reach at best, marked and ranked apart", reads=True
    ),
    Candidate(name="soft-mv", why="a classifier trained on the shares of the votes", when=_has_features, reads=True),
    Candidate(name="pd", why="a classifier trained on the distribution of answers", when=_by_distribution, reads=True),
    Candidate(name="crowdlab", why="a classifier as one more opinion", when=_known, reads=True),
    Candidate(name="dl-ds", why="Dawid-Skene, then a classifier", when=_known, reads=True),
    Candidate(
        name="dl-em", why="Dawid-Skene and a classifier, trained together", when=_known, searched=True, reads=True
    ),
    Candidate(name="crowd-layer", why="a network with a layer for each annotator", when=_known, reads=True),
    Candidate(name="cmm", why="annotators in groups, and a classifier", searched=True, reads=True),
    Candidate(name="lia-ml", why="several classes per item, from features", when=_of_several_classes, reads=True),
)


def facts_of(dataset: CrowdDataset, given: Mapping[str, Scalar]) -> Facts:
    """Returns the facts of a dataset.

    Args:
        given: the parameters that it was loaded with.

    Raises:
        DataError: there is nothing to train on, or so many classes that no model can be fitted.
    """
    untold = dataset.items.features is None and bool(dataset.split.any())
    params = {**given, **({"training": "all"} if untold else {})}  # without features, no model labels unseen items
    taken = prepare(dataset, params, 0, HELDOUT).heldout  # first: its other data are freed before the next
    trial = prepare(dataset, params, 0)
    labels = trial.training.annotations
    per_item = sorted(labels.labels_per_item[labels.labels_per_item > 0].tolist())
    return Facts(
        trial=trial,
        params=params,
        offer=dataset_facts(trial),
        holds_out=taken is not None and len(taken) > 0,
        labels_per_item=int(per_item[(len(per_item) - 1) // 2]),
    )


def choose(facts: Facts, name: str) -> list[Chosen]:
    """Returns the candidates that fit a dataset, the cheapest first, including those that there is no time for."""
    fitting = [one for one in CANDIDATES if one.when(facts) and _can(one, facts, name)]
    costs = {one.name: _seconds(one, facts) for one in fitting}
    fitting.sort(key=lambda one: costs[one.name])
    left, chosen = SECONDS, dict[str, Chosen]()
    for one in fitting:
        seconds = REPORT_SEEDS * costs[one.name]
        late = seconds > left and bool(chosen)  # the cheapest is run whatever it costs
        left -= 0 if late else seconds
        words = f"{_minutes(seconds)} on one core" if late else ""
        chosen[one.name] = Chosen(candidate=one, search=False, seconds=seconds, left_out=words)
    for one in fitting:
        more = _points(one) * SEARCH_SEEDS * costs[one.name]
        if one.searched and facts.searchable and not chosen[one.name].left_out and more <= left:
            left -= more
            chosen[one.name] = Chosen(candidate=one, search=True, seconds=chosen[one.name].seconds + more)
    return list(chosen.values())


def _can(candidate: Candidate, facts: Facts, name: str) -> bool:
    """Whether the data have what a model needs, and whether the model can be ranked among the others."""
    items = facts.trial.training.items
    if candidate.reads and items.features is None and items.text is None:
        return False
    info = registered.model_info(candidate.name)
    needs = info.needs_of(registered.build_model(candidate.name, candidate.params), items)
    try:
        check_needs(info, needs, facts.trial, name)
    except DataError:
        return False
    return not facts.unseen or candidate.unseen or bool(needs & {"features", "text"})


def _points(candidate: Candidate) -> int:
    size = Space.parse(registered.model_info(candidate.name).space).size
    return POINTS if size is None else min(POINTS, size)


def _seconds(candidate: Candidate, facts: Facts) -> float:
    """Returns the rough seconds of one trial; a model without a cost formula counts as slow."""
    info = registered.model_info(candidate.name)
    params = registered.full_params(candidate.name, candidate.params)
    if info.cost is None:
        return SECONDS
    return cost_by_formula(info.cost, facts.offer.shape, params)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.0f} h"
