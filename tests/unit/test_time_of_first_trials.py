"""No trial is said to cost what its process imports once: models would look dearer for being listed first."""

import subprocess
import sys

import pytest

CODE = """
import sys
from crowdsweep.data import catalogue
from crowdsweep.models import registered
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.runner import look_up_models, run_batch

data = catalogue.load("gaussians", {"annotators": 5})
model = sys.argv[1]
info = registered.model_info(model)
spec = TrialSpec(
    model=model, params={}, model_version=info.version, dataset="d", fingerprint=data.fingerprint, seed=0
)
look_up_models([spec])
before = set(sys.modules)
(result,) = run_batch([spec], data, "cpu", lambda event: True)
assert result.status == "ok", result
print(sum(name.split(".")[0] in ("scipy", "torch", "sklearn") for name in set(sys.modules) - before))
"""


@pytest.mark.parametrize("model", ["majority-vote", pytest.param("soft-mv", marks=pytest.mark.long)])
def test_libraries_are_imported_before_a_first_trial_is_timed(model: str) -> None:
    ran = subprocess.run([sys.executable, "-c", CODE, model], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    # torch brings some parts of its own when they are first used.
    assert int(ran.stdout) < (40 if model == "soft-mv" else 1)
