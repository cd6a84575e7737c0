"""One batch in this process: failures stay with the guilty, metrics appear where they apply, interrupts pass."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of, choices_of
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.metrics.annotators import js_matrices
from crowdsweep.models import registered
from crowdsweep.seeds import SeedStream
from crowdsweep.trial import runner
from crowdsweep.trial.events import TrialProgressed
from crowdsweep.trial.result import Status, TrialResult
from crowdsweep.trial.runner import run_batch, thinned
from crowdsweep.trial.spec import TrialSpec, canonical_json

# Models as a person would add them, one file each, found through CROWDSWEEP_PLUGINS.
HEAD = """
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import ConfusionMatrices, FitResult, ModelInfo

CALLS = []
"""
FOOT = """
MODEL = ModelInfo(name={name!r}, title="t", model=Probe, source="s", cost=lambda shape, params: 1.0, {info})
"""
VOTES = """
def votes(data, context):
    return FitResult(item_probs=data.annotations.label_distribution(), objective=np.arange(3.0), iterations=3)
"""
# In a batch one poisoned replica takes the others with it, as an exception in stacked arithmetic does.
POISONED = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    poison: tuple[int, ...] = ()

    def fit_batch(self, data, contexts):
        CALLS.append([context.seeds.seed for context in contexts])
        for context in contexts:
            if context.seeds.seed in self.poison:
                raise ZeroDivisionError(f"seed {context.seeds.seed} is poisoned")
        return [votes(part, context) for part, context in zip(data, contexts)]
"""
)
DIVERGING = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    where: str = "objective"

    def fit_batch(self, data, contexts):
        CALLS.append(len(data))
        results = [votes(part, context) for part, context in zip(data, contexts)]
        bad = [i for i, context in enumerate(contexts) if context.seeds.seed == 1]
        for i in bad:
            if self.where == "objective":
                results[i] = replace(results[i], objective=np.array([0.0, np.nan]))
            if self.where == "probs":
                results[i] = replace(results[i], item_probs=np.full_like(results[i].item_probs, np.nan))
            if self.where == "confusion":
                matrices = np.full((data[i].n_annotators, data[i].n_classes, data[i].n_classes), np.nan)
                results[i] = replace(results[i], annotators=ConfusionMatrices(matrices=matrices))
            if self.where == "label_probs":
                results[i] = replace(results[i], label_probs=lambda item, annotator: np.full((len(item), 2), np.nan))
            if self.where == "raising":
                results[i] = replace(results[i], label_probs=lambda item, annotator: 1 / 0)
            if self.where == "predictor":
                results[i] = replace(results[i], predictor=Broken())
        return results

class Broken:
    uses = ("plain",)
    def predict(self, items, use):
        return np.zeros((1, 1))
"""
)
COUNTING = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        CALLS.append(context.seeds.seed)
        context.report(1, 0.5)
        return votes(data, context)
"""
)
PREDICTING = """
class Uniform:
    uses = ("soft", "snap")
    def predict(self, items, use):
        probs = np.zeros((items.n_items, 2))
        probs[:, 0 if use == "soft" else 1] = 1.0
        return probs

@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        CALLS.append(context.gold)
        matrices = np.tile(np.eye(data.n_classes), (data.n_annotators, 1, 1))
        return FitResult(
            item_probs=data.annotations.label_distribution(),
            annotators=ConfusionMatrices(matrices=matrices),
            label_probs=lambda item, annotator: np.full((len(item), data.n_classes), 1 / data.n_classes),
            predictor=Uniform(),
        )
"""


