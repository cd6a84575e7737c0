"""The choice of the model that labels: the one that a sweep recommends on a dataset, or one that the user names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crowdsweep.analysis.compare import DatasetComparison, without_thinned
from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.on_disk.moved import load_recorded
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.files.located import parse_setting
from crowdsweep.labelling.fitted import DEFAULT_SEEDS
from crowdsweep.metrics.shown import score_words
from crowdsweep.models import registered
from crowdsweep.models.default_model import default_model
from crowdsweep.paths import exists
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.naming import short_name
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import TrialSpec, canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import Store, near, store_named


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The model and the dataset that it is fitted to, with the reason for the choice.

    Attributes:
        model, params: registered name, and hyper-parameters.
        dataset, dataset_params: as in `TrialSpec`.
        n_seeds: number of fits that are averaged.
        fingerprint: fingerprint of the dataset, as it was when the sweep ran.
        store: store of the sweep; a dataset that was moved is looked for near it. None where there was no sweep.
        loaded: the dataset where there was no sweep, which was read for the choice.
        why: reason for the choice, in words for people.
    """

    model: str
    params: Mapping[str, Any]
    dataset: str
    dataset_params: Mapping[str, Scalar] = field(default_factory=dict)
    n_seeds: int = DEFAULT_SEEDS
    fingerprint: str = ""
    store: Store | None = None
    loaded: CrowdDataset | None = field(default=None, repr=False, compare=False)
    why: str

    def data(self) -> CrowdDataset:
        """Returns the dataset.

        Raises:
            BadInput: it cannot be read, or has changed since the sweep ran.
        """
        if self.loaded is not None:
            return self.loaded
        found = load_recorded(self.dataset, self.dataset_params, self.fingerprint, near(self.store or Path()))
        if self.fingerprint and found.fingerprint != self.fingerprint:
            raise BadInput(
                f"dataset {self.dataset!r} has changed since the sweep ran (fingerprint {self.fingerprint} then, "
                f"{found.fingerprint} now): run the sweep again, or name the dataset and --model"
            )
        return found

    @property
    def usual_folder(self) -> Store:
        """The folder for its labels, if that does not hold labels of another dataset."""
        if self.store is not None:
            return self.store / "labels"
        return Path("crowdsweep-labels") / Path(self.dataset).absolute().name


def chosen_at(
    place: str, dataset: str | None, model: str | None, settings: Sequence[str], n_seeds: int | None
) -> Chosen:
    """Returns the model that labels what a user names: a sweep's store, or a dataset.

    Args:
        place: the store of a sweep, or a dataset's folder or name.
        dataset, model, n_seeds: as for `chosen_of_sweep`.
        settings: as for `chosen_of_dataset`.

    Raises:
        BadInput: as for these two; or a sweep is given with settings, or a dataset with the name of another.
    """
    store = store_named(place)
    if not isinstance(store, Path) or exists(store / JOURNAL_FILE):
        if settings:
            raise BadInput("--set: of a sweep the chosen point is fitted; to fit another, name the dataset and --model")
        return chosen_of_sweep(analysed(store), dataset, model, n_seeds)
    if dataset is not None:
        raise BadInput(
            f"--dataset: {place} is not the folder of a sweep; leave --dataset out, and give the dataset as DIR"
        )
    return chosen_of_dataset(place, model, settings, n_seeds)


def chosen_of_dataset(dataset: str, model: str | None, settings: Sequence[str], n_seeds: int | None) -> Chosen:
    """Returns the model that the user names for a dataset, or the default model where none is named.

    Args:
        dataset: a folder, or a name of the catalogue.
        model: registered name; None for the default model that needs labels alone.
        settings: `name=value` of hyper-parameters, values in YAML.
        n_seeds: number of fits; `DEFAULT_SEEDS` where it is None.

    Raises:
        BadInput: a setting is not one of the model's.
        UnknownName: there is no such dataset or model.
        DataError: no model is named, and the dataset cannot be read.
    """
    params = dict(parse_setting(one, "NAME=VALUE, such as smoothing=0.1") for one in settings)
    if model is not None:
        registered.build_model(model, params)
    data, why = catalogue.load(dataset, {}), "named by --model"
    if model is None:
        model, why = default_model(data)
        why += "; `crowdsweep init` writes a sweep that compares models, --model names one"
        registered.build_model(model, params)
    seeds = n_seeds or DEFAULT_SEEDS
    return Chosen(
        model=model, params=params, dataset=dataset, n_seeds=seeds, fingerprint=data.fingerprint, loaded=data, why=why
    )


