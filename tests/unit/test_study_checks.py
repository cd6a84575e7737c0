"""The contract of study templates catches what it is for: a sound template passes, one broken in one way does not."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import study_checks
from study_checks import CHECKS

from crowdsweep.errors import BadInput
from crowdsweep.studies.contract import (
    StudyReport,
    StudySetting,
    StudyTable,
    StudyTemplate,
    expand_datasets,
    whole_numbers,
)
from crowdsweep.sweepfile.records import Seeds


def plans(knobs: Any, config: Any) -> Any:
    return expand_datasets(config, config.datasets, "annotators", knobs["annotators"])


def summarise(results: Any, knobs: Any) -> StudyReport:
    seen = sorted({row["model"] for row in results.table.to_pylist() if row["status"] == "ok"})
    return StudyReport(title="Sound", findings=[f"{name} was run" for name in seen], tables=[TABLE] if seen else [])


def without(**part: Any) -> Any:
    return lambda results, knobs: replace(summarise(results, knobs), **part)


def in_order(results: Any, knobs: Any) -> StudyReport:
    report = summarise(results, knobs)
    return replace(report, notes=[f"{row['model']} {row['dataset_params']}" for row in results.table.to_pylist()])


def first_value(results: Any, knobs: Any) -> StudyReport:
    return StudyReport(title=f"{results.table.to_pylist()[0]['model']}")


def first_good_value(results: Any, knobs: Any) -> StudyReport:
    rows = results.table.to_pylist()
    good = [row["test_accuracy"] for row in rows if row["status"] == "ok"]
    return replace(summarise(results, knobs), notes=[str(good[0])] if rows else [])


def third_seed(results: Any, knobs: Any) -> StudyReport:
    rows = results.table.to_pylist()
    scores = {row["seed"]: row["test_accuracy"] for row in rows if row["status"] == "ok"}
    return replace(summarise(results, knobs), notes=[f"{scores[1]:.3f}"] if scores else [])


def never_the_same(knobs: Any, config: Any) -> Any:
    return expand_datasets(config, config.datasets, "annotators", [next(NUMBERS)])


NUMBERS = count(100)
KNOB = StudySetting(default=(5, 10), about="numbers of annotators", check=whole_numbers(1))
TABLE = StudyTable(title="t", columns=["a"], rows=[["b"]])
SOUND = StudyTemplate(name="sound", title="t", knobs={"annotators": KNOB}, plans=plans, summarise=summarise)

BROKEN = {
    "a default that is refused": ("check_defaults", {"knobs": {"annotators": replace(KNOB, default=(0,))}}),
    "a knob without a word": ("check_defaults", {"knobs": {"annotators": replace(KNOB, about=" ")}}),
    "other seeds": ("check_plans_pure", {"plans": lambda knobs, c: replace(plans(knobs, c), seeds=Seeds(report=1))}),
    "a model less": ("check_plans_pure", {"plans": lambda knobs, c: replace(plans(knobs, c), models=c.models[:1])}),
    "nothing planned": ("check_plans_pure", {"plans": lambda knobs, c: replace(c, datasets=())}),
    "twice the same": ("check_plans_pure", {"plans": lambda knobs, c: replace(c, datasets=c.datasets * 2)}),
    "never the same": ("check_plans_pure", {"plans": never_the_same}),
    "no row to look at": ("check_empty", {"summarise": first_value}),
    "no good row to look at": ("check_all_failed", {"summarise": first_good_value}),
    "no title": ("check_whole", {"summarise": without(title="")}),
    "no finding": ("check_whole", {"summarise": without(findings=[])}),
    "no table": ("check_whole", {"summarise": without(tables=[])}),
    "a seed that failed": ("check_ragged", {"summarise": third_seed}),
    "rows as they come": ("check_order_free", {"summarise": in_order}),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_sound_template_passes(check: Callable[[StudyTemplate], None]) -> None:
    check(SOUND)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_template_is_caught(fault: str) -> None:
    check, changes = BROKEN[fault]
    with pytest.raises((AssertionError, BadInput, IndexError, KeyError)):
        getattr(study_checks, check)(replace(SOUND, **changes))


def test_every_check_that_a_template_can_break_is_tried() -> None:
    tried = {check for check, _ in BROKEN.values()}
    assert tried == {check.__name__ for check in CHECKS} - {"check_unknown_knob"}
