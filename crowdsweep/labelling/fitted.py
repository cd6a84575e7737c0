"""A model fitted to everything that a dataset has, on several seeds, and the average of its fits.

A fit may permute the classes relative to the votes, with the same likelihood. So the classes of each fit are first put
in the order that agrees best with the votes, and averages combine the same classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64, Int, Int32, Int64

from crowdsweep.arrays import ClassConfusions, Confusions, ItemProbs
from crowdsweep.data import splits
from crowdsweep.data.dataset import LEAVES_OUT, CrowdDataset, Items, Scalar, TrainingData, TrialData
from crowdsweep.errors import BadInput, FitFailed
from crowdsweep.labelling.many_classes import MANY_CLASSES
from crowdsweep.models import registered
from crowdsweep.models._votes import agreement, permuted_classes, surely_in_order
from crowdsweep.models.contract import FitContext, FitResult, Predictor
from crowdsweep.models.fitting import fit_unchecked
from crowdsweep.models.needs import check_needs
from crowdsweep.models.progress import still_improves
from crowdsweep.registry.parameters import flat
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.fit_checks import checked_fit
from crowdsweep.trial.model_calls import ModelFault, guarded

DEFAULT_SEEDS = 5
"""Number of fits that are averaged by default."""
Order = Int64[np.ndarray, " classes"]
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedFit:
    """One fit with aligned classes: `order` gives for each class of the data the fit's class; None leaves them as they
    are."""

    result: FitResult
    order: Order | None

    @property
    def item_probs(self) -> ItemProbs:
        return self.result.item_probs if self.order is None else self.result.item_probs[:, self.order]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A model on all of a dataset's annotations.

    Attributes:
        model, params: registered name, and all hyper-parameters.
        dataset_params: its parameters, among them `training: all`.
        training: the data that the fits saw.
        code: number of each training item in the dataset.
        saw_gold: whether the model needs gold, so that its labels cannot be judged by it.
        fits: one fit per seed; a single one where the seed changes nothing.
    """

    model: str
    params: Mapping[str, Any]
    dataset: CrowdDataset
    dataset_params: Mapping[str, Scalar]
    training: TrainingData
    code: Int32[np.ndarray, " items"]
    saw_gold: bool
    seeds: Sequence[int]
    fits: Sequence[AlignedFit]

    @property
    def item_probs(self) -> ItemProbs:
        """Class probabilities of each item that has annotations: the mean over the fits."""
        each = [fit.item_probs for fit in self.fits]
        return each[0] if len(each) == 1 else np.mean(each, axis=0)

    def share_alike(self, each: Sequence[ItemProbs], probs: ItemProbs) -> Float64[np.ndarray, " items"]:
        """Returns for each item the share of the fits whose most probable class is that of the mean (multi-label: the
        share of the classes that they decide as the mean does)."""
        multilabel = self.training.scale == "multilabel"
        return np.mean([_same_decision(one, probs, multilabel) for one in each], axis=0)

    @property
    def unfinished(self) -> str:
        """A message that says how many fits ended while their objective still clearly improved, and what to do; empty
        for none."""
        ended = [fit.result.converged or not still_improves(fit.result.objective) for fit in self.fits]
        if all(ended):
            return ""
        limits = [name for name in ("steps", "epochs", "iterations") if name in self.params]
        remedy = f"raise {' or '.join(limits)}" if limits else "take another model"
        return (
            f"model {self.model!r} on dataset {self.dataset.name!r}: {ended.count(False)} of {len(ended)} fits ended "
            f"while the objective still clearly improved, so that more training may label better; {remedy}"
        )

    @property
    def knows_annotators(self) -> bool:
        """Whether the model describes how annotators answer."""
        return all(fit.result.annotators is not None for fit in self.fits)

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions | ClassConfusions:
        """Returns the annotators' confusion matrices, averaged over the fits."""
        found: list[np.ndarray] = []
        for fit in self.fits:
            assert fit.result.annotators is not None  # noqa: S101 - `knows_annotators` says so
            matrices = self._asked(fit.result.annotators.confusion)(annotators)
            found.append(matrices if fit.order is None else matrices[:, fit.order])
        return np.mean(found, axis=0)

    @property
    def predictors(self) -> list[Predictor]:
        """The fits' predictors, which label items without annotations; empty where the model has none."""
        return [fit.result.predictor for fit in self.fits if fit.result.predictor is not None]

    def predictions(self, items: Items) -> list[ItemProbs]:
        """Returns the class probabilities that each fit with a predictor gives to items, from their features.

        Raises:
            FitFailed: a predictor failed, as that of a plug-in may.
        """
        found: list[ItemProbs] = []
        for fit in self.fits:
            predictor = fit.result.predictor
            if predictor is not None:
                probs = self._asked(predictor.predict)(items, predictor.uses[0])
                found.append(probs if fit.order is None else probs[:, fit.order])
        return found

    def _asked(self, call: Callable[..., Answer]) -> Callable[..., Answer]:
        """Returns a call into the model that reports the model's faults as `FitFailed`."""

        def asked(*args: Any) -> Answer:
            try:
                return guarded(call)(*args)
            except ModelFault as fault:
                raise FitFailed(f"model {self.model!r} on dataset {self.dataset.name!r}: {fault}") from fault

        return asked


