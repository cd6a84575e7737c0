"""Every study template that is found keeps the contract."""

from collections.abc import Callable

import pytest
from study_checks import CHECKS

from crowdsweep.studies.contract import StudyTemplate, find_template, template_names


def test_both_first_templates_are_found() -> None:
    assert {"sparsity", "redundancy"} <= set(template_names())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", template_names())
def test_template(name: str, check: Callable[[StudyTemplate], None]) -> None:
    template = find_template(name)
    assert template.name == name
    check(template)
