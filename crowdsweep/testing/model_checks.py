"""The contract of a model as named checks that run over everything registered, and over anybody's own model.

    @pytest.mark.parametrize(("name", "check"), model_checks())
    def test_model(name: str, check: Check) -> None:
        check(name)

A check that cannot hold for a model is waived in its `ModelInfo`, with the reason; it then has to fail.
"""

import json
import math
import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold
from crowdsweep.errors import CrowdsweepError
from crowdsweep.models import registered
from crowdsweep.models.contract import DataShape, FitContext, FitResult, FitsPoints, ModelInfo
from crowdsweep.models.fitting import fit_all, fit_one, fit_points
from crowdsweep.search.space import Space
from crowdsweep.seeds import SeedStream
from crowdsweep.testing import checkpoint_checks as checkpoint_checks  # noqa: PLC0414 - adds its check to the table
from crowdsweep.testing import corner_checks as corner_checks  # noqa: PLC0414 - adds its checks to the table
from crowdsweep.testing import device_checks as device_checks  # noqa: PLC0414 - adds its check to the table
from crowdsweep.testing import scale_checks as scale_checks  # noqa: PLC0414 - adds its checks to the table
from crowdsweep.testing.model_fits import (
    ONE_RESTART,
    Listener,
    context_for,
    fit,
    found_steps,
    must,
    must_agree,
    must_be_predictor,
    must_be_valid,
    other_value,
    short_model,
    short_params,
    standard_fit,
)
from crowdsweep.testing.promises import CHECKS, Check, always, check
from crowdsweep.testing.shapes import checked_shapes
from crowdsweep.testing.small_data import (
    ODD_DATA,
    from_rows,
    multilabel_data,
    relabelled,
    renumbered_items,
    small_data,
    with_probability,
)

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def model_checks(names: Iterable[str] | None = None) -> "list[ParameterSet]":
    """Returns (model, check) for every promise that each model makes; waived ones as strict expected failures.

    Args:
        names: models; all that are registered by default.
    """
    import pytest  # noqa: PLC0415 - only who tests needs it

    cases: list[Any] = []
    for name in registered.model_names() if names is None else names:
        try:
            info = registered.model_info(name)
        except Exception:  # noqa: BLE001 - one broken file must not hide the others; its own case raises it again
            cases.append(pytest.param(name, Check("can_be_imported", always, always), id=f"{name}-can_be_imported"))
            continue
        for promise in CHECKS.values():
            if promise.applies(info):
                reason = info.waived.get(promise.name)
                marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
                cases.append(pytest.param(name, promise, id=f"{name}-{promise.name}", marks=marks))
    return cases


@check()
def describes_itself(info: ModelInfo) -> None:
    """Its name is its place's, it has a title and a source, and its cost, where it says one, is a positive number."""
    must(info.name in registered.model_names(), f"{info.name!r} is not where its name says")
    must(bool(info.title.strip() and info.source.strip()), "title or source is empty")
    shape = DataShape(n_items=100, n_annotators=10, n_classes=3, n_annotations=300, n_features=8)
    cost = 1.0 if info.cost is None else info.cost(shape, registered.full_params(info.name, {}))
    must(math.isfinite(cost) and cost > 0, f"cost: expected a positive number, got {cost}")
    unknown = set(info.waived) - set(CHECKS)
    must(not unknown, f"it waives checks that do not exist: {sorted(unknown)}")


@check()
def declares_its_steps(info: ModelInfo) -> None:
    """The hyper-parameter that it declares as `steps` says how many steps its objective has; without one, none does."""
    found = found_steps(info)
    must(found == info.steps, f"steps: it declares {info.steps!r}, and its objective has a value for each of {found!r}")


@check(lambda info: info.predicts_labels is not None)
def declares_whether_it_predicts_labels(info: ModelInfo) -> None:
    """Its fits have `label_probs` if and only if it declares `predicts_labels`."""
    found = standard_fit(info.name).label_probs is not None
    must(found == info.predicts_labels, f"predicts_labels is {info.predicts_labels}, and its fits show otherwise")


@check()
def every_parameter_is_described(info: ModelInfo) -> None:
    """Each hyper-parameter has a line of its own in a docstring."""
    about = {name: parameter.about for name, parameter in registered.parameters(info.name).items()}
    silent = [name for name, line in about.items() if not line]
    must(not silent, f"no line in an `Attributes:` section says what these are: {', '.join(silent)}")
    shared = [name for name, line in about.items() if list(about.values()).count(line) > 1]
    must(not shared, f"these share a line of an `Attributes:` section; give each its own: {', '.join(shared)}")


