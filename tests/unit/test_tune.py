"""What Ray Tune is given: domains that are the model's space, and one curve of several seeds."""

from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search import sample
from ray.tune.search.optuna import OptunaSearch
from scipy.stats import kstest, norm, truncnorm

from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.models import registered
from crowdsweep.search.dimensions import NORMAL_TAIL
from crowdsweep.search.space import Space
from crowdsweep.tune import param_space, trainable
from crowdsweep.tune.ray_trainable import Job
from crowdsweep.tune.rounds import Round, Rounds


@pytest.mark.parametrize("model", ["dawid-skene", "soft-mv", "cmm", "crowd-layer", "ldl-nm"])
def test_what_tune_draws_is_a_point_of_the_models_space(model: str) -> None:
    space = Space.parse(registered.model_info(model).space)
    domains = param_space(model)
    assert set(domains) == set(space.dimensions)
    job = Job(model=model, dataset="digits", metric="dev_accuracy", seeds=1, every=1, device="cpu")
    for _ in range(20):
        drawn = {name: domain.sample() for name, domain in domains.items()}
        point = job.point_of(drawn)
        assert registered.full_params(model, point)
        assert set(point) == {name for name in drawn if space.is_active(name, drawn)}


def test_domains_have_the_ends_and_scales_of_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: dict[str, Any] = {
        "a": {"values": [[8], [16, 8]]},
        "b": {"distribution": "int_uniform", "min": 1, "max": 3},
        "c": {"min": 0.5, "max": 2.0},
        "d": {"distribution": "log_uniform_values", "min": 1e-3, "max": 1.0},
        "e": {"distribution": "q_uniform", "min": 0.1, "max": 0.5, "q": 0.2},
        "f": {"distribution": "normal", "mu": 1.0, "sigma": 2.0},
        "g": {"distribution": "q_log_uniform_values", "min": 1, "max": 1000, "q": 1},
    }
    info = registered.model_info("soft-mv")
    fake: Any = type("Info", (), {"space": shapes, "model": info.model})

    def made_up(name: str) -> Any:
        return fake

    monkeypatch.setattr(registered, "model_info", made_up)
    domains = param_space("soft-mv")
    assert domains["a"].categories == [[8], [16, 8]]
    assert (domains["b"].lower, domains["b"].upper) == (1, 4)  # Tune's upper end is not drawn
    assert (domains["c"].lower, domains["c"].upper) == (0.5, 2.0)
    assert isinstance(domains["d"].get_sampler(), sample.LogUniform)
    assert domains["e"].categories == [0.1, 0.3, 0.5]
    drawn = {name: domains[name].sample(size=4000, random_state=np.random.default_rng(0)) for name in ("f", "g")}
    space = Space.parse(shapes)
    assert all(space.dimensions[name].holds(value) for name, values in drawn.items() for value in values)
    inside = truncnorm(norm.ppf(NORMAL_TAIL), norm.ppf(1 - NORMAL_TAIL), loc=1.0, scale=2.0)
    assert kstest(drawn["f"], inside.cdf).pvalue > 0.01
    decades = np.histogram(drawn["g"], [1, 9.5, 99.5, 1001])[0]  # a tenth, half and nine tenths, had each step its turn
    assert decades / 4000 == pytest.approx(np.diff(np.log10([1, 9.5, 99.5, 1000])) / 3, abs=0.03)
    assert domains["g"].sample(random_state=1) == domains["g"].sample(random_state=1)
    with pytest.raises(ValueError, match="not support"):
        OptunaSearch.convert_search_space({"f": domains["f"]})


def test_what_is_fixed_is_not_searched() -> None:
    assert "learning_rate" in param_space("soft-mv")
    assert "learning_rate" not in param_space("soft-mv", learning_rate=0.1)
    with pytest.raises(UnknownName):
        param_space("soft-mv", learning_rat=0.1)
    with pytest.raises(UnknownName):
        param_space("soft-nv")
    with pytest.raises(BadInput, match="expected a model with something to search, got 'uniform'"):
        param_space("uniform")


def test_what_cannot_be_fitted_is_refused_before_tune_begins() -> None:
    wrong: dict[str, Any]
    for wrong in (
        {"model": "soft-nv", "data": "digits"},
        {"model": "soft-mv", "data": "digit"},
        {"model": "soft-mv", "data": "digits", "metric": "dev_acuracy"},
        {"model": "soft-mv", "data": "digits", "params": {"epochs": 0}},
    ):
        with pytest.raises(BadInput):
            trainable(**wrong)


def test_its_trials_are_on_the_seeds_of_searches() -> None:
    base = catalogue.load("digits", {"annotators": 20})
    job = Job(
        model="soft-mv",
        fixed={"epochs": 3},
        dataset="digits",
        dataset_params={"annotators": 20},
        metric="dev_accuracy",
        seeds=2,
        every=1,
        device="cpu",
    )
    specs = job.specs({"learning_rate": 0.01}, base)
    assert [spec.seed for spec in specs] == [1_000_000, 1_000_001]
    assert {(spec.params["epochs"], spec.params["learning_rate"]) for spec in specs} == {(3, 0.01)}
    assert {spec.phase for spec in specs} == {"search"}
    with pytest.raises(BadInput, match="learning_rate"):
        job.specs({"learning_rate": -1.0}, base)