@pytest.fixture
def add_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Adds a model in one file and returns the list in which it notes its calls."""
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))

    def add(name: str, body: str, info: str = "") -> list[Any]:
        path = tmp_path / f"{name.replace('-', '_')}.py"
        path.write_text(HEAD + body + FOOT.format(name=name, info=info))
        return __import__("sys").modules[registered.model_info(name).model.__module__].CALLS

    return add


def dataset(*, gold: bool = True, features: bool = True, anonymous: bool = False) -> CrowdDataset:
    """Twelve items of two classes, six to train, three for dev, three for test; three annotators, one of them idle."""
    label = np.arange(12) % 2
    answers = Annotations.of(
        item=np.repeat(np.arange(12), 2),
        annotator=np.tile([0, 1], 12),
        label=np.where(np.tile([True, False], 12), np.repeat(label, 2), 0),  # annotator 1 always says 0
        n_items=12,
        n_annotators=3,
        n_classes=2,
    )
    known = np.arange(12 if gold else 0)
    return CrowdDataset(
        name="probe",
        annotations=answers.anonymised() if anonymous else answers,
        items=Items(n_items=12, features=np.zeros((12, 2), np.float32) if features else None),
        split=np.repeat([SPLITS.index(name) for name in ("train", "dev", "test")], [6, 3, 3]).astype(np.int8),
        gold=Gold(item=known.astype(np.int32), label=label[known].astype(np.int32)),
        item_names=NumberedNames("i", 12),
        annotator_names=NumberedNames("a", 3),
        class_names=("no", "yes"),
    )


def specs_of(model: str, base: CrowdDataset, seeds: range = range(8), **fields: Any) -> list[TrialSpec]:
    params = registered.full_params(model, fields.pop("params", {}))
    plain = {"model": model, "params": params, "model_version": 1, "dataset": base.name}
    return [TrialSpec(**plain, fingerprint=base.fingerprint, seed=seed, **fields) for seed in seeds]


def silent(event: TrialProgressed) -> bool:
    """Takes a report and lets the trial go on."""
    return True


def comparable(result: TrialResult) -> TrialResult:
    return replace(result, wall_s=0.0, batch_wall_s=0.0, batch_size=1, peak_bytes=0)


def test_the_guilty_fail_alone_and_the_others_get_what_they_would_have_had(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-poisoned", POISONED)
    base = dataset()
    specs = specs_of("probe-poisoned", base, params={"poison": [2, 5]})
    results = run_batch(specs, base, "cpu", silent)
    assert [result.key for result in results] == [spec.key for spec in specs]
    assert [result.status for result in results] == ["failed" if seed in (2, 5) else "ok" for seed in range(8)]
    failure = results[2].failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("ZeroDivisionError", "seed 2 is poisoned")
    assert "fit_batch" in failure.traceback
    assert calls[0] == list(range(8))
    assert [2] in calls
    alone = [run_batch([spec], base, "cpu", silent)[0] for spec in specs if spec.seed not in (2, 5)]
    together = [result for result in results if result.status is Status.OK]
    assert [comparable(result) for result in together] == [comparable(result) for result in alone]


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("objective", "NonFiniteObjective"),
        ("probs", "FitFailed"),
        ("confusion", "FitFailed"),
        ("label_probs", "NonFiniteMetric"),
        ("raising", "ZeroDivisionError"),
        ("predictor", "FitFailed"),
    ],
)
def test_a_replica_that_goes_bad_fails_alone_without_a_second_fit(
    add_model: Callable[..., list[Any]], where: str, kind: str
) -> None:
    calls = add_model(f"probe-diverging-{where.replace('_', '-')}", DIVERGING)
    base = dataset()
    specs = specs_of(f"probe-diverging-{where.replace('_', '-')}", base, params={"where": where}, heldout_fraction=0.2)
    results = run_batch(specs, base, "cpu", silent)
    assert [result.status for result in results] == ["ok", "failed", *["ok"] * 6]
    assert results[1].failure is not None
    assert results[1].failure.kind == kind
    assert results[1].metrics == {}
    assert calls == [8]


def test_a_deterministic_model_is_fitted_once_where_the_seed_changes_nothing(
    add_model: Callable[..., list[Any]],
) -> None:
    calls = add_model("probe-once", COUNTING, "deterministic=True")
    base = dataset()
    reports: list[TrialProgressed] = []
    specs = specs_of("probe-once", base)
    results = run_batch(specs, base, "cpu", lambda event: reports.append(event) is None)
    assert calls == [0]
    assert len({result.key for result in results}) == 8
    assert len({canonical_json(dict(result.metrics)) for result in results}) == 1
    assert reports == [TrialProgressed(key=spec.key, step=1, objective=0.5) for spec in specs]
    calls.clear()
    run_batch(specs_of("probe-once", base, heldout_fraction=0.2), base, "cpu", silent)
    assert calls == list(range(8))
    calls.clear()
    run_batch(specs_of("probe-once", base, dataset_params={"redundancy": 1}), base, "cpu", silent)
    assert calls == list(range(8))


def test_metrics_by_hand(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-predicting", PREDICTING)
    base = dataset()
    (result,) = run_batch(specs_of("probe-predicting", base, range(1), heldout_fraction=0.2), base, "cpu", silent)
    assert result.failure is None
    metrics = result.metrics
    # Dev items are 6, 7, 8 with gold 0, 1, 0; test items 9, 10, 11 with gold 1, 0, 1.
    assert metrics["dev_accuracy"] == pytest.approx(2 / 3)
    assert metrics["test_accuracy"] == pytest.approx(1 / 3)
    assert metrics["dev_accuracy.snap"] == pytest.approx(1 / 3)
    assert metrics["test_accuracy.snap"] == pytest.approx(2 / 3)
    assert metrics["heldout_loglik"] == pytest.approx(np.log(0.5))
    assert metrics["n_active_annotators"] == 2
    assert calls == [None]
    (whole,) = run_batch(specs_of("probe-predicting", base, range(1)), base, "cpu", silent)
    # Annotator 0 is always right; annotator 1 always says 0. Items of class 1 are tied, one half of three of six.
    assert whole.metrics["train_accuracy"] == pytest.approx(0.75)
    always_zero = 0.5 * (0.0 + 1.0)  # the row of class 0 agrees with the identity, that of class 1 is its opposite
    assert whole.metrics["js_annotators"] == pytest.approx(0.5 * always_zero, abs=1e-4)
    assert "heldout_loglik" not in whole.metrics
    assert whole.confusion == [[1.0, 0.0], [0.0, 1.0]]


def test_metrics_that_do_not_apply_are_absent(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-plain", COUNTING)
    base = dataset(gold=False)
    (result,) = run_batch(specs_of("probe-plain", base, range(1)), base, "cpu", silent)
    assert set(result.metrics) == {
        "n_annotations",
        "n_active_annotators",
        *(f"train_{name}" for name in runner_metrics()),
    }
    assert result.metrics["train_kl"] == pytest.approx(0.0, abs=1e-9)  # the reference is the votes themselves
    assert result.confusion is None


def test_anonymous_annotators_have_no_matrices_of_their_own(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-anonymous", PREDICTING)
    base = dataset(anonymous=True)
    (result,) = run_batch(specs_of("probe-anonymous", base, range(1)), base, "cpu", silent)
    assert "js_annotators" not in result.metrics
    assert "js_global" in result.metrics


def runner_metrics() -> list[str]:
    return ["accuracy", "macro_f1", "log_loss", "brier", "ece", "kl", "kl_reverse", "js", "entropy"]


def test_where_some_items_have_gold_only_those_are_scored(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-partly", COUNTING)
    base = dataset()
    two = Gold(item=base.gold.item[:2], label=base.gold.label[:2])  # item 0 is right, item 1 is tied
    base = replace(base, gold=two)
    (result,) = run_batch(specs_of("probe-partly", base, range(1)), base, "cpu", silent)
    assert result.metrics["train_accuracy"] == pytest.approx(0.75)
    assert result.metrics["train_log_loss"] == pytest.approx(0.5 * np.log(2))


@pytest.mark.parametrize(
    ("need", "lacking", "says"),
    [
        ("features", {"features": False}, "needs features of the training items"),
        ("text", {}, "needs text of the training items"),
        ("annotators", {"anonymous": True}, "needs known annotators"),
        ("gold", {"gold": False}, "needs gold of the training items"),
    ],
)
def test_data_without_what_the_model_needs_fail_the_trial(
    add_model: Callable[..., list[Any]], need: str, lacking: dict[str, bool], says: str
) -> None:
    add_model(f"probe-needs-{need}", COUNTING, f"needs=frozenset({{{need!r}}})")
    base = dataset(**lacking)
    (result,) = run_batch(specs_of(f"probe-needs-{need}", base, range(1)), base, "cpu", silent)
    assert result.failure is not None
    assert result.failure.kind == "DataError"
    assert says in result.failure.message
    assert "probe" in result.failure.message


def test_gold_is_handed_only_to_who_declares_the_need(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-gold", PREDICTING, "needs=frozenset({'gold'})")
    base = dataset()
    run_batch(specs_of("probe-gold", base, range(1)), base, "cpu", silent)
    assert [len(gold) for gold in calls] == [6]  # of the training items only


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through(add_model: Callable[..., list[Any]], stop: type[BaseException]) -> None:
    add_model(f"probe-interrupted-{stop.__name__.lower()}", COUNTING)
    base = dataset()

    def interrupt(event: TrialProgressed) -> bool:
        raise stop

    with pytest.raises(stop):
        run_batch(specs_of(f"probe-interrupted-{stop.__name__.lower()}", base), base, "cpu", interrupt)


def test_our_own_bugs_still_raise(add_model: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    add_model("probe-bug", COUNTING)
    base = dataset()
    monkeypatch.setattr(runner, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_batch(specs_of("probe-bug", base), base, "cpu", silent)


def test_a_model_that_this_machine_lacks_fails_its_trials(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-here", COUNTING)
    base = dataset()
    absent = [replace(spec, model="probe-elsewhere") for spec in specs_of("probe-here", base, range(2))]
    results = run_batch([*absent, *specs_of("probe-here", base, range(1))], base, "cpu", silent)
    assert [result.status for result in results] == ["failed", "failed", "ok"]
    assert results[0].failure is not None
    assert "did you mean 'probe-here'" in results[0].failure.message


def test_cost_is_shared_out(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-cost", COUNTING)
    base = dataset()
    results = run_batch(specs_of("probe-cost", base), base, "cpu", silent)
    batch_wall_s = results[0].batch_wall_s
    assert all(result.batch_wall_s == batch_wall_s for result in results)
    assert all(result.batch_size == 8 for result in results)
    assert 0 < sum(result.wall_s for result in results) <= batch_wall_s
    assert all(2**24 < result.peak_bytes < 2**36 for result in results)
    assert all(result.device == "cpu" and result.host for result in results)


def test_batches_mix_points_and_keep_their_order(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-mixed", POISONED)
    base = dataset()
    first = specs_of("probe-mixed", base, range(3))
    second = specs_of("probe-mixed", base, range(3), params={"poison": [7]})
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2]]
    results = run_batch(mixed, base, "cpu", silent)
    assert [result.key for result in results] == [spec.key for spec in mixed]
    assert calls == [[0, 1, 2], [0, 1, 2]]


def test_long_objectives_are_thinned_with_both_ends_kept() -> None:
    values = np.arange(12_345.0)
    kept = thinned(values)
    assert len(kept) == 500
    assert (kept[0], kept[-1]) == (0.0, 12_344.0)
    assert kept == sorted(set(kept))
    assert thinned(np.arange(500.0)) == list(range(500))
    assert thinned(np.empty(0)) == []


def test_seeds_of_a_fit_are_those_of_the_trial(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-seeds", COUNTING)
    base = dataset()
    run_batch(specs_of("probe-seeds", base, range(3, 5)), base, "cpu", silent)
    assert calls == [3, 4]
    assert SeedStream(3).child("fit").integer("x") != SeedStream(3).child("crowd").integer("x")


def test_multilabel_data_score_every_choice(add_model: Callable[..., list[Any]]) -> None:
    """Two items, three classes; each annotator chose one class or two."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        return FitResult(item_probs=np.array([[0.9, 0.5, 0.2], [0.4, 0.8, 0.1]]))
