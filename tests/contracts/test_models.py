"""Every registered model keeps every promise of the contract, or waives it with a reason."""

from typing import TYPE_CHECKING

import pytest

from crowdsweep.testing.model_checks import Check, model_checks

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def of_a_model(case: "ParameterSet") -> "ParameterSet":
    """Has the checks of a model run on one worker: some of them share a fit."""
    group = pytest.mark.xdist_group(f"contract of {case.values[0]}")
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, group])


@pytest.mark.parametrize(("name", "check"), [of_a_model(case) for case in model_checks()])
def test_model(name: str, check: Check) -> None:
    check(name)