def told(reports: list[tuple[str, int, float]], keys: str = "ab") -> list[tuple[int, float]]:
    rounds = Rounds(list(keys))
    found = [one for key, step, score in reports for one in rounds.take(key, step, score)]
    return [(one.step, one.mean) for one in [*found, *rounds.rest()]]


def test_seeds_side_by_side_are_one_curve() -> None:
    rounds = Rounds(["a", "b"])
    assert rounds.take("a", 10, 0.2) == []
    assert rounds.take("b", 10, 0.4) == [Round(step=10, mean=fmean([0.2, 0.4]), deviation=pstdev([0.2, 0.4]))]
    assert rounds.take("a", 20, 0.4) == []
    assert [one.step for one in rounds.take("b", 20, 0.4)] == [20]
    assert rounds.rest() == []


def test_a_seed_that_ended_counts_with_its_last_score() -> None:
    reports = [("a", 10, 0.2), ("b", 10, 0.4), ("a", 20, 0.6), ("a", 30, 0.8)]
    assert told(reports) == [(10, pytest.approx(0.3)), (20, pytest.approx(0.5)), (30, pytest.approx(0.6))]


def test_seeds_one_after_another_are_one_curve() -> None:
    """Nothing is told while only some have begun; then the last one's steps are."""
    reports = [("a", 10, 0.2), ("a", 20, 0.4), ("a", 30, 0.6), ("b", 10, 0.4), ("b", 20, 0.8)]
    assert told(reports[:3], "ab")[0][0] == 10  # at the end
    rounds = Rounds(["a", "b"])
    assert [rounds.take(*report) for report in reports[:3]] == [[], [], []]
    assert [[one.step for one in rounds.take(*report)] for report in reports[3:]] == [[10], [20]]
    assert [one.step for one in rounds.rest()] == [30]
    assert told(reports) == [(10, pytest.approx(0.3)), (20, pytest.approx(0.6)), (30, pytest.approx(0.7))]


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("kind", ["asha", "pbt"])
def test_a_tuner_trains_models_under_its_schedulers(ray_cluster: object, tmp_path: Any, kind: str) -> None:
    from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
    from ray.tune.search.basic_variant import BasicVariantGenerator

    fixed = {"epochs": 12, "hidden": [8], "steps": 0, "patience": None}
    space = {"learning_rate": param_space("soft-mv", **fixed)["learning_rate"]}
    asha = ASHAScheduler(time_attr="step", max_t=12, grace_period=3, reduction_factor=2)
    pbt = PopulationBasedTraining(time_attr="step", perturbation_interval=3, hyperparam_mutations=space)
    job = trainable("soft-mv", "digits", seeds=2, params=fixed, annotators=20)
    tuner = tune.Tuner(
        job,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="dev_accuracy",
            mode="max",
            num_samples=4,
            scheduler=asha if kind == "asha" else pbt,
            # ASHA stops nobody where each that comes is better than those before: a good one comes first here.
            search_alg=BasicVariantGenerator(
                points_to_evaluate=[{"learning_rate": rate} for rate in (0.01, 0.0001)] if kind == "asha" else None,
                max_concurrent=1 if kind == "asha" else 0,
            ),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    frames = [result.metrics_dataframe for result in results]
    assert len(frames) == 4
    for frame in frames:
        assert frame is not None
        goes_back = frame["step"][frame["step"].diff() < 0]
        # Only where a trial takes over another's checkpoint, which was written after a multiple of three steps.
        assert goes_back.empty if kind == "asha" else ((goes_back - 1) % 3 == 0).all()
        assert {"dev_accuracy", "dev_accuracy_sd"} <= set(frame.columns)
    ends = [int(frame["step"].iloc[-1]) for frame in frames if frame is not None]
    assert max(ends) == 12
    assert (min(ends) < 12) == (kind == "asha")
    best = results.get_best_result()
    assert best.checkpoint is not None
    assert best.config is not None
    if kind == "pbt":  # whatever place it took over, its scores are those of a whole fit with what it has now
        base = catalogue.load("digits", {"annotators": 20})
        assert best.metrics is not None
        assert whole_fit(base, fixed, best.config) == pytest.approx(best.metrics["dev_accuracy"], rel=1e-6)


def whole_fit(base: Any, fixed: dict[str, Any], config: dict[str, Any]) -> float:
    from crowdsweep.trial.runner import run_batch

    job = Job(
        model="soft-mv",
        fixed=fixed,
        dataset="digits",
        dataset_params={"annotators": 20},
        metric="dev_accuracy",
        seeds=2,
        every=1,
        device="cpu",
    )
    results = run_batch(job.specs(config, base), base, "cpu", lambda _: True)
    return sum(result.metrics["dev_accuracy"] for result in results) / len(results)
