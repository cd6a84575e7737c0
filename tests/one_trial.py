"""One trial of a dataset folder, run here."""

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import Scalar
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import Phase, TrialSpec
from crowdsweep.trial.runner import run_batch


def run_one(folder: str, model: str = "majority-vote", phase: Phase = "report", **params: Scalar) -> TrialResult:
    base = catalogue.load(folder, {})
    spec = TrialSpec(
        model=model,
        params={},
        model_version=1,
        dataset=folder,
        dataset_params=params,
        fingerprint=base.fingerprint,
        seed=0,
        phase=phase,
    )
    (result,) = run_batch([spec], base, "cpu", lambda _: True)
    assert result.failure is None, result.failure
    return result
