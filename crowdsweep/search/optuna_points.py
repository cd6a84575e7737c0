"""The searcher that uses Optuna's samplers.

Every proposal is a function of the sampler's seed, the proposal's number and the values told so far: a new sampler is
made for each. So a search that is rebuilt from the journal makes the same proposals as the first one would have.

The sampler treats points of earlier searches (`told`) as if this search had tried them. They are not proposals, so each
may still be proposed; the best of them is proposed first, as only a search's own points can be selected.

Of several objectives the first selects the best point; the sampler treats all alike.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from crowdsweep.record.spec import canonical_json
from crowdsweep.search.contract import Goal, Proposal, Sampler, check_next
from crowdsweep.search.dimensions import NORMAL_TAIL, Choice, Dimension, FloatRange, IntRange, Normal, Steps
from crowdsweep.search.space import Space
from crowdsweep.seeds import SeedStream

_GENERATION = "NSGAIISampler:generation"  # the attribute in which Optuna stores a trial's generation
_MAX_ATTEMPTS = 10  # proposals that repeat an earlier point before the first untried one is taken instead


@final
class OptunaPoints:
    """Searcher with one of Optuna's samplers, in memory. It proposes no point twice."""

    def __init__(
        self,
        space: Space,
        sampler: Sampler,
        goal: Goal,
        limit: int,
        told: Sequence[tuple[Mapping[str, Any], Sequence[float]]] = (),
        further: Sequence[Goal] = (),
    ) -> None:
        """Starts a search without proposals.

        Args:
            sampler: settings, of the kind `tpe`, `gp`, `nsga2` or `random`.
            limit: largest number of proposals.
            told: points of this space that earlier searches tried, and their finite values of each objective.
            further: goal of each further objective.
        """
        self._space = space
        self._sampler = sampler
        self._goals: Sequence[Goal] = (goal, *further)
        self._limit = limit
        self._seeds = SeedStream(sampler.seed).child("search")
        self._distributions = {name: distribution_of(dimension) for name, dimension in space.dimensions.items()}
        with QuietOptuna():
            self._optuna = optuna.create_study(directions=self._goals, sampler=RandomSampler(seed=0))
        self._trials: list[int] = []  # Optuna's trial number of each proposal
        self._told: set[int] = set()
        self._worst: Sequence[float] = ()  # worst value so far, of each objective
        self._failed: list[int] = []  # proposals that failed before any value was told
        self._asked: set[str] = set()
        for point, values in told:
            self._add(point, values)
            self._note(values)
        better = max if goal == "maximize" else min
        self._best_told = better(told, key=lambda one: one[1][0])[0] if told else None

    def ask(self) -> Proposal | None:
        """Returns a point that has not been proposed yet, or None at the limit or where the space is exhausted."""
        if len(self._trials) >= self._limit:
            return None
        if self._space.size is not None and len(self._asked) >= self._space.size:
            return None
        if not self._trials and self._best_told is not None:
            return self._proposed(self._best_told)
        for attempt in range(_MAX_ATTEMPTS):
            point = self._suggest(attempt)
            if canonical_json(point) not in self._asked:
                return self._proposed(point)
        if self._space.size is None:
            return None
        point = next(point for point in self._space.enumerate() if canonical_json(point) not in self._asked)
        return self._proposed(point)

    def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
        """Records a proposal's value of each objective; None, and a value that is not finite, are a failure.

        Samplers ignore failures, and would propose their neighbours again and again. So a failed point gets the worst
        value so far; a point that fails before any value is told gets it as soon as there is one.

        Raises:
            ValueError: there is no such proposal, or its value was told already; or not every objective has a value.
        """
        if not 0 <= number < len(self._trials):
            raise ValueError(f"expected the number of a proposal below {len(self._trials)}, got {number}")
        if number in self._told:
            raise ValueError(f"expected a proposal without a result, got {number} again")
        values = () if value is None else (value, *further)
        if len(values) not in (0, len(self._goals)):
            raise ValueError(f"expected a value of each of {len(self._goals)} objectives, got {len(values)}")
        self._told.add(number)
        if not values or not all(map(math.isfinite, values)):
            self._failed.append(number)
        else:
            self._note(values)
            self._tell(number, values)
        if self._worst:
            for failed in self._failed:
                self._tell(failed, self._worst)
            self._failed.clear()

    def _note(self, values: Sequence[float]) -> None:
        known = zip(self._goals, self._worst or values, values, strict=True)
        self._worst = [(min if goal == "maximize" else max)(worst, value) for goal, worst, value in known]

    def _tell(self, number: int, values: Sequence[float]) -> None:
        with QuietOptuna():
            self._optuna.tell(self._trials[number], values)

    def adopt(self, proposal: Proposal) -> None:
        """Records the next proposal as an earlier driver made it.

        Raises:
            ValueError: its number is not the next one.
        """
        check_next(proposal, len(self._trials))
        self._proposed(proposal.point)

    def _proposed(self, point: Mapping[str, Any]) -> Proposal:
        self._trials.append(self._add(point))
        self._asked.add(canonical_json(point))
        if self._sampler.kind == "nsga2":
            self._join_generation()
        return Proposal(number=len(self._trials) - 1, point=point)

    def _suggest(self, attempt: int) -> dict[str, Any]:
        """Returns a point drawn by the sampler; `attempt` changes its seed.

        Optuna's trial of the draw is closed as failed, which samplers ignore. `_add` makes the trial that counts, from
        the rounded point, as the journal stores it. So a search rebuilt from the journal has the same trials.
        """
        seed = self._seeds.child(len(self._trials)).integer(attempt) % 2**32
        with QuietOptuna():
            self._optuna.sampler = self._make_sampler(seed)
            trial = self._optuna.ask()
            point: dict[str, Any] = {}
            for name, dimension in self._space.dimensions.items():
                if self._space.is_active(name, point):
                    point[name] = _decoded(dimension, _suggested(trial, name, self._distributions[name]))
            self._optuna.tell(trial, state=TrialState.FAIL)
        return point

    def _join_generation(self) -> None:
        """Assigns the latest proposal to a generation of NSGA-II and selects that generation's parents now.

        Optuna would do so when its sampler draws a point; points from the journal are not drawn.
        """
        sampler = self._make_sampler(0)
        if isinstance(sampler, NSGAIISampler):
            latest = self._optuna.get_trials(deepcopy=False)[-1]
            sampler.get_parent_population(self._optuna, sampler.get_trial_generation(self._optuna, latest))

    def _add(self, point: Mapping[str, Any], values: Sequence[float] = ()) -> int:
        """Adds a trial with this point to Optuna's study, running where it has no values yet; returns its number."""
        added: FrozenTrial = create_trial(
            state=TrialState.COMPLETE if values else TrialState.RUNNING,
            values=values or None,
            system_attrs={_GENERATION: 0} if values else None,  # earlier searches' points are the first generation
            params={name: encoded(self._space.dimensions[name], part) for name, part in point.items()},
            distributions={name: self._distributions[name] for name in point},
        )
        self._optuna.add_trial(added)
        return len(self._optuna.get_trials(deepcopy=False)) - 1

    def _make_sampler(self, seed: int) -> BaseSampler:
        startup = min(10, max(4, self._limit // 4))
        match self._sampler.kind:
            case "tpe":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ExperimentalWarning)  # `group` still counts as experimental
                    group = self._space.is_conditional  # `group` needs `multivariate` set for several objectives
                    return TPESampler(
                        seed=seed, n_startup_trials=startup, group=group, multivariate=True if group else None
                    )
            case "gp":
                # Values are means over a few seeds, and so noisy.
                return GPSampler(seed=seed, n_startup_trials=startup, deterministic_objective=False)
            case "nsga2":
                return NSGAIISampler(seed=seed, population_size=min(50, max(8, self._limit // 5)))
            case "random":
                return RandomSampler(seed=seed)
            case _:
                raise ValueError(f"expected tpe, gp, nsga2 or random, got {self._sampler.kind}")


def distribution_of(dimension: Dimension) -> BaseDistribution:
    """Returns Optuna's distribution for a dimension."""
    match dimension:
        case Choice():
            return CategoricalDistribution(range(dimension.size))  # positions: Optuna takes no lists as choices
        case IntRange():
            return IntDistribution(dimension.low, dimension.high)
        case FloatRange():
            return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
        case Steps(log=True):
            return FloatDistribution(dimension.low, dimension.at(dimension.size - 1), log=True)
        case Steps():
            return IntDistribution(0, dimension.size - 1)
        case Normal():
            return FloatDistribution(NORMAL_TAIL, 1 - NORMAL_TAIL)


def _suggested(trial: Trial, name: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(name, distribution.low, distribution.high)
        case FloatDistribution():
            return trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
        case _:
            raise TypeError(f"expected one of this file's distributions, got {distribution}")


def _decoded(dimension: Dimension, suggested: Any) -> Any:
    match dimension:
        case Choice():
            return dimension.values[suggested]
        case Steps(log=True):
            return dimension.at(dimension.position(suggested))
        case Steps() | Normal():
            return dimension.at(suggested)
        case _:
            return suggested


def encoded(dimension: Dimension, value: Any) -> Any:
    """Returns Optuna's representation of a dimension's value (the inverse of `_decoded`).

    Raises:
        ValueError: the value is none of a `Choice`.
    """
    match dimension:
        case Choice():
            return dimension.index(value)
        case Steps(log=False):
            return dimension.position(value)
        case Normal():
            return dimension.quantile(value)
        case _:
            return value


class QuietOptuna(AbstractContextManager[None]):
    """Context manager that silences Optuna's messages below errors, and restores its verbosity afterwards."""

    def __enter__(self) -> None:
        self._before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(max(self._before, optuna.logging.ERROR))

    def __exit__(self, *_: object) -> None:
        optuna.logging.set_verbosity(self._before)
