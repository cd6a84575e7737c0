"""The contract of a model: hyper-parameters in a frozen dataclass, data in, a fitted result out.

A model file holds one `@final` frozen dataclass whose fields are its hyper-parameters, and a constant
`MODEL = ModelInfo(...)`. The class has one of three methods, `fitting` derives the others:

    fit(data, context) -> FitResult                               one fit
    fit_batch(data, contexts) -> Sequence[FitResult]              many fits at once, on a leading axis of replicas
    fit_points(models, data, contexts) -> Sequence[FitResult]     a static method: many fits, each with a model of its
                                                                  own, which differ in what `ModelInfo.varies` names

The last two may assume that the data sets of one call agree in the numbers of classes and features, and in their texts
where a network of the model reads them (`fitting` groups them so); not in the numbers of items, annotators or
annotations. A batched fit equals the same fit alone, to rounding.

**Multi-label data** (`TrainingData.scale`): an annotator's answer to an item is a set of classes (`data.choices`), and
each class is a binary question of its own, answered by everybody who labelled the item: chosen (1) or not (0). Hence
independent probabilities of the classes instead of one distribution over them, and for each class a confusion matrix of
two by two. Data of a single class are the binary data whose label 1 is "chosen".

**Sequences** (`Items.unit`): items are tokens, in order, and units are their sentences. A model may look at an item's
neighbours in its unit and never across units; where it trains on minibatches, these are of whole units.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Shaped

from crowdsweep.arrays import (
    AnnotatorCodes,
    ClassConfusion,
    ClassConfusions,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    Objective,
    RowProbs,
)
from crowdsweep.data.dataset import Gold, Items, TrainingData
from crowdsweep.models.checkpoints import NO_CHECKPOINT, Checkpoint
from crowdsweep.seeds import SeedStream

Need = Literal["features", "annotators", "text", "gold", "order"]
Support = Literal["votes", "multilabel", "soft_answers", "many_classes"]


@dataclass(frozen=True, kw_only=True)
class DataShape:
    """The sizes that decide what a fit costs."""

    n_items: int
    n_annotators: int
    n_classes: int
    n_annotations: int
    n_features: int = 0

    @classmethod
    def of(cls, data: TrainingData) -> "DataShape":
        """Returns the sizes of training data."""
        features = data.items.features
        return cls(
            n_items=data.n_items,
            n_annotators=data.n_annotators,
            n_classes=data.n_classes,
            n_annotations=len(data.annotations),
            n_features=0 if features is None else features.shape[1],
        )


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What the platform knows of a model without fitting it.

    Attributes:
        name: what a user types; the file's name with dashes.
        title: one line.
        model: the dataclass.
        source: paper, section, equations.
        steps: the hyper-parameter that says how many steps a fit reports and its objective has; None where a fit has no
            steps.
        predicts_labels: whether its fits give probabilities to labels that they have not seen (`label_probs`), so that
            held-out labels can score it; None where that is not known before a fit.
        needs: what the data must bring: `features`, `annotators` (known ones: not the global scenario), `text`,
            `gold` (handed over by name in the context, and marked in every report), `order` (of the classes: an
            ordinal scale); at default hyper-parameters: see `needs_of`.
        supports: what else it can take: anonymous `votes`, `multilabel` data, `soft_answers` (rows with a
            probability, used as such and not as their label alone), `many_classes` (its fits hold no table of classes ×
            classes, and hardly more than one of items × classes: `bounds.check_fit`).
        space: the default search space, in the sweep file's form; empty where there is nothing to search.
        cost: estimate of one fit, from the sizes and full parameters, in multiply-adds on gathered or counted rows
            (`models._cost` converts other operations); `plan` shows it in seconds. None: `plan` measures a short fit.
        version: raised when the same parameters give other numbers.
        deterministic: the seed changes nothing: fitted once, the result written for every seed.
        monotone_objective: the objective never falls, beyond 1e-8 relative.
        label_symmetric: permuting the classes permutes the result.
        constant: it predicts the same for every item, by design.
        checkpoints: a fit whose process was lost goes on from its last checkpoint; where not, it begins anew.
        varies: hyper-parameters that may differ among the fits of one batch, so that points of a search are fitted
            together (`FitsPoints`). They may change neither `needs` nor whether features are standardised.
        waived: contract checks that cannot hold, by name, each with the reason; a strict expected failure.
    """

    name: str
    title: str
    model: type[Any]
    source: str
    steps: Literal["epochs", "iterations"] | None = None
    predicts_labels: bool | None = None
    needs: frozenset[Need] = frozenset()
    supports: frozenset[Support] = frozenset({"votes"})
    space: Mapping[str, Any] = field(default_factory=dict)
    cost: Callable[[DataShape, Mapping[str, Any]], float] | None = None
    version: int = 1
    deterministic: bool = False
    monotone_objective: bool = False
    label_symmetric: bool = True
    constant: bool = False
    checkpoints: bool = False
    varies: frozenset[str] = frozenset()
    waived: Mapping[str, str] = field(default_factory=dict)

    def needs_of(self, model: "Model", items: Items | None = None) -> frozenset[Need]:
        """Returns what the model needs at the hyper-parameters of this instance: what it and the records that it holds
        state for themselves (`StatesNeeds`), where that differs from what they state by default, changes `needs`.

        Args:
            model: the instance.
            items: of the data, where they are known: what is read may depend on them (`network: auto`).
        """
        stated = stated_needs(model, items)
        try:
            default = stated_needs(self.model())
        except TypeError:  # a hyper-parameter without a default
            default = stated
        return (self.needs - (default - stated)) | (stated - default)


