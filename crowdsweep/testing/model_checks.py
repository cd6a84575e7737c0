"""The contract of a model as named checks that run over everything registered, and over anybody's own model.

    @pytest.mark.parametrize(("name", "check"), model_checks())
    def test_model(name: str, check: Check) -> None:
        check(name)

A check that cannot hold for a model is waived in its `ModelInfo`, with the reason; it then has to fail.
"""

import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsweep import plugins
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData
from crowdsweep.errors import CrowdsweepError
from crowdsweep.models.contract import (
    AnnotatorModel,
    DataShape,
    FitContext,
    FitResult,
    ModelInfo,
    Predictor,
    fit_all,
    fit_one,
)
from crowdsweep.search.space import Space
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import SmallData, from_rows, multilabel_data, relabelled, small_data

if TYPE_CHECKING:
    import pytest

# What keeps a fit of the checks short, where a model has such a parameter.
SHORT = {"epochs": 3, "restarts": 2, "iterations": 8, "hidden": [5]}


@dataclass(frozen=True)
class Check:
    """One named promise of the contract.

    Attributes:
        name: what `ModelInfo.waived` says.
        applies: whether a model makes the promise at all.
        run: raises AssertionError where the model breaks it.
    """

    name: str
    applies: Callable[[ModelInfo], bool]
    run: Callable[[ModelInfo], object]

    def __call__(self, name: str) -> None:
        """Checks one model."""
        self.run(plugins.model_info(name))


CHECKS: dict[str, Check] = {}


def model_checks(names: Iterable[str] | None = None) -> "list[pytest.ParameterSet]":
    """Returns (model, check) for every promise that each model makes; waived ones as strict expected failures.

    Args:
        names: models; all that are registered by default.
    """
    import pytest  # noqa: PLC0415 - only who tests needs it

    cases: list[Any] = []
    for name in plugins.model_names() if names is None else names:
        try:
            info = plugins.model_info(name)
        except Exception:  # noqa: BLE001 - one broken file must not hide the others; its own case raises it again
            cases.append(pytest.param(name, Check("can_be_imported", _always, _always), id=f"{name}-can_be_imported"))
            continue
        for check in CHECKS.values():
            if check.applies(info):
                reason = info.waived.get(check.name)
                marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
                cases.append(pytest.param(name, check, id=f"{name}-{check.name}", marks=marks))
    return cases


Run = Callable[[ModelInfo], None]


def _always(_: ModelInfo) -> bool:
    return True


def check(applies: Callable[[ModelInfo], bool] = _always) -> Callable[[Run], Run]:
    """Registers a check under its function's name."""

    def register(run: Run) -> Run:
        CHECKS[run.__name__] = Check(run.__name__, applies, run)
        return run

    return register


# What the checks are made of.


def short_params(info: ModelInfo) -> dict[str, Any]:
    """Returns parameters that keep a fit short, where the model has such."""
    names = {field.name for field in fields(info.model)}
    return {name: value for name, value in SHORT.items() if name in names}


def context_for(info: ModelInfo, data: SmallData, seed: int = 0) -> FitContext:
    """Returns what the runner would give: gold only to a model that declares the need."""
    return FitContext(seeds=SeedStream(seed), gold=data.gold if "gold" in info.needs else None)


def fit(info: ModelInfo, data: SmallData, seed: int = 0) -> FitResult:
    """Fits the model with short parameters."""
    return fit_one(plugins.build_model(info.name, short_params(info)), data.training, context_for(info, data, seed))


@cache
def standard_fit(info_name: str) -> FitResult:
    """Returns the fit on the standard data; made once for all checks that only look at it."""
    return fit(plugins.model_info(info_name), small_data())


def must(held: bool, otherwise: str) -> None:
    """Raises AssertionError with that message unless it held."""
    if not held:
        raise AssertionError(otherwise)


def must_be_probs(probs: np.ndarray, shape: tuple[int, ...], what: str, *, sums: bool = True) -> None:
    """Checks shape, type and range; and, unless they are independent, that the last axis sums to one."""
    must(probs.shape == shape, f"{what}: expected shape {shape}, got {probs.shape}")
    must(probs.dtype == np.float64, f"{what}: expected float64, got {probs.dtype}")
    must(bool((probs >= 0).all() and (probs <= 1 + 1e-9).all()), f"{what}: expected values in [0, 1]")
    if sums:
        np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-6, err_msg=what)


