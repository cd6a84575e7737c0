"""Every check of the model contract passes a model that keeps its promises and catches one that breaks this one."""

from pathlib import Path

import pytest

from crowdsweep.models import registered
from crowdsweep.testing.model_checks import CHECKS, model_checks

SOUND = '''
"""A sound model: shares of votes, smoothed."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge

from crowdsweep.data.choices import choices_of
from crowdsweep.errors import DataError
from crowdsweep.models.contract import ConfusionMatrices, FitResult, ModelInfo


def votes(data):
    if data.scale == "multilabel":
        return choices_of(data.annotations).shares()
    counts = data.annotations.counts.toarray()
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.maximum(totals, 1), 1 / data.n_classes)


class Average:
    uses = ("plain",)

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def predict(self, items, use):
        return np.full((items.n_items, self.n_classes), 1 / self.n_classes)


def sound(data, context, iterations=3):
    if data.items.features is None:
        raise DataError("expected features of the items, which this model learns from")
    predictor, step = Average(data.n_classes), 0
    while step < iterations:
        step += 1
        if not context.report(step, float(step), lambda: predictor):
            break
    chosen = data.scale == "multilabel"
    probs = (votes(data) + 1 / step) / (1 + (2 if chosen else data.n_classes) / step)
    matrices = np.tile(np.eye(2), (data.n_annotators, data.n_classes, 1, 1)) if chosen else (
        np.tile(np.eye(data.n_classes), (data.n_annotators, 1, 1))
    )
    return FitResult(
        item_probs=probs,
        annotators=ConfusionMatrices(matrices=matrices),
        label_probs=lambda item, annotator: probs[item],
        predictor=predictor,
        objective=np.arange(1.0, step + 1),
        iterations=step,
    )


def deaf(report):
    """Hears no stop."""
    return lambda *given: report(*given) or True


def tied(model, data, contexts):
    """Each ends where the first of them is stopped."""
    fitted = [sound(part, context, model.iterations) for part, context in zip(data, contexts)]
    fewest = min(one.iterations for one in fitted)
    return [sound(part, replace(context, report=lambda *_: True), fewest) for part, context in zip(data, contexts)]


CALLS = [0]


@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    """Hyper-parameters.

    Attributes:
        smoothing: of nothing.
        iterations: steps.
        extra: anything.
    """

    smoothing: Annotated[float, Ge(0)] = 0.0
    iterations: Annotated[int, Ge(1)] = 3
    extra: Any = None

    def fit(self, data, context):
        fitted = sound(data, context, self.iterations)
        n, k = fitted.item_probs.shape
        BREAK
        return fitted

    MORE


FACTS = {"name": NAME, "title": "t", "model": Probe, "source": "s", "cost": lambda shape, params: 1.0}
FACTS |= {"needs": frozenset({"features"}), "supports": frozenset({"votes", "multilabel", "soft_answers"})}
FACTS |= {"space": {"smoothing": {"values": [0, 1]}}, "deterministic": True, "monotone_objective": True}
FACTS |= {"steps": "iterations", "predicts_labels": True}
MODEL = ModelInfo(**(FACTS | {INFO}))
'''
ADD = (
    "fitted = replace(fitted, item_probs=(fitted.item_probs + 0.01 * {}) / (1 + 0.01 * {}.sum(axis=1, keepdims=True)))"
)
VARIES = '"varies": frozenset({"smoothing"})'