def fit_everything(
    model: str,
    params: Mapping[str, Any],
    dataset: CrowdDataset,
    dataset_params: Mapping[str, Scalar],
    *,
    n_seeds: int = DEFAULT_SEEDS,
    first_seed: int = 0,
) -> Fitted:
    """Fits a model to every annotated item of a dataset, whatever its split, with nothing thinned or held out.

    Args:
        model: registered name.
        params: hyper-parameters; all others have their defaults.
        dataset: from `catalogue.load`.
        dataset_params: parameters that it was loaded with; those that leave annotations out are ignored.
        n_seeds: number of fits; one is enough where neither data nor model depend on the seed.
        first_seed: seed of the first fit; the seeds of the others follow it.

    Raises:
        BadInput: the model cannot take this dataset.
        FitFailed: a fit failed.
    """
    info = registered.model_info(model)
    built = registered.build_model(model, params)
    full = flat(built)
    whole = {key: value for key, value in dataset_params.items() if key not in LEAVES_OUT} | {"training": "all"}
    if dataset.seed_dependent:
        raise BadInput(
            f"dataset {dataset.name}: its crowd is drawn from each seed, so there is no single crowd to take labels "
            f"from; write one of them as a folder (`crowdsweep data simulate`) and label that"
        )
    trial = splits.prepare(dataset, whole, seed=0)
    needs = info.needs_of(built, trial.training.items)
    check_needs(info, needs, trial, dataset.name)
    seeds = range(first_seed, first_seed + (1 if info.deterministic else n_seeds))
    contexts = [
        FitContext(seeds=SeedStream(seed).child("fit"), gold=trial.gold if "gold" in needs else None) for seed in seeds
    ]
    try:
        results = guarded(fit_unchecked)(built, [trial.training] * len(contexts), contexts)
        fits = [_aligned(checked_fit(result, trial.training), trial) for result in results]
    except ModelFault as fault:
        raise FitFailed(f"model {model!r} on dataset {dataset.name!r}: {fault}") from fault
    return Fitted(
        model=model,
        params=full,
        dataset=dataset,
        dataset_params=whole,
        training=trial.training,
        code=trial.code,
        saw_gold="gold" in needs,
        seeds=list(seeds),
        fits=fits,
    )


def _aligned(result: FitResult, trial: TrialData) -> AlignedFit:
    annotations = trial.training.annotations
    answered = annotations.labels_per_item > 0
    if trial.training.scale == "multilabel" or not answered.any():
        return AlignedFit(result=result, order=None)
    if result.item_probs.shape[1] > MANY_CLASSES and surely_in_order(annotations, result.item_probs):
        return AlignedFit(result=result, order=None)
    votes = annotations.label_distribution()[answered]
    order = permuted_classes(agreement(votes, result.item_probs[answered]), len(votes))
    return AlignedFit(result=result, order=order)


def _same_decision(one: ItemProbs, other: ItemProbs, multilabel: bool) -> Float64[np.ndarray, " items"]:
    if multilabel:
        return ((one > 0.5) == (other > 0.5)).mean(axis=1)
    return (one.argmax(axis=1) == other.argmax(axis=1)).astype(np.float64)
