"""Figures and HTML for notebooks: those of the report, chosen by words, and text whatever is in it."""

from pathlib import Path

import pytest
from journals import made_up_search, made_up_sweep, made_up_trials
from matplotlib.figure import Figure

import crowdsweep as cs
from crowdsweep.errors import BadInput
from crowdsweep.record.events import Event
from crowdsweep.record.journal import Journal

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def found(tmp_path: Path) -> cs.Results:
    """A study of redundancy over two datasets, and a search."""
    events: list[Event] = []
    for dataset in ("birds", "fish"):
        for model, mean in (("a", 0.7), (HOSTILE, 0.6)):
            for redundancy in ({"redundancy": 1}, {"redundancy": 2}, {}):
                metrics = [{"test_accuracy": mean + 0.1 * seed} for seed in range(3)]
                events += made_up_trials(model, dataset, metrics, dataset_params=redundancy)
    points = [{"groups": number} for number in range(4)]
    events += made_up_search("s", "cmm", "birds", points, [0.5, 0.7, None, 0.6], [1])
    config = {"study": {"template": "redundancy", "labels_per_item": [1, 2]}}
    journal = Journal(tmp_path)
    journal.handle_many(made_up_sweep(events, models=[{"name": "cmm", "label": "cmm", "params": {}}], config=config))
    journal.close()
    return cs.results(tmp_path)


def test_the_figures_of_the_report_are_matplotlib_s(found: cs.Results) -> None:
    curve = found.plot.curve("birds")
    assert isinstance(curve, Figure)
    labels = [str(line.get_label()) for line in curve.axes[0].lines]
    assert {label for label in labels if not label.startswith("_")} == {"a", HOSTILE}
    history = found.plot.search("cmm")
    points = next(line for line in history.axes[0].lines if line.get_label() == "point")
    assert list(points.get_xdata()) == [0, 1, 3]
    (title,) = [one for one in found.plot.titles if "history of the search" in one]
    assert found.plot.figure(title).axes[0].get_xlabel() == "point"


def test_a_figure_that_is_not_one_is_told(found: cs.Results) -> None:
    with pytest.raises(
        BadInput, match=r"plot\.curve: expected words of the title of one figure; there are .*birds.*fish"
    ):
        found.plot.curve()
    with pytest.raises(BadInput, match=r"plot\.curve: expected words .*birds.*fish"):
        found.plot.curve("dogs")
    with pytest.raises(BadInput, match=r"plot\.confusion: the report has no such figure"):
        found.plot.confusion()


def test_a_study_shows_itself_and_stays_text(found: cs.Results) -> None:
    html = found._repr_html_()
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "finding 1" in html
    assert found.study is not None
    assert html.count("<table>") == 3  # facts, the comparison, the study's numbers
    assert f"… {found.study.num_rows:,} rows" in html
