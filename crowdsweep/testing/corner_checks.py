"""The model contract's checks of corner cases: crowds with next to no information, or with misleading labels.

Each fits with default parameters, all corners as one batch. What comes out is legal, and an item on which everybody
agrees is what they say, whatever they say elsewhere: nothing in the data speaks against it. See `model_checks`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from crowdsweep.arrays import read_only
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData, Validation
from crowdsweep.models import registered
from crowdsweep.models.contract import FitResult, ModelInfo
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.model_fits import context_for, must, must_be_valid
from crowdsweep.testing.promises import check
from crowdsweep.testing.small_data import N_FEATURES, SmallData, unanimous_data

N_CLASSES = 3
GOLD = np.array([2, 1, 2, 0, 1, 2, 1, 2, 0, 1, 2, 1])
MANY = 60  # annotators who all say UNANIMOUS of item 0: not its class, and the rarest of all
UNANIMOUS = 0
UNDECIDED = 0.01
BRIEF = {"steps": 0, "patience": None}  # of networks: as many passes as their epochs, whatever the size of the data
FEW = 30  # items that have one answer each, of all classes alike: a rare one may well be somebody's error


@dataclass(frozen=True, kw_only=True, eq=False)
class Corner:
    """A crowd in a corner, and the items of it on which everybody agrees."""

    data: SmallData
    unanimous: np.ndarray


def corners() -> Mapping[str, Corner]:
    """Builds the corners, from rows (item, annotator, label)."""
    random = SeedStream(0).numpy("corners")

    def answers(right: float) -> Iterator[tuple[int, int, int]]:
        """Answers of twenty of the annotators to all other items; wrong ones go to the two other classes alike."""
        for item in range(1, len(GOLD)):
            for annotator in range(20):
                wrong = random.integers(1, N_CLASSES) if random.random() >= right else 0
                yield item, annotator, int((GOLD[item] + wrong) % N_CLASSES)

    agreed = [(0, annotator, UNANIMOUS) for annotator in range(MANY)]
    each = np.arange(FEW) % N_CLASSES
    alone = [(item, item // 3, int(label)) for item, label in enumerate(each)]
    once = [(item, MANY + 5 * item + n, int(GOLD[item] + n // 4) % 3) for item in range(1, len(GOLD)) for n in range(5)]
    return {
        f"{MANY} unanimous votes on an item": _corner([*agreed, *answers(0.7)]),
        "annotators who share no item": _corner(alone, gold=each),
        "a class that no annotator used": _corner([*agreed, *answers(0.7)], n_classes=N_CLASSES + 1),
        "one annotator": _corner([(item, 0, label) for item, _, label in alone], gold=each),
        "one item": _corner(agreed, gold=GOLD[:1]),
        "annotators with one label each": _corner([*agreed, *once]),
        "all annotators spammers": _corner([*agreed, *answers(1 / N_CLASSES)]),
        "all annotators adversarial": _corner([*agreed, *answers(0.0)]),
        "annotators who agree on everything": _of(unanimous_data()),
    }


def _corner(rows: list[tuple[int, int, int]], *, gold: np.ndarray = GOLD, n_classes: int = N_CLASSES) -> Corner:
    item, annotator, label = np.array(rows).T
    n_items = len(gold)
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        n_items=n_items,
        n_annotators=int(annotator.max()) + 1,
        n_classes=n_classes,
    )
    # Items of a class are alike; item 0 is like no other, so that a classifier need not contradict itself.
    kinds = np.where(np.arange(n_items) > 0, gold, N_FEATURES - 1)
    features = 3.0 * np.eye(N_FEATURES, dtype=np.float32)[kinds]
    items = Items(n_items=n_items, features=read_only(features), text=[f"an item of kind {kind}" for kind in kinds])
    data = SmallData(
        # Dev items are answered as these are: what is trained stops by crowds of the same kind.
        training=TrainingData(
            annotations=annotations, items=items, validation=Validation(items=items, annotations=annotations)
        ),
        gold=Gold(item=np.arange(n_items, dtype=np.int32), label=gold.astype(np.int32)),
    )
    return _of(data)


def _of(data: SmallData) -> Corner:
    counts = data.training.annotations.counts.toarray()
    return Corner(data=data, unanimous=np.flatnonzero((counts > 0).sum(axis=1) == 1))


CORNERS = corners()


@cache
def _fitted(name: str) -> Mapping[str, FitResult]:
    info, settings = registered.model_info(name), registered.parameters(name).keys() & BRIEF.keys()
    model = registered.build_model(name, {setting: BRIEF[setting] for setting in settings})
    data = [corner.data for corner in CORNERS.values()]
    contexts = [context_for(info, one) for one in data]
    try:
        return dict(zip(CORNERS, fit_all(model, [one.training for one in data], contexts), strict=True))
    except Exception as failure:
        for where, one, context in zip(CORNERS, data, contexts, strict=True):
            try:
                fit_one(model, one.training, context)
            except Exception as error:
                error.add_note(f"in the corner: {where}")
                raise
        failure.add_note("in all corners as one batch; each alone is survived")
        raise


@check()
def corners_are_survived(info: ModelInfo) -> None:
    """Many votes on an item, one annotator, one item, nothing shared, spammers, adversaries: a legal result."""
    for where, fitted in _fitted(info.name).items():
        try:
            must_be_valid(fitted, CORNERS[where].data.training)
        except Exception as error:
            error.add_note(f"in the corner: {where}")
            raise


@check(lambda info: "gold" not in info.needs)
def no_corner_flips_a_unanimous_item(info: ModelInfo) -> None:
    """In every corner, items on which everybody agrees are what everybody says (default parameters)."""
    for where, fitted in _fitted(info.name).items():
        data, items = CORNERS[where].data, CORNERS[where].unanimous
        counts, found = data.training.annotations.counts.toarray()[items], fitted.item_probs[items]
        said = np.take_along_axis(found, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
        others = np.where(counts > 0, 0.0, found).max(axis=1)
        # One answer may leave a model with strong priors undecided, to what its search leaves; many may not.
        slack = np.where(counts.sum(axis=1) >= MANY, 0.0, UNDECIDED)
        flipped = items[said + slack <= others]
        must(not len(flipped), f"in the corner with {where}: not what all their answers say: items {flipped}, {found}")
