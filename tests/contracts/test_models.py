"""Every registered model keeps every promise of the contract, or waives it with a reason."""

from typing import TYPE_CHECKING

import pytest

from crowdsweep.testing.model_checks import Check, model_checks

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


# Fits of seconds, in corners that those of lia meet as well.
SLOW_IN_CORNERS = {
    f"{model}-{check}"
    for model in ("lia-e", "lia-ml")
    for check in ("corners_are_survived", "no_corner_flips_a_unanimous_item")
}


def of_a_model(case: "ParameterSet") -> "ParameterSet":
    """Has the checks of a model run on one worker: some of them share a fit."""
    group = pytest.mark.xdist_group(f"contract of {case.values[0]}")
    long = [pytest.mark.long] if case.id in SLOW_IN_CORNERS else []
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, group, *long])


@pytest.mark.parametrize(("name", "check"), [of_a_model(case) for case in model_checks()])
def test_model(name: str, check: Check) -> None:
    check(name)