def must_be_valid(fitted: FitResult, data: TrainingData) -> None:
    """Checks everything of a fit that can be checked without knowing the model."""
    sums = data.scale != "multilabel"
    size = (data.n_items, data.n_classes)
    must_be_probs(fitted.item_probs, size, "item_probs", sums=sums)
    must(bool(np.isfinite(fitted.objective).all()), f"objective: expected finite values, got {fitted.objective}")
    if fitted.annotators is not None:
        _must_be_annotators(fitted.annotators, data)
    if fitted.label_probs is not None and data.n_items and data.n_annotators:
        item = np.repeat(np.arange(data.n_items, dtype=np.int32), 2)
        annotator = (np.arange(len(item)) % data.n_annotators).astype(np.int32)
        must_be_probs(fitted.label_probs(item, annotator), (len(item), data.n_classes), "label_probs", sums=sums)
    if fitted.predictor is not None:
        _must_be_predictor(fitted.predictor, data.items, data.n_classes, sums)


def _must_be_annotators(annotators: AnnotatorModel, data: TrainingData) -> None:
    size = (data.n_classes, data.n_classes)
    must(annotators.n_annotators == data.n_annotators, f"annotators: it covers {annotators.n_annotators}")
    codes = np.arange(data.n_annotators)[::-1]
    matrices = annotators.confusion(codes)
    must_be_probs(matrices, (data.n_annotators, *size), "confusion matrices")
    np.testing.assert_allclose(annotators.confusion(codes[:1]), matrices[:1], atol=1e-12, err_msg="chunks differ")
    shared = annotators.global_confusion()
    if shared is not None:
        must_be_probs(shared, size, "global confusion")


def _must_be_predictor(predictor: Predictor, items: Items, n_classes: int, sums: bool) -> None:
    must(len(predictor.uses) > 0 and len(set(predictor.uses)) == len(predictor.uses), f"uses: {predictor.uses}")
    for use in predictor.uses:
        for part in (items, items.take(np.arange(min(1, items.n_items)))):
            must_be_probs(predictor.predict(part, use), (part.n_items, n_classes), f"predictions ({use})", sums=sums)


# The promises.


@check()
def describes_itself(info: ModelInfo) -> None:
    """Its name is its place's, it has a title and a source, and its cost is a positive number."""
    must(info.name in plugins.model_names(), f"{info.name!r} is not where its name says")
    must(bool(info.title.strip() and info.source.strip()), "title or source is empty")
    shape = DataShape(n_items=100, n_annotators=10, n_classes=3, n_annotations=300, n_features=8)
    cost = info.cost(shape, plugins.full_params(info.name, {}))
    must(math.isfinite(cost) and cost > 0, f"cost: expected a positive number, got {cost}")
    unknown = set(info.waived) - set(CHECKS)
    must(not unknown, f"it waives checks that do not exist: {sorted(unknown)}")


@check()
def params_survive_json(info: ModelInfo) -> None:
    """Full parameters, written as JSON and read back, build an equal model."""
    full = plugins.full_params(info.name, {})
    again = json.loads(json.dumps(full, allow_nan=False))
    must(plugins.build_model(info.name, again) == plugins.build_model(info.name, {}), "another model came back")
    must(plugins.full_params(info.name, again) == full, "other parameters came back")


@check()
def model_pickles(info: ModelInfo) -> None:
    """The model goes to another process and comes back equal."""
    model = plugins.build_model(info.name, {})
    must(pickle.loads(pickle.dumps(model)) == model, "another model came back")  # noqa: S301 - our own bytes


@check(lambda info: bool(info.space))
def space_fits_fields(info: ModelInfo) -> None:
    """The default search space names fields of the model, and values that it takes."""
    Space.parse(info.space, where=info.name).check_fits(info.name, {})


@check()
def result_is_valid(info: ModelInfo) -> None:
    """Probabilities are probabilities, everywhere."""
    must_be_valid(standard_fit(info.name), small_data().training)


@check()
def inputs_stay_as_they_were(info: ModelInfo) -> None:
    """The data that went in are the same after the fit; arrays that refuse to be written are no obstacle."""
    data = small_data()
    before = pickle.dumps(data)
    fit(info, data)
    after = replace(data, training=replace(data.training))
    must(pickle.loads(before).training.annotations.fingerprint() == after.training.annotations.fingerprint(), "changed")  # noqa: S301
    features = data.training.items.features
    must(features is not None and not features.flags.writeable, "features were made writable")


@check()
def refit_is_the_same(info: ModelInfo) -> None:
    """Same data, same seed, same numbers."""
    _must_agree(standard_fit(info.name), fit(info, small_data()), 1e-9)


@check()
def batch_equals_alone(info: ModelInfo) -> None:
    """Fitting several data sets at once, of different sizes, gives what each gives alone."""
    sets = [small_data(), small_data(1), small_data(2, n_items=17, n_annotators=9)]
    model = plugins.build_model(info.name, short_params(info))
    contexts = [context_for(info, data, seed) for seed, data in enumerate(sets)]
    together = fit_all(model, [data.training for data in sets], contexts)
    for data, context, batched in zip(sets, contexts, together, strict=True):
        _must_agree(fit_one(model, data.training, context), batched, 1e-6)