"""
    add_model("probe-multilabel", body, "supports=frozenset({'multilabel'})")
    rows = np.array([(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 2), (1, 1, 1)])
    base = CrowdDataset(
        name="choices",
        scale="multilabel",
        annotations=Annotations.of(
            item=rows[:, 0], annotator=rows[:, 1], label=rows[:, 2], n_items=2, n_annotators=2, n_classes=3
        ),
        items=Items(n_items=2),
        split=np.zeros(2, np.int8),
        gold=Gold(item=np.array([0, 0, 1], np.int32), label=np.array([0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 2),
        annotator_names=NumberedNames("a", 2),
        class_names=("a", "b", "c"),
    )
    (result,) = run_batch(specs_of("probe-multilabel", base, range(1)), base, "cpu", silent)
    assert result.failure is None
    # Gold chooses (1, 1, 0) and (0, 1, 0): five of six choices are right, and one is a coin's toss.
    assert result.metrics["train_accuracy"] == pytest.approx(5.5 / 6)
    # Class a: perfect. Class b: 1.5 of 2 found, none wrong. Class c: never chosen, left out.
    assert result.metrics["train_macro_f1"] == pytest.approx((1.0 + 2 * 1.5 / 3.5) / 2)
    chosen = [0.9, 0.5, 0.8, 0.6, 0.8, 0.9]  # the probability given to what gold says of each choice
    assert result.metrics["train_log_loss"] == pytest.approx(-np.mean(np.log(chosen)))
    unsure = -sum(p * np.log(p) + (1 - p) * np.log(1 - p) for p in (0.9, 0.5, 0.2, 0.4, 0.8, 0.1)) / 6
    assert result.metrics["train_entropy"] == pytest.approx(unsure)
    assert "train_span_f1" not in result.metrics
    add_model("probe-nominal", COUNTING)
    (refused,) = run_batch(specs_of("probe-nominal", base, range(1)), base, "cpu", silent)
    assert refused.failure is not None
    assert refused.failure.message == "model 'probe-nominal' cannot take multi-label data, which dataset 'choices' has"


def test_multilabel_annotators_and_held_out_answers_are_scored_class_by_class(
    add_model: Callable[..., list[Any]],
) -> None:
    """Gold chooses class 0 of items 0 and 1, class 1 of items 2 and 3. Annotator 0 chooses as gold does, annotator 1
    always chooses both classes, annotator 2 none; the model thinks that everybody tosses a coin."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        coin = np.full((data.n_annotators, data.n_classes, 2, 2), 0.5)
        CALLS.append(data.annotations)
        return FitResult(
            item_probs=np.full((data.n_items, 2), 0.5),
            annotators=ConfusionMatrices(matrices=coin),
            label_probs=lambda item, annotator: np.tile([0.8, 0.3], (len(item), 1)),
        )