@check()
def params_survive_json(info: ModelInfo) -> None:
    """Full parameters, written as JSON and read back, build an equal model."""
    full = registered.full_params(info.name, {})
    again = json.loads(json.dumps(full, allow_nan=False))
    must(registered.build_model(info.name, again) == registered.build_model(info.name, {}), "another model came back")
    must(registered.full_params(info.name, again) == full, "other parameters came back")


@check()
def model_pickles(info: ModelInfo) -> None:
    """The model goes to another process and comes back equal."""
    model = registered.build_model(info.name, {})
    must(pickle.loads(pickle.dumps(model)) == model, "another model came back")  # noqa: S301 - our own bytes


@check(lambda info: bool(info.space))
def space_fits_fields(info: ModelInfo) -> None:
    """The default search space names fields of the model, and values that it takes."""
    Space.parse(info.space, where=info.name).check_fits(info.name, {})


@check()
def shapes_are_those_declared(info: ModelInfo) -> None:
    """With the types of arrays checked at run time (`--jaxtyping-packages`), a fit and what it is asked go through."""
    with checked_shapes():
        must_be_valid(fit(info, small_data()), small_data().training)


@check()
def result_is_valid(info: ModelInfo) -> None:
    """Probabilities are probabilities, everywhere."""
    must_be_valid(standard_fit(info.name), small_data().training)


@check()
def fit_pickles(info: ModelInfo) -> None:
    """A fit without the functions that score held-out answers, as `crowdsweep.Fit` holds it, comes back equal."""
    fitted = replace(standard_fit(info.name), label_probs=None, unseen_label_probs=None)
    must_agree(fitted, pickle.loads(pickle.dumps(fitted)), 0.0)  # noqa: S301 - our own bytes


@check()
def inputs_stay_as_they_were(info: ModelInfo) -> None:
    """The data that went in are the same after the fit; arrays that refuse to be written are no obstacle."""
    data, untouched = small_data(), small_data()
    fit(info, data)
    rows, features = data.training.annotations, data.training.items.features
    must(rows.fingerprint() == untouched.training.annotations.fingerprint(), "annotations were changed")
    must(features is not None and not features.flags.writeable, "features were made writable")
    np.testing.assert_array_equal(features, untouched.training.items.features, err_msg="features were changed")


@check()
def refit_is_the_same(info: ModelInfo) -> None:
    """Same data, same seed, same numbers."""
    must_agree(standard_fit(info.name), fit(info, small_data()), 1e-9)


@check()
def batch_equals_alone(info: ModelInfo) -> None:
    """Fitting several data sets at once, of different sizes, gives what each gives alone."""
    sets = [small_data(), small_data(1), small_data(2, n_items=17, n_annotators=9)]
    model = registered.build_model(info.name, short_params(info))
    contexts = [context_for(info, data, seed) for seed, data in enumerate(sets)]
    together = fit_all(model, [data.training for data in sets], contexts)
    for data, context, batched in zip(sets, contexts, together, strict=True):
        must_agree(fit_one(model, data.training, context), batched, 1e-6)


@check(lambda info: bool(info.varies) or issubclass(info.model, FitsPoints))
def points_beside_each_other_equal_each_alone(info: ModelInfo) -> None:
    """Fits that differ in each hyper-parameter that a batch may vary, in one batch, give what each gives alone."""
    known = registered.parameters(info.name)
    unknown = sorted(info.varies - known.keys())
    must(not unknown, f"varies: it has no {', '.join(unknown)}")
    must(issubclass(info.model, FitsPoints), "varies: what may differ in a batch needs `fit_points`")
    must(bool(info.varies), "it has `fit_points`, and `varies` names nothing")
    points = [{}, *({name: other_value(info, name)} for name in sorted(info.varies)), {}]
    models = [short_model(info, **point) for point in points]
    differing = [name for name, model in zip(sorted(info.varies), models[1:], strict=False) if model == models[0]]
    must(not differing, f"no other value was found of {', '.join(differing)}")
    sets = [small_data(seed % 2, n_items=60 if seed % 2 else 17) for seed in range(len(points))]
    contexts = [context_for(info, data, seed) for seed, data in enumerate(sets)]
    contexts[-1] = replace(contexts[-1], report=Listener(until=2))  # ends before all others, and disturbs none
    together = fit_points(models, [data.training for data in sets], contexts)
    for point, model, data, context, fitted in zip(points, models, sets, contexts, together, strict=True):
        alone = fit_one(model, data.training, context)
        must(alone.iterations == fitted.iterations, f"{point}: {fitted.iterations} steps, alone {alone.iterations}")
        must_agree(alone, fitted, 1e-6)


