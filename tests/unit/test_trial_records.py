"""Keys say which trials are the same; results are either ok or failed."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.spec import TrialSpec, canonical_json

SPEC = TrialSpec(
    model="cmm",
    params={"groups": 3, "smoothing": 0.1},
    model_version=1,
    dataset="labelme",
    dataset_params={"scenario": "global"},
    fingerprint="f" * 32,
    seed=7,
)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "dl-em"},
        {"params": {"groups": 4, "smoothing": 0.1}},
        {"model_version": 2},
        {"dataset_params": {}},
        {"fingerprint": "0" * 32},
        {"seed": 8},
        {"heldout_fraction": 0.1},
        {"data_version": 2},
    ],
)
def test_whatever_decides_the_result_changes_the_key(change: dict[str, Any]) -> None:
    changed = replace(SPEC, **change)
    assert changed.key != SPEC.key
    assert (changed.cell_key == SPEC.cell_key) == ("seed" in change)


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "search"},
        {"point": {"groups": 3}},
        {"params": {"smoothing": 0.1, "groups": 3}},
        {"dataset": "./labelme"},
    ],
)
def test_what_does_not_decide_it_leaves_the_key_alone(change: dict[str, Any]) -> None:
    assert replace(SPEC, **change).key == SPEC.key


def test_the_key_is_what_its_page_says() -> None:
    text = (
        '{"dataset_params":{"scenario":"global"},"fingerprint":"' + "f" * 32 + '","heldout_fraction":0.0,"model":"cmm",'
        '"model_version":1,"params":{"groups":3,"smoothing":0.1},"seed":7}'
    )
    assert SPEC.key == sha256(text.encode()).hexdigest()[:16]


def test_canonical_json_takes_no_numbers_that_json_lacks() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


def test_a_result_is_ok_or_has_a_failure() -> None:
    TrialResult(key="k", status=Status.OK)
    TrialResult(key="k", status=Status.FAILED, failure=Failure(kind="FitFailed", message="m"))
    with pytest.raises(ValueError, match="if and only if"):
        TrialResult(key="k", status=Status.FAILED)
    with pytest.raises(ValueError, match="if and only if"):
        TrialResult(key="k", status=Status.OK, failure=Failure(kind="FitFailed", message="m"))