@check(lambda info: info.deterministic)
def seed_changes_nothing(info: ModelInfo) -> None:
    """A model that is declared deterministic gives the same for another seed."""
    _must_agree(standard_fit(info.name), fit(info, small_data(), seed=1), 1e-12)


@check()
def row_order_changes_nothing(info: ModelInfo) -> None:
    """Annotations may come in any order."""
    data = small_data()
    rows = data.training.annotations
    order = np.arange(len(rows))[::-1]
    shuffled = replace(data.training, annotations=rows.take(order))
    _must_agree(standard_fit(info.name), fit(info, replace(data, training=shuffled)), 1e-9)


@check()
def annotator_codes_change_nothing(info: ModelInfo) -> None:
    """Which code an annotator has does not matter to the items."""
    data = small_data()
    codes = np.array([3, 5, 0, 1, 4, 2])
    fitted, renamed = standard_fit(info.name), fit(info, relabelled(data, annotators=codes))
    np.testing.assert_allclose(renamed.item_probs, fitted.item_probs, atol=1e-6)
    if fitted.annotators is not None and renamed.annotators is not None:
        np.testing.assert_allclose(
            renamed.annotators.confusion(codes), fitted.annotators.confusion(np.arange(6)), atol=1e-6
        )


@check(lambda info: info.label_symmetric and info.deterministic)
def class_codes_permute_the_result(info: ModelInfo) -> None:
    """Exchanging the classes exchanges the columns of the result (where no draw is tied to a class)."""
    codes = np.array([2, 0, 1])
    permuted = fit(info, relabelled(small_data(), classes=codes))
    np.testing.assert_allclose(permuted.item_probs[:, codes], standard_fit(info.name).item_probs, atol=1e-6)


@check(lambda info: "gold" not in info.needs)
def unanimous_items_keep_their_label(info: ModelInfo) -> None:
    """Where everybody agrees on every item, the result agrees too."""
    label = np.arange(12) % 3
    rows = [(item, annotator, int(label[item])) for item in range(12) for annotator in range(4)]
    data = from_rows(rows, n_items=12, n_annotators=4)
    features = np.eye(3, 4, dtype=np.float32)[label]
    training = replace(data.training, items=Items(n_items=12, features=features, text=data.training.items.text))
    fitted = fit(info, replace(data, training=training))
    np.testing.assert_array_equal(fitted.item_probs.argmax(axis=1), label)


@check(lambda info: "gold" not in info.needs)
def gold_is_out_of_reach(info: ModelInfo) -> None:
    """A model that does not declare the need takes no notice of gold, even if it were handed over."""
    data = small_data()
    wrong = Gold(item=data.gold.item, label=((data.gold.label + 1) % 3).astype(np.int32))
    model = plugins.build_model(info.name, short_params(info))
    handed = FitContext(seeds=SeedStream(0), gold=wrong)
    _must_agree(standard_fit(info.name), fit_one(model, data.training, handed), 1e-9)


@check(lambda info: "features" in info.needs or "text" in info.needs)
def unseen_items_are_labelled(info: ModelInfo) -> None:
    """A model that learns from features or texts labels items that it did not see."""
    predictor = standard_fit(info.name).predictor
    must(predictor is not None, "expected a predictor")
    unseen = small_data().training.unlabelled
    if predictor is not None and unseen is not None:
        _must_be_predictor(predictor, unseen, 3, sums=True)


@check(lambda info: info.monotone_objective)
def objective_never_falls(info: ModelInfo) -> None:
    """With default parameters each step's objective is at least the one before, to 1e-8 of it."""
    model = plugins.build_model(info.name, {})
    for seed in range(3):
        data = small_data(seed)
        objective = fit_one(model, data.training, context_for(info, data, seed)).objective
        must(len(objective) > 0, "expected an objective")
        falls = np.diff(objective) < -1e-8 * np.abs(objective[:-1])
        must(not falls.any(), f"it falls at step {np.flatnonzero(falls) + 1} of {objective}")


@check()
def progress_is_reported(info: ModelInfo) -> None:
    """Whoever has an objective of more than one step reports it while fitting: a stop arrives with a report."""
    data, reported = small_data(), list[float]()

    def report(step: int, objective: float) -> None:  # noqa: ARG001
        reported.append(objective)

    context = replace(context_for(info, data), report=report)
    fitted = fit_one(plugins.build_model(info.name, short_params(info)), data.training, context)
    must(len(fitted.objective) < 2 or len(reported) > 0, "expected reports")
    must(all(map(math.isfinite, reported)), "reported objectives are not finite")


