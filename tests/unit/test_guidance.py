"""What the report says of guidance by clusters, and of snapping to them."""

from pathlib import Path
from typing import Any

import pytest
from data_folders import swept_two_kinds

from crowdsweep.analysis.sections.guidance import Guidance
from crowdsweep.analysis.sweep import analysed
from crowdsweep.record.journal import read_journal
from crowdsweep.views.page.sections import guidance_tables
from crowdsweep.views.report_files import write_report

FAST = {"restarts": 1, "iterations": 5, "item_clusters": 3, "epochs": 5, "steps": 0}


def guidance_in(tmp_path: Path, *models: Any) -> tuple[list[Guidance], Path]:
    store = swept_two_kinds(tmp_path, *models, seeds=3)
    return list(analysed(store).guidance), store


@pytest.mark.parametrize("snap", ["hard", "none"])
def test_every_use_stands_beside_the_prediction_as_it_is(tmp_path: Path, snap: str) -> None:
    """Whichever use the model labels with: what has a suffix in the results is told by the hyper-parameter."""
    (found,), store = guidance_in(
        tmp_path,
        {"name": "pd", "params": {"epochs": 5, "steps": 0}},
        {"name": "fmm-guided", "params": {**FAST, "test_snap": snap}},
    )
    assert [(one.model, one.use, one.plain) for one in found.predictions] == [
        ("fmm-guided", "none", "pd"),
        ("fmm-guided", "soft", ""),
        ("fmm-guided", "hard", ""),
    ]
    state = read_journal(store)
    runs = [state.results[key].metrics for key, spec in state.specs.items() if spec.model == "fmm-guided"]
    plain = [state.results[key].metrics for key, spec in state.specs.items() if spec.model == "pd"]

    def mean(metrics: list[Any], name: str) -> float:
        return sum(one[name] for one in metrics) / 3

    as_it_is = mean(runs, "test_kl" if snap == "none" else "test_kl.none")
    soft, hard = mean(runs, "test_kl.soft"), mean(runs, "test_kl" if snap == "hard" else "test_kl.hard")
    expected = [(as_it_is, mean(plain, "test_kl")), (soft, as_it_is), (hard, as_it_is)]
    (table,) = guidance_tables([found])
    for one, row, means in zip(found.predictions, table.rows, expected, strict=True):
        difference = one.scores.test.difference
        assert difference is not None
        numbers = (one.scores.first, one.scores.second, difference.mean)
        assert numbers == pytest.approx((*means, means[0] - means[1]))
        assert [float(cell) for cell in row.cells[3:6]] == pytest.approx(numbers, abs=5.001e-4)  # three decimals
        assert row.cells[6].startswith("[")
    assert [tuple(row.cells[:3]) for row in table.rows] == [
        ("fmm-guided", "as it is", "pd"),
        ("fmm-guided", "projected, soft", "as it is"),
        ("fmm-guided", "projected, hard", "as it is"),
    ]
    write_report(store)
    assert 'href="#guidance"' in (store / "report.html").read_text()


def test_without_a_guided_model_there_is_no_section(tmp_path: Path) -> None:
    found, store = guidance_in(tmp_path, {"name": "pd", "params": {"epochs": 2, "steps": 0}}, "marginal")
    assert not found
    write_report(store)
    assert "guidance" not in (store / "report.html").read_text()


def test_without_the_plain_classifier_snapping_is_still_told(tmp_path: Path) -> None:
    (found,), _ = guidance_in(tmp_path, {"name": "fmm-guided", "params": FAST})
    assert [one.use for one in found.predictions] == ["soft", "hard"]


def test_the_plain_classifier_is_the_best_one_with_the_same_network(tmp_path: Path) -> None:
    """Another network differs in more than guidance, and of two points the better one is what guidance must beat."""
    (found,), _ = guidance_in(
        tmp_path,
        {"name": "pd", "label": "linear", "params": {"network": "linear", "epochs": 60, "learning_rate": 0.1}},
        {"name": "pd", "label": "worse", "params": {"epochs": 1, "learning_rate": 1e-5}},
        {"name": "pd", "label": "better", "params": {"epochs": 60, "learning_rate": 0.01}},
        {"name": "fmm-guided", "params": FAST},
    )
    assert found.predictions[0].plain == "better"
    (tmp_path / "alone").mkdir()
    (alone,), _ = guidance_in(
        tmp_path / "alone", {"name": "pd", "params": {"network": "linear"}}, {"name": "fmm-guided", "params": FAST}
    )
    assert [one.use for one in alone.predictions] == ["soft", "hard"]
