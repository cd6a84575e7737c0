"""Which models a newcomer's sweep begins with: a few, each with a reason, each checked against what it needs.

What a model needs and takes, it says itself (`ModelInfo`); what is said here is why somebody would try it on data like
these. All of them together are to end within minutes, by what they say that they cost: first each at its defaults,
the cheapest first, then searches for as many as there is time for.
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
"""Of one core, for everything, by the models' own formulas."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What decides which models make sense on a dataset.

    Attributes:
        trial: the data, made ready for one seed.
        params: dataset parameters that they were made ready with.
        offer: what they have.
        holds_out: whether answers can be held out, every item keeping one.
        labels_per_item: the largest number of labels that half of the items have at least.
    """

    trial: TrialData
    params: Mapping[str, Scalar]
    offer: DatasetFacts
    holds_out: bool
    labels_per_item: int

    @property
    def known(self) -> bool:
        """Whether annotators are known."""
        return not self.trial.training.annotations.anonymous

    @property
    def has_text(self) -> bool:
        """Whether items have a text that a network can read: for one class an item."""
        return self.trial.training.items.text is not None and self.trial.training.scale != "multilabel"

    @property
    def unseen(self) -> str:
        """The split of items that no fit sees and that models are ranked on; empty where there is none."""
        able = self.trial.training.items.features is not None
        return next((split for split in ("test", "dev") if able and split in self.offer.scored), "")

    @property
    def searchable(self) -> bool:
        """Whether something can choose among settings that does not rank the models afterwards."""
        return self.holds_out or (self.unseen == "test" and "dev" in self.offer.scored)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model worth trying.

    Attributes:
        name: of the model.
        why: in a few words.
        when: the data on which it is tried.
        searched: whether its settings matter enough to be searched.
        reads: whether it reads features or texts of items: where they have neither, it is not even imported, which
            would bring torch along.
        unseen: whether it predicts items that no fit sees, though it learns from labels alone.
        params: hyper-parameters.
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
        candidate: the model.
        search: whether there is time for a search.
        seconds: for all of it, on one core.
        left_out: why it is left out; empty where it is not.
    """

    candidate: Candidate
    search: bool
    seconds: float
    left_out: str = ""


def _has_features(facts: Facts) -> bool:
    return facts.trial.training.items.features is not None


def _known(facts: Facts) -> bool:
    return facts.known


def _of_several_classes(facts: Facts) -> bool:
    return facts.trial.training.scale == "multilabel"


CANDIDATES = (
    Candidate(name="majority-vote", why="the yardstick: nothing should do worse"),
    Candidate(
        name="marginal",
        why="one answer for every item: what can be said without looking at it",
        when=_of_several_classes,
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
    """Looks at what a dataset has.

    Args:
        dataset: the dataset.
        given: parameters that it was loaded with.

    Raises:
        DataError: there is nothing to train on, or so many classes that no model can be fitted.
    """
    untold = dataset.items.features is None and bool(dataset.split.any())
    params = {**given, **({"training": "all"} if untold else {})}  # else nothing could be said of the others
    taken = prepare(dataset, params, 0, HELDOUT).heldout  # first, so that what else it makes is gone before the next
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
    """Returns the models that fit a dataset, the cheapest first, and those that there is no time for.

    Args:
        facts: of the dataset.
        name: of it, for what cannot be taken.
    """
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
    """Whether the data bring what a model needs, and whether it is ranked among the others."""
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
    """Returns roughly what one trial takes; a model that does not say counts as slow."""
    info = registered.model_info(candidate.name)
    params = registered.full_params(candidate.name, candidate.params)
    if info.cost is None:
        return SECONDS
    return cost_by_formula(info.cost, facts.offer.shape, params)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.0f} h"
