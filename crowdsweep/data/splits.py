"""Makes a dataset ready for one seed: what a model trains on, and what it is scored against.

The steps, in order: the crowd is drawn (where one is simulated), the training items are picked, their annotations are
thinned (annotators dropped, then labels per item), annotators are forgotten (scenario `global`), and a share is held
out. Annotations of dev and test items never train: they are the reference of items without gold, and validation.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float64, Int32

from crowdsweep.arrays import ItemProbs
from crowdsweep.data import catalogue, thinning
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import (
    SPLITS,
    CrowdDataset,
    EvaluationSet,
    Scalar,
    TrainingData,
    TrialData,
    TrueCrowd,
    Validation,
)
from crowdsweep.errors import DataError
from crowdsweep.seeds import SeedStream

ItemsPicked = Int32[np.ndarray, " picked"]


def prepare(
    base: CrowdDataset, params: Mapping[str, Scalar], seed: int, heldout_fraction: int | float = 0.0
) -> TrialData:
    """Makes a base dataset ready for one trial. Equal arguments give equal arrays.

    Args:
        base: from `catalogue.load`.
        params: dataset parameters, of which these are applied here:
            `scenario` (`individual`, or `global`, which anonymous votes always are),
            `training` (`split`: the train items, default where there are any; `all`: every annotated item),
            `redundancy` (at most so many labels a training item; with one seed, fewer lie inside more),
            `annotator_dropout` (the share of annotators who are left out of training, in [0, 1)).
        seed: of the trial.
        heldout_fraction: share of the training annotations that are taken out before the fit, in [0, 1); every item
            keeps one.

    Raises:
        UnknownName: a parameter is not known.
        DataError: a value cannot be used, or nothing is left to train on.
    """
    where = f"dataset {base.name}"
    own = tuple(base.params) if base.seed_dependent else (*base.params, *catalogue.FOLDER_PARAMS)
    catalogue.check_params(params, own, where)
    if not 0 <= heldout_fraction < 1:
        raise DataError(f"{where}: expected a held-out fraction of at least 0 and below 1, got {heldout_fraction}")
    seeds = SeedStream(seed)
    dataset = _drawn(base, seeds)
    candidates = _training_candidates(dataset, params, where)
    annotations = _thinned(dataset, dataset.annotations.of_items(candidates), params, seeds, where)
    answered = np.flatnonzero(annotations.labels_per_item).astype(np.int32)
    if not len(answered):
        raise DataError(f"{where}: expected training items with annotations, found none; see `training: split | all`")
    train, annotations = candidates[answered], annotations.of_items(answered)
    crowd = dataset.crowd
    if _scenario(dataset, params, where) == "global":
        crowd = _forgotten_crowd(crowd, annotations)
        annotations = annotations.anonymised()
    annotations, heldout = _held_out(annotations, heldout_fraction, dataset, seeds)
    training = _training_data(dataset, params, train, annotations, where)
    return TrialData(
        training=training,
        gold=dataset.gold.of_items(train, dataset.items.n_items),
        evaluation=_evaluation(dataset, train, training),
        heldout=heldout,
        crowd=crowd,
    )


def seed_matters(base: CrowdDataset, params: Mapping[str, Scalar], heldout_fraction: int | float = 0.0) -> bool:
    """Whether `prepare` may give other data for another seed: a crowd is drawn, or annotations are left out."""
    thins = params.get("redundancy") is not None or bool(params.get("annotator_dropout"))
    return base.seed_dependent or thins or heldout_fraction > 0


def _drawn(base: CrowdDataset, seeds: SeedStream) -> CrowdDataset:
    if not base.seed_dependent:
        return base
    found = catalogue.source(base.name)
    if found is None or found.draw is None:
        raise DataError(f"dataset {base.name}: its crowd is drawn for each seed, but no built-in source draws it")
    return found.draw(base, seeds.child("crowd"))


def _scenario(dataset: CrowdDataset, params: Mapping[str, Scalar], where: str) -> Scalar:
    if not dataset.annotations.anonymous:
        return params.get("scenario") or "individual"
    if params.get("scenario") == "individual":
        raise DataError(f"{where}: scenario individual needs known annotators, these votes are anonymous; use global")
    return "global"


def _training_candidates(dataset: CrowdDataset, params: Mapping[str, Scalar], where: str) -> ItemsPicked:
    train = dataset.items_of("train")
    if (params.get("training") or ("split" if len(train) else "all")) == "all":
        return np.flatnonzero(dataset.annotations.labels_per_item).astype(np.int32)
    if not len(train):
        raise DataError(f"{where}: training: split needs items of the split train, found none; use training: all")
    return train


def _thinned(
    dataset: CrowdDataset, annotations: Annotations, params: Mapping[str, Scalar], seeds: SeedStream, where: str
) -> Annotations:
    dropped, labels = params.get("annotator_dropout"), params.get("redundancy")
    if isinstance(dropped, int | float) and dropped > 0:
        if annotations.anonymous:
            raise DataError(f"{where}: annotator_dropout needs known annotators, these votes are anonymous")
        kept = thinning.keep_annotators(annotations, dropped, seeds.numpy("annotator_dropout"))
        annotations = annotations.take(kept)
    if isinstance(labels, int | float):
        whole = dataset.scale == "multilabel"
        draws = seeds.numpy("redundancy")
        kept = thinning.keep_labels_per_item(annotations, int(labels), draws, whole_answers=whole)
        annotations = annotations.take(kept)
    return annotations


def _forgotten_crowd(crowd: TrueCrowd | None, annotations: Annotations) -> TrueCrowd | None:
    """Returns the true matrices of the pseudo-annotators that `anonymised` makes: each those of who gave that row."""
    if crowd is None:
        return None
    return replace(crowd, group=crowd.group[annotations.annotator[annotations.anonymous_order]])


def _held_out(
    annotations: Annotations, fraction: int | float, dataset: CrowdDataset, seeds: SeedStream
) -> tuple[Annotations, Annotations | None]:
    if fraction == 0:
        return annotations, None
    # Without annotators nothing says which rows are one answer.
    whole = dataset.scale == "multilabel" and not annotations.anonymous
    kept = thinning.keep_for_fit(annotations, fraction, seeds.numpy("heldout"), whole_answers=whole)
    return annotations.take(kept), annotations.take(~kept)


def _training_data(
    dataset: CrowdDataset, params: Mapping[str, Scalar], train: ItemsPicked, annotations: Annotations, where: str
) -> TrainingData:
    anonymous = _scenario(dataset, params, where) == "global"
    unlabelled = _untrained(dataset, "unlabelled", train)
    return TrainingData(
        annotations=annotations,
        items=dataset.items.take(train),
        scale=dataset.scale,
        validation=_validation(dataset, train, anonymous),
        unlabelled=dataset.items.take(unlabelled) if len(unlabelled) else None,
        annotator_features=None if anonymous else dataset.annotator_features,
    )


def _validation(dataset: CrowdDataset, train: ItemsPicked, anonymous: bool) -> Validation | None:
    """Returns the dev items that have annotations, where items have features at all."""
    dev = _untrained(dataset, "dev", train)
    dev = dev[dataset.annotations.labels_per_item[dev] > 0]
    if not len(dev) or (dataset.items.features is None and dataset.items.text is None):
        return None
    annotations = dataset.annotations.of_items(dev)
    return Validation(items=dataset.items.take(dev), annotations=annotations.anonymised() if anonymous else annotations)


def _untrained(dataset: CrowdDataset, split: str, train: ItemsPicked) -> Int32[np.ndarray, " untrained"]:
    """Returns the items of a split that do not train; with `training: all`, annotated ones of any split do."""
    candidates = dataset.split == SPLITS.index(split)
    candidates[train] = False
    return np.flatnonzero(candidates).astype(np.int32)


def _evaluation(dataset: CrowdDataset, train: ItemsPicked, training: TrainingData) -> dict[str, EvaluationSet]:
    """Returns the training items, and those of dev and test that did not train; a set with no reference is left out."""
    parts = {"train": train}
    parts |= {name: _untrained(dataset, name, train) for name in ("dev", "test")}
    sets: dict[str, EvaluationSet] = {}
    has_gold = np.zeros(dataset.items.n_items, dtype=bool)
    has_gold[dataset.gold.item] = True
    for name, items in parts.items():
        known = has_gold[items] | (dataset.annotations.labels_per_item[items] > 0)
        if name != "train" and not known.any():
            continue
        scored = np.flatnonzero(known).astype(np.int32)
        sets[name] = EvaluationSet(
            items=training.items if name == "train" else dataset.items.take(items),
            scored=scored,
            reference=_reference(dataset, items[scored], has_gold[items[scored]]),
            has_gold=has_gold[items[scored]],
        )
    return sets


def _reference(dataset: CrowdDataset, items: ItemsPicked, has_gold: np.ndarray) -> ItemProbs:
    reference = np.zeros((len(items), dataset.n_classes))
    votes = dataset.annotations.of_items(items[~has_gold])
    reference[~has_gold] = answer_shares(votes) if dataset.scale == "multilabel" else votes.label_distribution()
    gold = dataset.gold.of_items(items, dataset.items.n_items)
    reference[gold.item, gold.label] = 1.0
    return reference


def answer_shares(annotations: Annotations) -> Float64[np.ndarray, "items classes"]:
    """Returns, for multi-label annotations, the share of each item's answers that chose each class; zero for none.

    The rows of one pair are one answer, or as many as the class that it chose most often says.
    """
    starts = np.ones(len(annotations), dtype=bool)
    starts[1:] = np.diff(annotations.item).astype(bool) | np.diff(annotations.annotator).astype(bool)
    pair = np.cumsum(starts) - 1
    chosen, times = np.unique(pair * annotations.n_classes + annotations.label, return_counts=True)
    item_of_pair = annotations.item[starts]
    answers = np.zeros(len(item_of_pair), dtype=np.int64)
    np.maximum.at(answers, chosen // annotations.n_classes, times)
    shares = np.zeros((annotations.n_items, annotations.n_classes))
    np.add.at(shares, (item_of_pair[chosen // annotations.n_classes], chosen % annotations.n_classes), times)
    totals = np.bincount(item_of_pair, weights=answers, minlength=annotations.n_items)
    return shares / np.maximum(totals, 1)[:, None]