"""
    calls = add_model("probe-choosers", body, "supports=frozenset({'multilabel'})")
    gold = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    chosen = np.concatenate([gold, np.ones_like(gold), np.zeros_like(gold)])
    base = CrowdDataset(
        name="choosers",
        scale="multilabel",
        annotations=annotations_of(
            chosen, item=np.tile(np.arange(4), 3), annotator=np.repeat(np.arange(3), 4), n_items=4, n_annotators=3
        ),
        items=Items(n_items=4),
        split=np.zeros(4, np.int8),
        gold=Gold(item=np.arange(4, dtype=np.int32), label=np.array([0, 0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 4),
        annotator_names=NumberedNames("a", 3),
        class_names=("a", "b"),
    )
    specs = specs_of("probe-choosers", base, range(1), heldout_fraction=0.25)
    (result,) = run_batch(specs, base, "cpu", silent)
    assert result.failure is None
    kept = choices_of(calls[0])
    gone = {(i, t) for i in range(4) for t in range(3)} - set(
        map(tuple, np.stack([kept.item, kept.annotator], axis=1).tolist())
    )
    assert len(gone) == 3
    says = [[np.log(0.8 if c[0] else 0.2), np.log(0.3 if c[1] else 0.7)] for c in (chosen[4 * t + i] for i, t in gone)]
    assert result.metrics["heldout_loglik"] == pytest.approx(np.sum(says) / 3)
    (whole,) = run_batch(specs_of("probe-choosers", base, range(1)), base, "cpu", silent)
    # Every row of every annotator is certain, and as far from a coin as such rows are.
    from_coin = js_matrices(np.eye(2)[None], np.full((1, 2, 2), 0.5))[0]
    assert whole.metrics["js_annotators"] == pytest.approx(from_coin)
    # The crowd: of items with a class 2 of 3 choose it, of items without it 1 of 3.
    crowd = np.array([[[2 / 3, 1 / 3], [1 / 3, 2 / 3]]])
    assert whole.metrics["js_global"] == pytest.approx(js_matrices(crowd, np.full((1, 2, 2), 0.5))[0])
    assert whole.confusion is None


def test_spans_are_scored_where_items_are_tokens_and_classes_tags(add_model: Callable[..., list[Any]]) -> None:
    """Two sentences of gold B I O and O B; the last token of a third has no gold, so that it is left out."""
    body = """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    def fit(self, data, context):
        tag = [1, 2, 0, 1, 1, 1, 1]
        return FitResult(item_probs=np.eye(3)[tag])
