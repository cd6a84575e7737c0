"""Files of other people: sound ones of every form are read, and damaged ones are tried for every form.

What becomes of damaged ones is in `test_mutated_inputs.py`.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from sound_files import SOUND

from crowdsweep.importing.registry import FORMS, read_form
from crowdsweep.importing.rows import FileOptions
from crowdsweep.importing.write import write_rows


def test_every_form_is_tried() -> None:
    assert {form for form, *_ in SOUND} == set(FORMS)


@pytest.mark.parametrize("entry", SOUND, ids=lambda entry: f"{entry[0]} {entry[1]}")
def test_undamaged_they_are_read(
    tmp_path: Path, entry: tuple[str, str, Callable[[random.Random], bytes], FileOptions]
) -> None:
    form, name, make, asked = entry
    for seed in range(5):
        (tmp_path / name).write_bytes(make(random.Random(seed)))
        assert write_rows(read_form(form, tmp_path / name, asked), tmp_path / f"out{seed}").n_classes > 1
