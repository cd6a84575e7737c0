"""What the report says of soft labels: bootstrap, kurtosis, and the section where stl and mtl both ran."""

from pathlib import Path

import numpy as np
import pytest

from crowdsweep import app
from crowdsweep.analysis.sweep import analysed
from crowdsweep.metrics.soft_labels import bootstrap_p, kurtosis_by_outcome, kurtosis_of
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.units import show_p
from crowdsweep.views.page.sections import soft_label_tables
from crowdsweep.views.report_files import write_report


def test_the_bootstrap_is_that_of_samples_drawn_one_by_one() -> None:
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, 0.0, 0.5, 1.0], 300, p=[0.15, 0.6, 0.1, 0.15])
    observed, size = differences.mean(), 99
    assert observed > 0
    means = [rng.choice(differences, size).mean() for _ in range(20_000)]
    by_hand = np.mean(np.array(means) > 2 * observed)
    assert 0.02 < by_hand < 0.45
    assert bootstrap_p(differences, samples=20_000) == pytest.approx(by_hand, abs=0.02)
    assert bootstrap_p(-differences, samples=20_000) == pytest.approx(by_hand, abs=0.02)  # whichever is better
    assert bootstrap_p(np.zeros(10)) == bootstrap_p(np.empty(0)) == 1.0
    assert bootstrap_p(np.r_[np.ones(50), np.zeros(50)]) < 0.01


def test_kurtosis_is_fishers_over_the_entries_of_a_soft_label() -> None:
    found = kurtosis_of(np.array([np.eye(12)[3], np.full(12, 1 / 12)]))
    assert found[0] == pytest.approx(7.09, abs=0.005)
    assert np.isnan(found[1])
    assert kurtosis_of(np.array([[0.9, 0.1]])) == pytest.approx(-2.0)
    kurtosis = np.array([1.0, 2.0, 3.0, 4.0, np.nan, 6.0])
    first, second = (np.array(list(map(bool, row))) for row in ((1, 1, 1, 0, 1, 0), (1, 1, 0, 1, 1, 0)))
    assert kurtosis_by_outcome(kurtosis, first, second) == ((1.5, 2), (3.0, 1), (4.0, 1), (6.0, 1))


def folder(path: Path, n_classes: int) -> str:
    """Thirty words, whose class is their letter's, with votes for all; two of three agree."""
    path.mkdir()
    rows = [(i, who, (i + (who == "c")) % n_classes) for i in range(30) for who in "abc"]
    (path / "annotations.csv").write_text("item,annotator,label\n" + "".join(f"i{i},{w},{k}\n" for i, w, k in rows))
    words = "".join(f"i{i},{i % n_classes},{'abc'[i % n_classes] * 2}\n" for i in range(30))
    (path / "items.csv").write_text("item,gold,text\n" + words)
    return str(path)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_section_stands_where_both_ran(tmp_path: Path, n_classes: int) -> None:
    net = {"network": "text_cnn", "tokens": "characters", "embedding": 4, "filters": 4, "epochs": 3, "steps": 0}
    models = [
        "marginal",
        {"name": "stl", "params": net},
        {"name": "mtl", "params": net},
        {"name": "mtl", "label": "mtl-gold", "params": {**net, "labels": "gold"}},
        {"name": "mtl", "label": "tags", "params": {"network": "tagger", "embedding": 4, "state": 4, "epochs": 2}},
    ]
    data = {"name": folder(tmp_path / "words", n_classes), "folds": 3}
    given = {"name": "soft", "datasets": [data], "models": models, "seeds": {"report": 3}}
    store = tmp_path / "store"
    app.run(parse_sweep({**given, "engine": "inline", "tracking": {"enabled": False}}, "soft.yaml"), store, quiet=True)
    (found,) = analysed(store).soft_labels
    (pair,) = found.pairs
    assert (pair.multi, pair.single, pair.labels) == ("mtl", "stl", "silver")
    assert pair.bootstrap_p is not None  # items differ by seed, and are the same for both models
    tables = soft_label_tables([found])
    assert list(tables[0].rows[0].cells[:3]) == ["mtl", "stl", "silver"]
    assert tables[0].rows[0].cells[-1] == show_p(pair.bootstrap_p)
    assert len(tables) == (1 if n_classes == 2 else 2)  # two classes have no kurtosis worth the name
    if n_classes == 3:
        assert sum(count for _, count in pair.kurtosis) == 30  # each item is tested once in three folds
        assert [cell.partition(" ")[2] for cell in tables[1].rows[0].cells[2:]] == [f"({n})" for _, n in pair.kurtosis]
    write_report(store)
    page = (store / "report.html").read_text()
    assert 'href="#soft-labels"' in page
    assert "bootstrap p" in page


def test_without_stl_there_is_no_section(tmp_path: Path) -> None:
    net = {"network": "text_cnn", "embedding": 4, "filters": 4, "epochs": 1, "steps": 0}
    given = {"name": "soft", "datasets": [{"name": folder(tmp_path / "words", 2), "folds": 3}]}
    config = {**given, "models": [{"name": "mtl", "params": net}], "engine": "inline", "tracking": {"enabled": False}}
    store = tmp_path / "store"
    app.run(parse_sweep({**config, "seeds": {"report": 1}}, "soft.yaml"), store, quiet=True)
    write_report(store)
    assert "soft-labels" not in (store / "report.html").read_text()