"""
    add_model("probe-tags", body)
    unit = np.array([0, 0, 0, 1, 1, 2, 2], dtype=np.int32)
    base = CrowdDataset(
        name="tags",
        annotations=Annotations.of(
            item=np.arange(7),
            annotator=np.zeros(7, int),
            label=np.zeros(7, int),
            n_items=7,
            n_annotators=1,
            n_classes=3,
        ),
        items=Items(n_items=7, unit=unit),
        split=np.zeros(7, np.int8),
        gold=Gold(item=np.arange(6, dtype=np.int32), label=np.array([1, 2, 0, 0, 1, 1], np.int32)),
        item_names=NumberedNames("i", 7),
        annotator_names=NumberedNames("a", 1),
        class_names=("O", "B-x", "I-x"),
    )
    (result,) = run_batch(specs_of("probe-tags", base, range(1)), base, "cpu", silent)
    assert result.failure is None
    # Found: (0, 1) and (4, 4); wrong: (3, 3). Precision 2/3, recall 1.
    assert result.metrics["train_span_f1"] == pytest.approx(0.8)
    assert result.metrics["train_accuracy"] == pytest.approx(5 / 6)
    flat = replace(base, items=Items(n_items=7))
    (without,) = run_batch(specs_of("probe-tags", flat, range(1)), flat, "cpu", silent)
    assert "train_span_f1" not in without.metrics
    words = replace(base, class_names=("O", "B", "I"))
    (others,) = run_batch(specs_of("probe-tags", words, range(1)), words, "cpu", silent)
    assert "train_span_f1" not in others.metrics