def chosen_of_sweep(
    found: AnalysedSweep, dataset: str | None = None, model: str | None = None, n_seeds: int | None = None
) -> Chosen:
    """Returns the model that ranks first on a dataset of a sweep, or the named model, at its chosen point.

    Args:
        found: the sweep.
        dataset: its name; None where the sweep has only one.
        model: its name in the sweep file; None for the model that ranks first.
        n_seeds: number of fits; that of the sweep's report seeds where it is None.

    Raises:
        BadInput: the sweep has several datasets and none is named, has no such dataset or model, or no result yet.
    """
    store, state = found.store, found.state
    block = _block(found.comparison.datasets, dataset, store)
    score = block.ranked[0] if model is None and block.ranked else None
    if model is not None:
        labels = {score.model: score for score in block.scores}
        if model not in labels:
            raise UnknownName("model", model, labels, f"{store}, dataset {block.title}")
        score = labels[model]
    if score is None:
        models = ", ".join(one.model for one in block.scores)
        raise BadInput(
            f"{store}: no model is ranked on {block.title}; name one by --model ({models}){_what_ranks(state)}"
        )
    spec = _spec(found.trials, block, score.model)
    estimate = score.metrics.get(block.metric)
    worth = "" if estimate is None else f": {score_words(estimate.mean, block.metric)}"
    why = f"ranked first in sweep {state.name}" if model is None else f"named by --model, from sweep {state.name}"
    return Chosen(
        model=spec.model,
        params=spec.params,
        dataset=spec.dataset,
        dataset_params=spec.dataset_params,
        n_seeds=n_seeds or max(state.plan.report_seeds, 1),
        fingerprint=spec.fingerprint,
        store=store,
        why=f"{why} on {block.title}{worth}",
    )


def _what_ranks(state: JournalState) -> str:
    """Returns what would rank the unranked models; once a sweep has ended, only gold or more labels would."""
    ended = state.status == SweepStatus.DONE
    return "; gold, or more labels per item, would rank them" if ended else ", or let the sweep continue"


def _block(blocks: Sequence[DatasetComparison], dataset: str | None, store: Store) -> DatasetComparison:
    """Returns the comparison on a dataset; where the sweep also has thinned annotations, the comparison on all of
    them."""
    if not blocks:
        raise BadInput(f"{store}: no trial has finished yet; let the sweep continue, then label")
    fitting = [
        block
        for block in blocks
        if dataset in (None, block.title, _whole(block), block.dataset, Path(block.dataset).name)
    ]
    if not fitting:
        raise UnknownName("dataset", str(dataset), [block.title for block in blocks], str(store))
    found = without_thinned(fitting)
    if len(found) > 1:
        names = " | ".join(repr(block.title) for block in found)
        raise BadInput(f"{store}: expected one dataset, the sweep has {len(found)}; choose: --dataset {names}")
    return found[0]


def _whole(block: DatasetComparison) -> str:
    """Returns the title of a dataset, with the full path of its folder."""
    return block.title.replace(short_name(block.dataset, block.among), block.dataset, 1)


def _spec(trials: Sequence[ShownTrial], block: DatasetComparison, label: str) -> TrialSpec:
    return next(
        trial.spec
        for trial in trials
        if trial.chosen
        and trial.label == label
        and trial.spec.dataset == block.dataset
        and canonical_json(dict(trial.spec.dataset_params)) == block.dataset_params
    )
