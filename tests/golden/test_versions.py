"""A model whose numbers change says so: its `version` is raised, so that no journal takes old trials for new ones.

`versions.json` has for each model the version and a few rounded numbers of one short fit. Where the numbers differ from
those of the same version, the test fails: raise `version` in the model's `MODEL`, then

    python tests/golden/test_versions.py

writes the file anew, which is reviewed like any other change.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.models import registered
from crowdsweep.testing.model_fits import standard_fit

FILE = Path(__file__).with_name("versions.json")
DIGITS = 4


def numbers_of(model: str) -> list[float]:
    """Returns rounded item probabilities of a short fit, and its last objective."""
    fitted = standard_fit(model)
    numbers = [*fitted.item_probs[:6].ravel().tolist(), *np.asarray(fitted.objective)[-1:].tolist()]
    return [round(number, DIGITS) + 0.0 for number in numbers]


def entry(model: str) -> dict[str, Any]:
    return {"version": registered.model_info(model).version, "numbers": numbers_of(model)}


def test_every_model_has_an_entry() -> None:
    assert sorted(json.loads(FILE.read_text())) == registered.model_names()


@pytest.mark.parametrize("model", registered.model_names())
def test_numbers_change_with_the_version_only(model: str) -> None:
    known = json.loads(FILE.read_text())[model]
    version = registered.model_info(model).version
    assert version == known["version"], f"run {Path(__file__).name} as a program: version {version} is not written down"
    # One more than the last digit: a machine may round otherwise.
    assert numbers_of(model) == pytest.approx(known["numbers"], abs=2 * 10.0**-DIGITS), "raise the model's `version`"


if __name__ == "__main__":
    rows = (f" {json.dumps(model)}: {json.dumps(entry(model))}" for model in registered.model_names())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
