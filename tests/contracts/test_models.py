"""Every registered model keeps every promise of the contract, or waives it with a reason."""

import pytest

from crowdsweep.testing.model_checks import Check, model_checks


@pytest.mark.parametrize(("name", "check"), model_checks())
def test_model(name: str, check: Check) -> None:
    check(name)