@check()
def many_votes_stay_finite(info: ModelInfo) -> None:
    """Five hundred answers an item do not underflow."""
    answers = SeedStream(0).numpy("answers").random((6, 500))
    rows = [
        (item, annotator, item % 3 if answers[item, annotator] < 0.7 else (item + 1) % 3)
        for item in range(6)
        for annotator in range(500)
    ]
    data = from_rows(rows, n_items=6, n_annotators=500)
    must_be_valid(fit(info, data), data.training)


@check(lambda info: "annotators" not in info.needs and "votes" in info.supports)
def anonymous_votes_are_taken(info: ModelInfo) -> None:
    """Votes without annotators are data like any other."""
    data = small_data()
    training = replace(data.training, annotations=data.training.annotations.anonymised())
    must_be_valid(fit(info, replace(data, training=training)), training)


@check(lambda info: "multilabel" in info.supports)
def multilabel_data_are_taken(info: ModelInfo) -> None:
    """Answers that choose several classes give independent probabilities."""
    data = multilabel_data()
    must_be_valid(fit(info, data), data.training)


@check(lambda info: "soft_answers" in info.supports)
def certain_answers_equal_plain_ones(info: ModelInfo) -> None:
    """Rows with probability one are rows without one; less certain ones give another, legal result."""
    data = small_data()
    for certain in (1.0, 0.6):
        training = replace(data.training, annotations=_with_probability(data.training.annotations, certain))
        fitted = fit(info, replace(data, training=training))
        must_be_valid(fitted, training)
        if certain == 1.0:
            _must_agree(standard_fit(info.name), fitted, 1e-6)


def _with_probability(rows: Annotations, certain: float) -> Annotations:
    return Annotations.of(
        item=rows.item,
        annotator=rows.annotator,
        label=rows.label,
        probability=np.full(len(rows), certain, dtype=np.float32),
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
    )


ODD_DATA: Mapping[str, SmallData] = {
    "one item": from_rows([(0, 0, 1), (0, 1, 1), (0, 2, 0)], n_items=1, n_annotators=3),
    "one annotator": from_rows([(item, 0, item % 3) for item in range(6)], n_items=6, n_annotators=1),
    "one annotation": from_rows([(0, 0, 2)], n_items=1, n_annotators=1),
    "one class used": from_rows([(item, item % 2, 1) for item in range(6)], n_items=6, n_annotators=2),
    "two classes, one unused": from_rows(
        [(item, annotator, item % 2) for item in range(6) for annotator in range(3)], n_items=6, n_annotators=3
    ),
    "repeated pair": from_rows(
        [(0, 0, 1), (0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 1, 0), (2, 1, 2)], n_items=3, n_annotators=2
    ),
    "idle annotators": from_rows([(item, 1 + item % 2, item % 3) for item in range(6)], n_items=6, n_annotators=5),
    "annotator with one answer": from_rows(
        [(item, annotator, item % 3) for item in range(6) for annotator in range(2)] + [(0, 2, 1)],
        n_items=6,
        n_annotators=3,
    ),
    "item without answers": from_rows([(item, item % 3, item % 3) for item in range(5)], n_items=7, n_annotators=3),
}


@check()
def odd_data_are_survived(info: ModelInfo) -> None:
    """One item, one annotator, unused classes, repeats, idle annotators: legal data give a legal result."""
    for what, data in ODD_DATA.items():
        try:
            must_be_valid(fit(info, data), data.training)
        except Exception as error:
            error.add_note(f"on the data with: {what}")
            raise


@check()
def no_annotations_end_well(info: ModelInfo) -> None:
    """Without any annotation there is a legal result, or an error that says so."""
    data = from_rows([], n_items=4, n_annotators=2)
    try:
        fitted = fit(info, data)
    except CrowdsweepError as error:
        must(len(str(error)) > 20, f"expected a message that helps, got {error}")
    else:
        must_be_valid(fitted, data.training)


def _must_agree(first: FitResult, second: FitResult, tolerance: float) -> None:
    """Checks that two fits give the same numbers, wherever both can be asked."""
    for (what, one), (_, other) in zip(_numbers(first), _numbers(second), strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=what)


def _numbers(fitted: FitResult) -> Iterator[tuple[str, np.ndarray]]:
    yield "item_probs", fitted.item_probs
    yield "objective", fitted.objective
    if fitted.annotators is not None:
        yield "confusion matrices", fitted.annotators.confusion(np.arange(fitted.annotators.n_annotators))
    if fitted.predictor is not None:
        for use in fitted.predictor.uses:
            yield f"predictions ({use})", fitted.predictor.predict(small_data().training.items, use)