@check(lambda info: info.deterministic)
def seed_changes_nothing(info: ModelInfo) -> None:
    """A model that is declared deterministic gives the same for another seed."""
    must_agree(standard_fit(info.name), fit(info, small_data(), seed=1), 1e-12)


@check(lambda info: info.deterministic)
def item_codes_change_nothing(info: ModelInfo) -> None:
    """Which code an item has does not matter: renumbering items renumbers the result (where no draw goes by item)."""
    data = small_data()
    codes = np.roll(np.arange(data.training.n_items), 5)
    renumbered = fit(info, renumbered_items(data, codes)).item_probs[codes]
    np.testing.assert_allclose(renumbered, standard_fit(info.name).item_probs, atol=1e-9)


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


@check()
def class_codes_permute_the_result(info: ModelInfo) -> None:
    """Exchanging the classes exchanges the columns of the result, if and only if the model says so."""
    codes = np.array([2, 0, 1])
    permuted = fit(info, relabelled(small_data(), classes=codes)).item_probs[:, codes]
    symmetric = bool(np.allclose(permuted, standard_fit(info.name).item_probs, atol=1e-6))
    must(symmetric == info.label_symmetric, f"label_symmetric is {info.label_symmetric}, and its fits show otherwise")


@check(lambda info: bool(info.needs & {"features", "gold"}))
def what_it_needs_it_misses(info: ModelInfo) -> None:
    """Without what a model says it needs, there is an error that names it."""
    data = small_data()
    bare = replace(data.training, items=replace(data.training.items, features=None, text=None))
    lacking = {
        "features": (bare, context_for(info, data)),
        "gold": (data.training, replace(context_for(info, data), gold=None)),
    }
    for need in sorted(info.needs & set(lacking)):
        try:
            fit_one(short_model(info), *lacking[need])
        except CrowdsweepError as error:
            must(need in str(error), f"expected a message that names {need}, got {error}")
        else:
            must(False, f"it fits without {need}, which it says it needs")


@check(lambda info: "gold" not in info.needs)
def gold_is_out_of_reach(info: ModelInfo) -> None:
    """A model that does not declare the need takes no notice of gold, even if it were handed over."""
    data = small_data()
    wrong = Gold(item=data.gold.item, label=((data.gold.label + 1) % 3).astype(np.int32))
    model = registered.build_model(info.name, short_params(info))
    handed = FitContext(seeds=SeedStream(0), gold=wrong)
    must_agree(standard_fit(info.name), fit_one(model, data.training, handed), 1e-9)


@check(lambda info: "features" in info.needs or "text" in info.needs)
def unseen_items_are_labelled(info: ModelInfo) -> None:
    """A model that learns from features or texts labels items that it did not see."""
    predictor = standard_fit(info.name).predictor
    must(predictor is not None, "expected a predictor")
    unseen = small_data().training.unlabelled
    if predictor is not None and unseen is not None:
        must_be_predictor(predictor, unseen, 3, sums=True)


@check(lambda info: info.monotone_objective)
def objective_never_falls(info: ModelInfo) -> None:
    """With default parameters each step's objective is at least the one before, to 1e-8 of it."""
    model = registered.build_model(info.name, {})
    for seed in range(3):
        data = small_data(seed)
        objective = fit_one(model, data.training, context_for(info, data, seed)).objective
        must(len(objective) > 0, "expected an objective")
        falls = np.diff(objective) < -1e-8 * np.abs(objective[:-1])
        must(not falls.any(), f"it falls at step {np.flatnonzero(falls) + 1} of {objective}")


@check(lambda info: info.steps is not None)
def every_step_is_reported(info: ModelInfo) -> None:
    """Steps are reported one by one as they are made, with what the fit pushes up, and a predictor if it has one."""
    data, heard = small_data(), Listener()
    fitted = fit_one(short_model(info), data.training, replace(context_for(info, data), report=heard))
    must(len(heard.steps) >= len(fitted.objective), f"{len(heard.steps)} reports of {len(fitted.objective)} steps")
    must(heard.steps == list(range(1, len(heard.steps) + 1)), f"expected steps 1, 2, …, got {heard.steps}")
    must(all(map(math.isfinite, heard.objectives)), "reported objectives are not finite")
    must(
        (heard.last is not None) == (fitted.predictor is not None),
        "a predictor is reported if and only if there is one",
    )
    unseen = data.training.unlabelled
    if heard.last is not None and fitted.predictor is not None and unseen is not None:
        for use in fitted.predictor.uses:
            now, end = heard.last.predict(unseen, use), fitted.predictor.predict(unseen, use)
            np.testing.assert_array_equal(
                now, end, err_msg="the predictor of the last report is not that of the result"
            )