@runtime_checkable
class Predictor(Protocol):
    """Labels items that the fit did not see."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The model's test-time uses, by name; the first is the default and is scored under the plain metric names,
        others under `<split>_<metric>.<use>`."""
        ...

    def predict(self, items: Items, use: str) -> ItemProbs:
        """Returns class probabilities (multi-label: independent ones)."""
        ...


@runtime_checkable
class Report(Protocol):
    """Receives the progress of a fit, and decides whether it continues."""

    def __call__(self, step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        """Takes a report.

        Args:
            step: epochs or EM steps made so far, from 1.
            objective: what the fit maximises.
            predictor: makes a predictor of the fit as it is now; called only if it is scored. None
                where the model labels no unseen items.

        Returns:
            Whether this fit continues. One that does not returns what a fit of so many steps would have returned. The
            other fits of a batch are not affected.
        """
        ...


def no_op(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:  # noqa: ARG001
    """A report that lets every fit continue."""
    return True


def handing_on(report: Report, changed: Callable[[Predictor], Predictor]) -> Report:
    """Returns a report that tells the same, with predictors as `changed` makes them."""

    def told(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        return report(step, objective, None if predictor is None else lambda: changed(predictor()))

    return told


@dataclass(frozen=True, kw_only=True)
class FitContext:
    """What a fit is given besides data.

    Attributes:
        seeds: the only source of randomness.
        device: a torch device, as the slot was given; never probed.
        gold: of the training items; present only for models that declare the need, or state it at these
            hyper-parameters.
        report: called after each epoch or EM step; decides whether this fit continues (`Report`).
        checkpoint: where a model with `checkpoints` saves its state, and finds the state to resume from.
    """

    seeds: SeedStream
    device: str = "cpu"
    gold: Gold | None = None
    report: Report = no_op
    checkpoint: Checkpoint = NO_CHECKPOINT


@runtime_checkable
class AnnotatorModel(Protocol):
    """How annotators answer, as confusion matrices, made in chunks: T × K × K need never exist at once.

    Of multi-label answers there is a matrix of two by two for each class: [annotators, classes, true, observed] instead
    of [annotators, true, observed], the codes of the last two axes being 0 not chosen, 1 chosen.
    """

    @property
    def n_annotators(self) -> int:
        """Number of annotators that it covers."""
        ...

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions | ClassConfusions:
        """Returns the row-stochastic matrices of these annotators, rows being the true class."""
        ...

    def global_confusion(self) -> Confusion | ClassConfusion | None:
        """Returns the model's own matrix of the whole crowd, or None where that is the annotators' average."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionMatrices:
    """An annotator model held as an array; `shared` is the matrix of the crowd where the model has one of its own."""

    matrices: Confusions | ClassConfusions
    shared: Confusion | ClassConfusion | None = None

    @property
    def n_annotators(self) -> int:
        return len(self.matrices)

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions | ClassConfusions:
        return self.matrices[annotators]

    def global_confusion(self) -> Confusion | ClassConfusion | None:
        return self.shared


LabelProbs = Callable[[ItemCodes, AnnotatorCodes], RowProbs]
UnseenLabelProbs = Callable[[Items, ItemCodes, AnnotatorCodes], RowProbs]


@dataclass(frozen=True, kw_only=True, eq=False)
class FitResult:
    """A fitted model.

    Attributes:
        item_probs: the posterior of each training item: of its label, or its label distribution. Rows sum to one
            (multi-label: independent probabilities). Ties stay ties.
        annotators: how annotators answer; None where the model has no annotators.
        label_probs: for rows (training item, annotator) the probability of each label that this annotator might give
            that item [rows, classes] (multi-label: for each class the probability that this annotator chooses it); what
            held-out answers are scored by. None where the model predicts no labels.
        predictor: present if and only if unseen items can be labelled.
        unseen_label_probs: as `label_probs` for items that the fit did not see, whose codes are positions among the
            items given. None: the probabilities of `predictor` (its first use) times the annotator's confusion matrix,
            or without `annotators` these probabilities alone. Not used without `label_probs`.
        objective: what the fit maximised, a value for each step; empty where there is none.
        converged: whether the stop rule was met before the limit of steps; true for closed forms.
        iterations: steps made.
        extras: further named arrays worth keeping as artifacts (cluster sizes, group weights).
    """

    item_probs: ItemProbs
    annotators: AnnotatorModel | None = None
    label_probs: LabelProbs | None = None
    predictor: Predictor | None = None
    unseen_label_probs: UnseenLabelProbs | None = None
    objective: Objective = field(default_factory=lambda: np.empty(0))
    converged: bool = True
    iterations: int = 0
    extras: Mapping[str, Shaped[np.ndarray, "..."]] = field(default_factory=dict)


@runtime_checkable
class FitsOne(Protocol):
    """A model that fits one data set at a time."""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult: ...


@runtime_checkable
class FitsMany(Protocol):
    """A model that fits many data sets at once."""

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> Sequence[FitResult]: ...


@runtime_checkable
class FitsPoints(Protocol):
    """A model that fits many data sets at once, each at hyper-parameters of its own."""

    @staticmethod
    def fit_points(
        models: Sequence[Any], data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> Sequence[FitResult]: ...


Model = FitsOne | FitsMany | FitsPoints


@runtime_checkable
class StatesNeeds(Protocol):
    """A model, or a record of hyper-parameters that it holds, whose settings decide what the data must bring."""

    def needs(self) -> frozenset[Need]:
        """Returns what it needs at these settings."""
        ...


@runtime_checkable
class FollowsItems(Protocol):
    """A record of hyper-parameters whose needs depend on what there is."""

    def needs_on(self, items: Items) -> frozenset[Need]:
        """Returns what it needs of these items."""
        ...


def stated_needs(record: Any, items: Items | None = None) -> frozenset[Need]:
    """Returns what a record and those that it holds say that they need."""
    own = record.needs() if isinstance(record, StatesNeeds) else frozenset[Need]()
    if items is not None and isinstance(record, FollowsItems):
        own = record.needs_on(items)
    held = [getattr(record, part.name) for part in fields(record)] if is_dataclass(record) else []
    return own.union(*(stated_needs(part, items) for part in held if is_dataclass(part)))