# What breaks one promise: lines of `fit`, facts of the ModelInfo, methods.
BROKEN: dict[str, tuple[str, str, str]] = {
    "describes_itself": ("", '"cost": lambda shape, params: float("nan")', ""),
    "declares_its_steps": ("", '"steps": None', ""),
    "declares_whether_it_predicts_labels": ("", '"predicts_labels": False', ""),
    "a_lost_fit_goes_on_as_it_was": ("", '"checkpoints": True', ""),
    "shapes_are_those_declared": ("fitted = replace(fitted, objective=np.zeros((3, 1)))", "", ""),
    "params_survive_json": ("", "", "def __eq__(self, other): return False"),
    "model_pickles": ("", "", "def __reduce__(self): raise TypeError('no')"),
    "space_fits_fields": ("", '"space": {"smooting": {"values": [0, 1]}}', ""),
    "result_is_valid": ("fitted = replace(fitted, item_probs=fitted.item_probs * 0.9)", "", ""),
    "fit_pickles": ("fitted.predictor.hook = lambda: None", "", ""),
    "inputs_stay_as_they_were": ("data.items.features.flags.writeable = True", "", ""),
    "refit_is_the_same": (
        "CALLS[0] += 1; draw = np.full((n, k), CALLS[0] % 2) * np.eye(k)[:1]; " + ADD.format("draw", "draw"),
        "",
        "",
    ),
    "batch_equals_alone": (
        "",
        "",
        "fit_batch = lambda self, data, contexts: [sound(part, contexts[0]) for part in [data[-1], *data[1:]]]",
    ),
    "seed_changes_nothing": ("draw = context.seeds.numpy('x').random((n, k)); " + ADD.format("draw", "draw"), "", ""),
    "item_codes_change_nothing": ("draw = np.zeros((n, k)); draw[0, 0] = 1.0; " + ADD.format("draw", "draw"), "", ""),
    "every_parameter_is_described": ("", "", "silent: int = 1"),
    "what_it_needs_it_misses": (
        "",
        "",
        "fit = lambda self, data, context: FitResult(item_probs=votes(data))",
    ),
    "annotator_codes_change_nothing": (
        "rows = data.annotations; draw = np.zeros((n, k)); draw[rows.item[rows.annotator == 0], 0] = 1.0; "
        + ADD.format("draw", "draw"),
        "",
        "",
    ),
    "class_codes_permute_the_result": ("draw = np.eye(k)[:1].repeat(n, 0); " + ADD.format("draw", "draw"), "", ""),
    "corners_are_survived": ("assert data.n_items > 1", "", ""),
    "no_corner_flips_a_unanimous_item": ("fitted = replace(fitted, item_probs=fitted.item_probs[:, ::-1])", "", ""),
    "gold_is_out_of_reach": (
        "draw = np.eye(k)[context.gold.label] if context.gold is not None else np.zeros((n, k)); "
        + ADD.format("draw", "draw"),
        "",
        "",
    ),
    "unseen_items_are_labelled": ("fitted = replace(fitted, predictor=None)", "", ""),
    "objective_never_falls": ("fitted = replace(fitted, objective=np.array([1.0, 2.0, 1.9]))", "", ""),
    "every_step_is_reported": (
        "",
        "",
        "fit = lambda self, data, context: sound(data, replace(context, report=lambda *_: True), self.iterations)",
    ),
    "a_stopped_fit_is_a_shorter_one": (
        "",
        "",
        "fit = lambda self, data, context: sound(data, replace(context, report=deaf(context.report)), self.iterations)",
    ),
    "a_stop_leaves_the_others_alone": (
        "",
        "",
        "fit_batch = lambda self, data, contexts: tied(self, data, contexts)",
    ),
    "many_votes_stay_finite": (
        "fitted = replace(fitted, objective=np.array([np.inf if data.n_annotators > 99 else 0.0]))",
        "",
        "",
    ),
    "anonymous_votes_are_taken": ("assert not data.annotations.anonymous", "", ""),
    "unknown_annotators_answer_as_the_crowd_does": (
        "fitted.annotators.matrices[data.annotations.labels_per_annotator == 0] = 1 / k",
        "",
        "",
    ),
    "multilabel_data_are_taken": ("assert data.scale == 'nominal'", "", ""),
    "certain_answers_equal_plain_ones": ("assert data.annotations.probability is None", "", ""),
    "odd_data_are_survived": ("assert data.n_items > 1", "", ""),
    "no_annotations_end_well": ("data.annotations.item[0]", "", ""),
    "sequences_are_taken": ("assert data.items.unit is None", "", ""),
    "the_order_of_units_changes_nothing": (
        "unit = data.items.unit; draw = np.zeros((n, k)); draw[unit == 0, 0] = 1.0; " + ADD.format("draw", "draw"),
        "",
        "",
    ),
    "choosing_everything_does_not_win": (
        "fitted = replace(fitted, label_probs=lambda item, annotator: np.ones((len(item), k)))",
        "",
        "",
    ),
    "stays_on_its_device": (
        "import torch; fitted = replace(fitted, item_probs=torch.as_tensor(fitted.item_probs).clone().numpy())",
        "",
        "",
    ),
    "one_class_is_a_binary_question": (
        "fitted = replace(fitted, item_probs=votes(replace(data, scale='nominal')) if k == 1 else fitted.item_probs)",
        "",
        "",
    ),
    "points_beside_each_other_equal_each_alone": (
        "",
        VARIES,
        "fit_points = staticmethod(lambda models, data, contexts: tied(models[0], data, contexts))",
    ),
}
# What a sound model needs besides, so that a check applies.
BESIDES = {
    "points_beside_each_other_equal_each_alone": (
        "",
        VARIES,
        "fit_points = staticmethod(lambda models, *rest: [model.fit(*one) for model, *one in zip(models, *rest)])",
    ),
}


