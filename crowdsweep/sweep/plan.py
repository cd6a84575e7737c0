"""The plan of a sweep: loads the datasets once, checks everything, lays out cells and searches. Runs no trial.

A reported point has the seeds 0, 1, …, `seeds.report` - 1; a searched point has `SEARCH_SEED`, `SEARCH_SEED` + 1, …. So
the winner of a search is always scored on seeds that the search has not seen, and every model has the same seeds. The
axis of a study template is laid out here, as datasets like any others.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Items, TrialData
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.splits import prepare
from crowdsweep.errors import BadInput, DataError, Mistakes, SweepFileError
from crowdsweep.metrics.metric_table import HELDOUT, by_held_out
from crowdsweep.models import registered
from crowdsweep.models.contract import ModelInfo, Need
from crowdsweep.models.needs import check_needs
from crowdsweep.record.events import PointsTold
from crowdsweep.record.spec import canonical_json, digest
from crowdsweep.search.searchers import chosen_for
from crowdsweep.search.space import Space
from crowdsweep.studies.contract import expand_study
from crowdsweep.sweep.cells import Cell, PlannedDataset, Refused, Search
from crowdsweep.sweep.early_stop import early_stop_of, idle_early_stop, raced_after
from crowdsweep.sweep.pilot import Outputs, Pilots
from crowdsweep.sweep.requirements import (
    NOTHING_TO_HOLD_OUT,
    check_metric,
    dataset_facts,
    default_metric,
    metric_without_heldout,
    why_not_by_heldout,
    why_not_by_metric,
)
from crowdsweep.sweep.warm_start import warm_started
from crowdsweep.sweepfile.records import DatasetEntry, ModelEntry, SweepConfig
from crowdsweep.sweepfile.warm_start import source_of

SEARCH_SEED = 1_000_000
MOST_TRIALS = 10_000_000  # a plan holds all of them in memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a sweep will run, checked.

    Attributes:
        config: the sweep file as the user wrote it, which the record keeps.
        datasets: in the order of the file, each at every value of a study template's axis.
        cells: fixed points, which run on the report seeds.
        searches: searches; their best points run on the report seeds.
        refused: searches that cannot be made and are left out.
        of_earlier: sentences for the user about the earlier sweeps whose points searches are told.
    """

    config: SweepConfig
    datasets: Sequence[PlannedDataset]
    cells: Sequence[Cell]
    searches: Sequence[Search]
    refused: Sequence[Refused] = ()
    of_earlier: Sequence[str] = ()

    @property
    def bases(self) -> dict[str, CrowdDataset]:
        """Base datasets by fingerprint, for an executor."""
        return {dataset.base.fingerprint: dataset.base for dataset in self.datasets}

    @cached_property
    def n_search(self) -> int:
        """Number of search trials, at most."""
        return sum(search.n_search for search in self.searches)

    @cached_property
    def n_report(self) -> int:
        """Number of report trials, at most."""
        return sum(len(cell.report_seeds) for cell in self.cells) + sum(search.n_report for search in self.searches)

    @property
    def n_trials(self) -> int:
        """Number of trials, at most: a point proposed twice runs once, and a pruned point runs on fewer seeds."""
        return self.n_search + self.n_report

    @property
    def notes(self) -> list[str]:
        """Sentences that the user should read before the sweep runs."""
        notes = [] if (idle := idle_early_stop(self.config, self.searches)) is None else [idle]
        if self.config.metric is not None and self.config.metric.further and not self.searches:
            further = ", ".join(self.config.metric.further)
            notes.append(f"metric: {further} does nothing in this sweep: it is for searches, and nothing is searched")
        if without := [str(dataset) for dataset in self.datasets if dataset.report_heldout]:
            notes.append(
                f"neither gold nor dev or test items in {', '.join(without)}: models are ranked there by the "
                f"log-likelihood of {100 * self.config.heldout.fraction:g} % of the annotations, which report trials "
                f"leave out of their fit"
            )
        notes += [
            f"{name}: {oddity}; see `crowdsweep data check {name}`"
            for name, base in {dataset.name: dataset.base for dataset in self.datasets}.items()
            for oddity in mistakes(base)
        ]
        if unscored := [str(dataset) for dataset in self.datasets if dataset.unscored]:
            notes.append(
                f"nothing can rank the models on {', '.join(unscored)}: neither gold nor dev or test items, and "
                f"{NOTHING_TO_HOLD_OUT}"
            )
        notes += [
            f"{search.cell.label} on {search.cell.dataset} is searched by {search.metric.name}, since "
            f"{search.instead}; the gold that chooses its point also ranks it, so its score is optimistic"
            for search in self.searches
            if search.instead
        ]
        return [*notes, *self.of_earlier, *map(str, self.refused)]


