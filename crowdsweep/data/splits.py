"""Prepares a dataset for one seed: the data that a model trains on, and the references that it is scored against.

The steps, in order: draw the crowd (if it is simulated) or split annotators into more (if asked for); deal items into
folds (if asked for); pick the training items; thin their annotations (drop annotators, then labels per item); remove
the identity of annotators (scenario `global`); hold out a share. Annotations of dev and test items are never trained
on: they are the reference of items without gold, and serve validation.

Units (such as the sentences of tokens) stay whole. If any item of a unit has an annotation, all items of the unit
train. All labels that one annotator gave to a unit are kept or left out together. If every item is its own unit, all
labels that one annotator gave to one item are held out together. Multi-label answers are never divided.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int32

from crowdsweep.arrays import ItemProbs
from crowdsweep.data import bounds, catalogue, thinning
from crowdsweep.data.adaptive import keep_most_informative
from crowdsweep.data.annotations import Annotations, AnonymousRows
from crowdsweep.data.catalogue import CommonParams
from crowdsweep.data.choices import choices_of
from crowdsweep.data.crowds_over_gold import ANNOTATORS, LABELS_PER_ITEM, answered_by
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
from crowdsweep.data.pseudo_annotators import with_annotators
from crowdsweep.errors import DataError
from crowdsweep.seeds import SeedStream

ItemsPicked = Int32[np.ndarray, " picked"]


def prepare(
    base: CrowdDataset, params: Mapping[str, Scalar], seed: int, heldout_fraction: int | float = 0.0
) -> TrialData:
    """Prepares a base dataset for one trial. Equal arguments give equal arrays.

    Args:
        base: dataset from `catalogue.load`.
        params: dataset parameters, of which these are applied here:
            `scenario` (`individual` or `global`; anonymous votes are always `global`),
            `training` (`split`: the train items, the default if there are any; `all`: every annotated item),
            `redundancy` (the most labels per training item; counts answers if these are multi-label, and annotators
            per unit if items form units; with one seed, a smaller selection lies inside a larger one),
            `allocation` (`adaptive`: that many labels per item on average, where they are most informative, see
            `data.adaptive`),
            `folds` (cross-validation instead of the dataset's own splits, see `_folded`),
            `annotator_dropout` (the share of annotators who are left out of training, in [0, 1)),
            `annotators` (the number that a real crowd is split into, see `data.pseudo_annotators`),
            `crowd`, `labels_per_item` (a simulated crowd in place of the real one, see `data.crowds_over_gold`).
        seed: the trial's seed.
        heldout_fraction: share of the training annotations that are removed before the fit, in [0, 1), in whole pairs
            of item (unit) and annotator; every item keeps one.

    Raises:
        UnknownName: a parameter is not known.
        DataError: a value cannot be used, nothing is left to train on, or the labels are so few and the classes so many
            that the tables of a fit cannot be held.
    """
    where = f"dataset {base.name}"
    own = tuple(base.params) if base.seed_dependent else (*base.params, *catalogue.FOLDER_PARAMS)
    asked = catalogue.check_params(params, own, where)
    if not 0 <= heldout_fraction < 1:
        raise DataError(f"{where}: expected a held-out fraction of at least 0 and below 1, got {heldout_fraction}")
    seeds = SeedStream(seed)
    dataset = _folded(_drawn(base, asked, seeds), asked, seed, where)
    candidates = _training_candidates(dataset, asked, where)
    annotations = _thinned(dataset, candidates, asked, seeds, where)
    kept = np.flatnonzero(_with_annotations(dataset, candidates, annotations))
    if not len(kept):
        raise DataError(f"{where}: expected training items with annotations, found none; see `training: split | all`")
    train, annotations = candidates[kept], annotations.of_items(kept)
    pairs = thinning.pairs_of(annotations, _units(dataset, train)) if heldout_fraction else None
    crowd, anonymous = dataset.crowd, _forgets_annotators(dataset, asked, where)
    if anonymous:
        rows, pseudo_annotator = _anonymous_rows(dataset, annotations)
        crowd = _crowd_of_pseudo_annotators(crowd, annotations.annotator[rows], pseudo_annotator)
        pairs, annotations = None if pairs is None else pairs[rows], _anonymised(dataset, annotations)
    shape = (len(kept), dataset.n_classes, len(annotations))
    bounds.check_fit(*shape, base.name, multilabel=dataset.scale == "multilabel", of_votes=True)
    annotations, heldout = _held_out(annotations, heldout_fraction, pairs, seeds)
    training = _training_data(dataset, train, annotations, anonymous=anonymous)
    return TrialData(
        training=training,
        code=train,
        gold=dataset.gold.of_items(train, dataset.items.n_items),
        evaluate=lambda: _evaluation(dataset, train, training),
        heldout=heldout,
        crowd=crowd,
        class_names=dataset.class_names,
    )


def seed_matters(base: CrowdDataset, params: Mapping[str, Scalar], heldout_fraction: int | float = 0.0) -> bool:
    """Returns whether `prepare` may give other data for another seed: it draws a crowd or leaves annotations out."""
    thins = params.get("redundancy") is not None or bool(params.get("annotator_dropout"))
    splits = any(params.get(name) is not None for name in ("annotators", "crowd", "folds"))
    return base.seed_dependent or thins or splits or heldout_fraction > 0


def data_version(base: CrowdDataset, params: Mapping[str, Scalar], heldout_fraction: int | float = 0.0) -> int:
    """Returns the version of the rules by which `prepare` makes such data and `trial.scoring` reads it.

    The version is part of a trial's key, so that a trial made by other rules is not mistaken for this one.
    1: rows and items alone decide. 2: multi-label answers are whole, and every class of them is scored; repeated pairs
    are held out together; units are whole. 3: annotators' true matrices use the probabilities of soft answers. A
    crowd that a source draws repeats no pair.
    """
    rows = base.annotations
    if base.scale == "multilabel":
        return 2
    if rows.probability is not None and len(base.gold):
        return 3
    if base.items.unit is None:
        return 2 if heldout_fraction > 0 and len(rows.pair_starts) < len(rows) else 1
    annotated = rows.labels_per_item > 0
    whole = np.array_equal(base.items.whole_units(annotated), annotated)
    leaves_out = heldout_fraction > 0 or seed_matters(base, params)
    return 1 if whole and (rows.anonymous or not leaves_out) else 2


def _drawn(base: CrowdDataset, asked: CommonParams, seeds: SeedStream) -> CrowdDataset:
    if not base.seed_dependent:
        return _with_simulated_crowd(base, asked, seeds)
    if asked.crowd is not None:
        raise DataError(f"dataset {base.name}, parameter crowd: its crowd is a simulated one already; leave crowd out")
    found = catalogue.source(base.name)
    if found is None or found.draw is None:
        raise DataError(f"dataset {base.name}: its crowd is drawn for each seed, but no built-in source draws it")
    return found.draw(base, seeds.child("crowd"))


def _with_simulated_crowd(base: CrowdDataset, asked: CommonParams, seeds: SeedStream) -> CrowdDataset:
    if asked.crowd is not None:
        number, labels = asked.annotators or ANNOTATORS, asked.labels_per_item or LABELS_PER_ITEM
        return answered_by(base, asked.crowd, number, labels, seeds.child("crowd"))
    if asked.labels_per_item is not None:
        raise DataError(
            f"dataset {base.name}, parameter labels_per_item: expected a simulated crowd with it, as crowd: setup1; "
            f"for fewer real labels give redundancy"
        )
    return base if asked.annotators is None else with_annotators(base, asked.annotators, seeds.numpy("annotators"))


def _folded(dataset: CrowdDataset, asked: CommonParams, seed: int, where: str) -> CrowdDataset:
    """Returns the dataset with its annotated items dealt into k folds: one is test, the next is dev, all others train.

    k consecutive seeds, from a multiple of k, share one deal, and each tests another of its folds; the next k seeds
    deal anew. Items of the split `unlabelled` keep their split; other items without an annotation are left out.
    """
    if asked.folds is None:
        return dataset
    if asked.training == "all":
        raise DataError(f"{where}: folds keep items from training, which training: all does not; leave one out")
    k, items = asked.folds, dataset.items
    dealt = items.whole_units(dataset.annotations.labels_per_item > 0) & (dataset.split != SPLITS.index("unlabelled"))
    unit = np.arange(items.n_items) if items.unit is None else items.unit
    units, place = np.unique(unit[dealt], return_inverse=True)
    if len(units) < k:
        raise DataError(f"{where}, parameter folds: expected at most {len(units)}, one for each unit; got {k}")
    fold = SeedStream(seed // k).numpy("folds").permutation(len(units)) % k
    split = np.where(dataset.split == SPLITS.index("unlabelled"), dataset.split, 0)
    # k consecutive seeds turn one deal by a fold each, so that together they test every item exactly once.
    ahead = (fold[place] - seed) % k
    split[dealt] = np.select(
        [ahead == 0, ahead == 1], [SPLITS.index("test"), SPLITS.index("dev")], SPLITS.index("train")
    )
    return replace(dataset, split=split.astype(np.int8))


def _forgets_annotators(dataset: CrowdDataset, asked: CommonParams, where: str) -> bool:
    if dataset.annotations.anonymous and asked.scenario == "individual":
        raise DataError(f"{where}: scenario individual needs known annotators, these votes are anonymous; use global")
    return dataset.annotations.anonymous or asked.scenario == "global"


def _training_candidates(dataset: CrowdDataset, asked: CommonParams, where: str) -> ItemsPicked:
    train = dataset.items_of("train")
    if asked.training == "all" or not (asked.training or len(train)):
        annotated = dataset.items.whole_units(dataset.annotations.labels_per_item > 0)
        return np.flatnonzero(annotated).astype(np.int32)
    if not len(train):
        raise DataError(f"{where}: training: split needs items of the split train, found none; use training: all")
    return train


def _units(dataset: CrowdDataset, items: ItemsPicked) -> Int32[np.ndarray, " picked"] | None:
    return None if dataset.items.unit is None else dataset.items.unit[items]


def _with_annotations(dataset: CrowdDataset, items: ItemsPicked, annotations: Annotations) -> Bool[np.ndarray, " n"]:
    """Returns for each of these items whether it, or another item of its unit, has a row in these annotations."""
    annotated = np.zeros(dataset.items.n_items, dtype=bool)
    annotated[items[annotations.labels_per_item > 0]] = True
    return dataset.items.whole_units(annotated)[items]


def _thinned(
    dataset: CrowdDataset, items: ItemsPicked, asked: CommonParams, seeds: SeedStream, where: str
) -> Annotations:
    annotations, unit = dataset.annotations.of_items(items), _units(dataset, items)
    if asked.annotator_dropout:
        if annotations.anonymous:
            raise DataError(f"{where}: annotator_dropout needs known annotators, these votes are anonymous")
        kept = thinning.keep_annotators(annotations, asked.annotator_dropout, seeds.numpy("annotator_dropout"))
        annotations = annotations.take(kept)
    if asked.redundancy is None:
        return annotations
    if asked.allocation == "adaptive":
        return annotations.take(_most_informative(dataset, annotations, asked.redundancy, seeds, where))
    if annotations.anonymous:
        unit = None  # it is unknown which votes within a unit are one annotator's
    together = unit is not None or dataset.scale == "multilabel"
    bundles = thinning.pairs_of(annotations, unit) if together else None
    draws = seeds.numpy("redundancy")
    return annotations.take(thinning.keep_labels(annotations, asked.redundancy, draws, bundles=bundles, unit=unit))


def _most_informative(
    dataset: CrowdDataset, annotations: Annotations, labels: int, seeds: SeedStream, where: str
) -> Bool[np.ndarray, " annotations"]:
    """Returns a mask of the rows that adaptive labelling keeps; each label must be one class of one item."""
    several = "multi-label answers" if dataset.scale == "multilabel" else ""
    several = "items that stand in units" if dataset.items.unit is not None and not annotations.anonymous else several
    several = "soft labels" if annotations.probability is not None else several
    if several:
        raise DataError(
            f"{where}, parameter allocation: expected labels of one class for one item each, as adaptive labelling is "
            f"simulated with these alone; got {several}. Leave allocation out"
        )
    return keep_most_informative(annotations, labels, seeds.numpy("adaptive"))


def _anonymous_rows(dataset: CrowdDataset, annotations: Annotations) -> AnonymousRows:
    return annotations.anonymous_answers if dataset.scale == "multilabel" else annotations.anonymous_rows


def _anonymised(dataset: CrowdDataset, annotations: Annotations) -> Annotations:
    return annotations.anonymised(whole_answers=dataset.scale == "multilabel")


def _crowd_of_pseudo_annotators(
    crowd: TrueCrowd | None, annotator: np.ndarray, pseudo_annotator: np.ndarray
) -> TrueCrowd | None:
    """Returns the true matrices of pseudo-annotators: each has the matrix of the annotator who gave its rows."""
    if crowd is None:
        return None
    return replace(crowd, group=crowd.group[annotator[np.unique(pseudo_annotator, return_index=True)[1]]])


def _held_out(
    annotations: Annotations, fraction: int | float, pairs: thinning.Bundles | None, seeds: SeedStream
) -> tuple[Annotations, Annotations | None]:
    if pairs is None:
        return annotations, None
    kept = thinning.keep_for_fit(annotations, fraction, seeds.numpy("heldout"), pairs)
    return annotations.take(kept), annotations.take(~kept)


def _training_data(
    dataset: CrowdDataset, train: ItemsPicked, annotations: Annotations, *, anonymous: bool
) -> TrainingData:
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
    """Returns the dev items that have annotations, in whole units.

    Returns None if there are no such items, or if items have neither features nor texts.
    """
    dev = _untrained(dataset, "dev", train)
    dev = dev[_with_annotations(dataset, dev, dataset.annotations.of_items(dev))]
    if not len(dev) or (dataset.items.features is None and dataset.items.text is None):
        return None
    annotations = dataset.annotations.of_items(dev)
    known = _anonymised(dataset, annotations) if anonymous else annotations
    return Validation(items=dataset.items.take(dev), annotations=known)


def _untrained(dataset: CrowdDataset, split: str, train: ItemsPicked) -> Int32[np.ndarray, " untrained"]:
    """Returns the items of a split that are not trained on; with `training: all`, annotated items of any split are."""
    candidates = dataset.split == SPLITS.index(split)
    candidates[train] = False
    return np.flatnonzero(candidates).astype(np.int32)


def _evaluation(dataset: CrowdDataset, train: ItemsPicked, training: TrainingData) -> dict[str, EvaluationSet]:
    """Returns the evaluation sets of training items, and of dev and test items that are not trained on.

    A dev or test set without any reference is left out.
    """
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
            code=items[scored],
            reference=_reference(dataset, items[scored], has_gold[items[scored]]),
            has_gold=has_gold[items[scored]],
            known=_known_classes(dataset, items[scored], has_gold[items[scored]]),
            answers=None if name == "train" else dataset.annotations.of_items(items[scored]),
        )
    return sets


def _reference(dataset: CrowdDataset, items: ItemsPicked, has_gold: np.ndarray) -> ItemProbs:
    votes = dataset.annotations.of_items(items[~has_gold])
    shares = choices_of(votes).shares() if dataset.scale == "multilabel" else votes.label_distribution()
    if not has_gold.any():
        return shares
    reference = np.zeros((len(items), dataset.n_classes))
    reference[~has_gold] = shares
    gold = dataset.gold.of_items(items, dataset.items.n_items).positive()
    reference[gold.item, gold.label] = 1.0
    return reference


def _known_classes(
    dataset: CrowdDataset, items: ItemsPicked, has_gold: np.ndarray
) -> Bool[np.ndarray, "items classes"] | None:
    if dataset.gold.applies is None:
        return None
    known = dataset.gold.of_items(items, dataset.items.n_items).known_classes(len(items), dataset.n_classes)
    known[~has_gold] = True  # their own answers are the reference for every class
    return known