def write(folder: Path, name: str, broken: tuple[str, str, str] = ("", "", "")) -> None:
    body, info, more = broken
    text = SOUND.replace("BREAK", body or "pass").replace("MORE", more).replace("NAME", repr(name))
    (folder / f"{name.replace('-', '_')}.py").write_text(text.replace("INFO", info))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_model_passes(folder: Path, check: str) -> None:
    name = f"sound-{check.replace('_', '-')}"
    write(folder, name, BESIDES.get(check, ("", "", "")))
    assert CHECKS[check].applies(registered.model_info(name))
    CHECKS[check](name)


@pytest.mark.parametrize("check", CHECKS)
def test_a_broken_model_is_caught(folder: Path, check: str) -> None:
    name = f"broken-{check.replace('_', '-')}"
    write(folder, name, BROKEN[check])
    with pytest.raises(Exception) as caught:
        CHECKS[check](name)
    assert not isinstance(caught.value, NameError | SyntaxError | ImportError), caught.value


def test_a_waived_check_is_a_strict_expected_failure(folder: Path) -> None:
    write(folder, "waiving", ("", '"waived": {"model_pickles": "it holds a lock"}', ""))
    marks = {case.id: case.marks for case in model_checks(["waiving"])}
    (mark,) = marks["waiving-model_pickles"]
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "it holds a lock", "strict": True})
    assert not marks["waiving-result_is_valid"]


def test_waiving_a_check_that_does_not_exist_is_caught(folder: Path) -> None:
    write(folder, "waiving-nothing", ("", '"waived": {"model_pickle": "a slip"}', ""))
    with pytest.raises(AssertionError, match="model_pickle"):
        CHECKS["describes_itself"]("waiving-nothing")


def test_a_file_that_cannot_be_imported_fails_alone(folder: Path) -> None:
    (folder / "unimportable.py").write_text("MODEL = 1 / 0\n")
    (case,) = model_checks(["unimportable"])
    assert case.id == "unimportable-can_be_imported"
    with pytest.raises(ZeroDivisionError):
        case.values[1]("unimportable")


def test_hyper_parameters_that_share_a_line_are_caught(folder: Path) -> None:
    text = SOUND.replace("BREAK", "pass").replace("MORE", "").replace("NAME", repr("sharing")).replace("INFO", "")
    (folder / "sharing.py").write_text(text.replace("extra: anything.", "extra: steps."))
    with pytest.raises(AssertionError, match=r"share a line.*: iterations, extra"):
        CHECKS["every_parameter_is_described"]("sharing")