def make_plan(config: SweepConfig, told: Mapping[str, PointsTold] = MappingProxyType({})) -> Plan:
    """Loads the datasets and checks that every model can run on each of them.

    Each line of `datasets:` is prepared for one seed, which costs as much as preparing one trial.

    Args:
        told: points of earlier sweeps that its searches have been told, by key of the search, from the sweep's own
            record.

    Raises:
        BadInput: parts of the sweep do not fit together; the message says what is missing, where, and what to do.
    """
    with closing(Pilots()) as pilots:
        return _laid_out(config, pilots, told)


def _laid_out(config: SweepConfig, pilots: Pilots, told: Mapping[str, PointsTold]) -> Plan:
    datasets: list[PlannedDataset] = []
    cells: list[Cell] = []
    searches: list[Search] = []
    refused: list[Refused] = []
    bases: dict[str, CrowdDataset] = {}
    with Mistakes() as mistakes:
        for entry in expand_study(config).datasets:
            with mistakes.apart(once=entry.place or None), _at(entry.place):
                dataset, trial = _ready(entry, bases, config)
                datasets.append(dataset)
                wanted = [model for model in config.models if not model.datasets or entry.name in model.datasets]
                for metric in config.metric.each if config.metric is not None and wanted else ():
                    with mistakes.apart():
                        check_metric(metric, dataset.offer, _where(config, entry.name))
                for model in wanted:
                    with mistakes.apart(once=(entry.name, model.label)):
                        cell = _cell(config, model, dataset, trial)
                        if mistakes.found or not model.space.dimensions:
                            cells.append(cell)
                            continue
                        try:
                            cell, why = _scorable(cell, trial, config.metric is not None, pilots)
                        except DataError as error:
                            refused.append(Refused(label=cell.label, dataset=dataset, reason=str(error)))
                        else:
                            searches.append(_search(config, cell, model.space, why))
    if refused and not cells and not searches:
        raise SweepFileError(f"{config.source or config.name}: {'; '.join(map(str, refused))}")
    searches, of_earlier = warm_started(config, searches, told)
    made = Plan(
        config=config, datasets=datasets, cells=cells, searches=searches, refused=refused, of_earlier=of_earlier
    )
    if made.n_trials > MOST_TRIALS:
        raise SweepFileError(
            f"{config.source or config.name}: expected at most {MOST_TRIALS:,} trials, this sweep has "
            f"{made.n_trials:,} ({made.n_search:,} search, {made.n_report:,} report); give fewer points, seeds, models "
            f"or datasets"
        )
    return made


@contextmanager
def _at(place: str) -> Generator[None]:
    """Puts the place of an entry of the sweep file before the message of an error."""
    try:
        yield
    except BadInput as error:
        if place and not str(error).startswith(place.partition(": ")[0]):
            error.args = (f"{place}: {error}",)
        raise


def _ready(
    entry: DatasetEntry, bases: dict[str, CrowdDataset], config: SweepConfig
) -> tuple[PlannedDataset, TrialData]:
    """Loads the base dataset of a line, unless another line has loaded it, and prepares the line's data for seed 0."""
    identity = f"{entry.name} {canonical_json(catalogue.of_base(entry.name, entry.params))}"
    if identity not in bases:
        bases[identity] = catalogue.load(entry.name, entry.params)
    base = bases[identity]
    if base.n_classes < 2 and base.scale != "multilabel":
        raise SweepFileError(
            f"{_where(config, entry.name)}: expected at least two classes, got {list(base.class_names)}"
        )
    trial = prepare(base, entry.params, seed=0)
    planned = PlannedDataset(
        name=entry.name,
        params=dict(entry.params),
        base=base,
        offer=dataset_facts(trial),
        heldout=config.heldout.fraction,
        among=frozenset(other.name for other in config.datasets),
    )
    return planned, trial


