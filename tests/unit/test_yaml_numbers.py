"""Numbers that YAML counts otherwise than a person does are refused where they stand."""

import pytest

from crowdsweep.errors import SweepFileError
from crowdsweep.files.located import parse_yaml
from crowdsweep.sweepfile.overrides import with_overrides


@pytest.mark.parametrize("text", ["1:30", "012", "0100", "-1:30", "190:20:30", "+07", "1:30.5"])
def test_numbers_by_sixty_and_by_eight_are_refused(text: str) -> None:
    with pytest.raises(SweepFileError, match=rf"a.yaml:2: YAML reads .*{text.lstrip('+-')} as "):
        parse_yaml(f"a:\n  b: [{text}]", "a.yaml")
    with pytest.raises(SweepFileError, match=r"--set a=.*YAML reads"):
        with_overrides(*parse_yaml("a: 1", "a.yaml"), [f"a={text}"])
    assert parse_yaml(f"a: '{text}'", "a.yaml")[0] == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("00", 0), ("10", 10), ("0.5", 0.5), ("1_000", 1000), ("1e-3", 0.001), ("0x10", 16), ("a:1", "a:1")],
)
def test_other_numbers_are_what_they_look_like(text: str, value: object) -> None:
    assert parse_yaml(f"a: {text}", "a.yaml")[0] == {"a": value}