@check(lambda info: info.steps is not None)
def a_stopped_fit_is_a_shorter_one(info: ModelInfo) -> None:
    """A fit that is told to stop after two steps has made no third, and is the fit that was asked for two."""
    data, name = small_data(), str(info.steps)
    asked = short_model(info, **{name: 2}, **ONE_RESTART)
    shorter = fit_one(asked, data.training, context_for(info, data))
    heard = Listener(until=2)
    longer = short_model(info, **{name: 6}, **ONE_RESTART)
    stopped = fit_one(longer, data.training, replace(context_for(info, data), report=heard))
    must(len(heard.steps) <= 2, f"it was told to stop after 2 steps and reported {heard.steps}")
    np.testing.assert_array_equal(stopped.item_probs, shorter.item_probs)
    np.testing.assert_array_equal(stopped.objective, shorter.objective)


@check(lambda info: info.steps is not None)
def a_stop_leaves_the_others_alone(info: ModelInfo) -> None:
    """In a batch, one that is stopped changes no bit of the others' numbers."""
    sets = [small_data(), small_data(1), small_data(2, n_items=17, n_annotators=9)]
    contexts = [context_for(info, data, seed) for seed, data in enumerate(sets)]
    data = [one.training for one in sets]
    undisturbed = fit_all(short_model(info), data, contexts)
    contexts[1] = replace(contexts[1], report=Listener(until=2))
    disturbed = fit_all(short_model(info), data, contexts)
    must(disturbed[1].iterations <= undisturbed[1].iterations, "the stopped one went on")
    for place in (0, 2):
        np.testing.assert_array_equal(disturbed[place].item_probs, undisturbed[place].item_probs)
        np.testing.assert_array_equal(disturbed[place].objective, undisturbed[place].objective)


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


@check(lambda info: "gold" not in info.needs)
def unknown_annotators_answer_as_the_crowd_does(info: ModelInfo) -> None:
    """An annotator without answers has the pooled confusion matrix of the others, not that of a guesser."""
    data = small_data(n_items=60)
    rows = data.training.annotations
    known = rows.take(rows.annotator != 2)
    fitted = fit(info, replace(data, training=replace(data.training, annotations=known)))
    _must_be_the_crowds(fitted, known, unknown=2)
    if fitted.label_probs is not None:
        item = np.arange(60, dtype=np.int32)
        probs, *theirs = (fitted.label_probs(item, np.full(60, code, np.int32)) for code in (2, 0, 1, 3, 4, 5))
        share = known.labels_per_annotator[[0, 1, 3, 4, 5]] / len(known)
        np.testing.assert_allclose(probs, np.tensordot(share, theirs, axes=1), atol=0.05)
    # Where classifiers label the items, annotators are counted against something else, which is not known here.
    if not info.needs & {"annotators", "features"} and "votes" in info.supports:
        votes = rows.anonymised()  # each of which has an annotator of its own
        known = votes.take(votes.annotator != 7)
        fitted = fit(info, replace(data, training=replace(data.training, annotations=known)))
        _must_be_the_crowds(fitted, known, unknown=7)


def _must_be_the_crowds(fitted: FitResult, known: Annotations, unknown: int) -> None:
    """Checks that this annotator's matrix is the crowd's."""
    if fitted.annotators is None:
        return
    crowd = fitted.annotators.global_confusion()
    if crowd is None:
        # Each row of the crowd's matrix is the mean of the annotators' rows, by how often each met the class.
        met = np.zeros((known.n_annotators, known.n_classes))
        np.add.at(met, known.annotator, fitted.item_probs[known.item])
        own = fitted.annotators.confusion(np.arange(known.n_annotators))
        crowd = (own * met[:, :, None]).sum(axis=0) / met.sum(axis=0)[:, None]
    np.testing.assert_allclose(fitted.annotators.confusion(np.array([unknown]))[0], crowd, atol=0.05)


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
        training = replace(data.training, annotations=with_probability(data.training.annotations, certain))
        fitted = fit(info, replace(data, training=training))
        must_be_valid(fitted, training)
        if certain == 1.0:
            must_agree(standard_fit(info.name), fitted, 1e-6)


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