def _scorable(cell: Cell, trial: TrialData, asked: bool, pilots: Pilots) -> tuple[Cell, str]:
    """Returns a cell whose points can be scored, and why held-out annotations do not score it.

    The reason is empty where held-out annotations score it, or would not usually.

    Args:
        asked: whether the sweep file names the metric.
        pilots: fit the model for a moment, where needed.

    Raises:
        DataError: nothing can score the points.
    """

    def outputs() -> Outputs | None:
        return pilots.outputs(cell.info, cell.params, trial)

    for metric in cell.metric.each:
        if not by_held_out(metric.name) and (lacks := why_not_by_metric(cell.info, metric, outputs)):
            raise DataError(f"{lacks}; give it parameters, not a search, or a sweep of its own by {HELDOUT}")
    if not cell.metric.held_out:
        return cell, ""
    why = why_not_by_heldout(cell.info, lambda: cell.dataset.holds_out, outputs)
    if not why:
        return cell, ""
    other = metric_without_heldout(cell.dataset.offer)
    if other is None:
        raise DataError(f"{why}, and there is no gold: nothing could choose a point; give parameters, not a search")
    if asked:
        raise DataError(f"{why}; leave `metric` out, or take {other.name}, which the gold of training items allows")
    return replace(cell, metric=other), why


def _cell(config: SweepConfig, entry: ModelEntry, dataset: PlannedDataset, trial: TrialData) -> Cell:
    info = registered.model_info(entry.name)
    needs = _needs(info, entry, trial.training.items)
    try:
        check_needs(info, needs, trial, str(dataset))
    except DataError as error:
        raise SweepFileError(f"{entry.place or config.source or config.name}: {error}") from None
    fixed = dict(entry.params)
    said = {*fixed, *entry.space.dimensions}
    if config.protocol is not None and "protocol" in registered.parameters(entry.name).keys() - said:
        fixed["protocol"] = config.protocol
        entry.space.check_fits(entry.name, fixed)  # beside the entry's own parameters, reading has checked it
    metric = config.metric or default_metric(info, dataset.offer)
    return Cell(
        info=info,
        label=entry.label,
        dataset=dataset,
        fixed=fixed,
        metric=metric,
        needs=needs,
        resources=entry.resources or config.resources,
        report_seeds=range(config.seeds.report),
    )


def _needs(info: ModelInfo, entry: ModelEntry, items: Items) -> frozenset[Need]:
    """Returns what a model needs at its hyper-parameters on these items.

    Where some are searched, it is what any of their named settings needs.
    """
    found: frozenset[Need] = frozenset()
    for point in entry.space.settings():
        try:
            found |= info.needs_of(registered.build_model(entry.name, {**entry.params, **point}), items)
        except BadInput:  # a combination of settings that the model refuses
            found |= info.needs
    return found


def _search(config: SweepConfig, cell: Cell, space: Space, instead: str) -> Search:
    metric = cell.metric
    heldout = config.heldout.fraction if metric.held_out else 0.0
    limit = config.budget.points if space.size is None else min(config.budget.points, space.size)
    sampler, because = chosen_for(space, config.sampler, limit, several=bool(metric.further))
    raced, rule = raced_after(config), early_stop_of(config, metric.name)
    earlier = [source_of(store) for store in sampler.warm_start]
    (trial,) = cell.specs([SEARCH_SEED], "search", heldout=heldout)
    key = digest(
        {
            "model": trial.model,
            "model_version": trial.model_version,
            "fixed": trial.params,
            "dataset": trial.fingerprint,
            "dataset_params": dict(trial.dataset_params),
            "space": space.hash,
            "metric": [metric.name, metric.goal, *metric.further],
            "heldout": heldout,
            "seeds": config.seeds.search,
            "sampler": "grid" if sampler.kind == "grid" else [sampler.kind, sampler.seed],
            "parallel": sampler.parallel if sampler.learns or raced or rule else None,
            "raced": raced,
            **({"warm_start": earlier} if earlier and sampler.learns else {}),
            **({} if rule is None else {"median": [rule.quantile, rule.grace, config.report_every]}),
            **({} if trial.data_version == 1 else {"data_version": trial.data_version}),
        }
    )
    return Search(
        cell=cell,
        space=space,
        limit=limit,
        seeds=range(SEARCH_SEED, SEARCH_SEED + config.seeds.search),
        rescored=min(config.seeds.rescored, limit),
        heldout=heldout,
        sampler=sampler,
        because=because,
        raced=raced,
        key=key,
        early_stop=rule,
        instead=instead,
    )


def _where(config: SweepConfig, dataset: str) -> str:
    return f"{config.source or config.name}, dataset {dataset!r}"
