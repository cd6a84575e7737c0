"""The methods paragraph: what it says, and that every number in it stands in the record."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from journals import made_up_search, made_up_sweep, made_up_trials
from published_sweeps import ODD, published_store

import crowdsweep as cs
from crowdsweep.analysis.methods import methods_of
from crowdsweep.analysis.sweep import analysed
from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.events import SweepStarted
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord


def told(folder: Path, events: list, **settings: object) -> str:
    journal = Journal(folder)
    journal.handle_many(made_up_sweep(events, **settings))  # type: ignore[arg-type]
    journal.close()
    return " ".join(methods_of(analysed(folder)))


def test_what_was_done_is_said_in_full(tmp_path: Path) -> None:
    paragraph = " ".join(methods_of(analysed(published_store(tmp_path))))
    for sentence in (
        (
            f"We compared 3 models (vote, coin and {ODD}) on 2 datasets: birds (trained on 1,234 annotations of 59 "
            f"annotators); cats (trained on 1,234 annotations of 59 annotators)."
        ),
        "Models that learn from gold (ideal) are not ranked.",
        "Models were scored by test accuracy, on test items against gold.",
        "The hyper-parameters of vote, coin and ideal are their defaults.",
        (
            f"The hyper-parameters of {ODD} were chosen by the tree-structured Parzen estimator as in Optuna (2 "
            f"points; seed 7), on each dataset separately."
        ),
        "Each point was fitted with 4 seeds and scored by dev accuracy against gold.",
        "Of each search the best point was fitted again, with the seeds of the report, which no search had seen.",
        "Each reported number is the mean over 12 seeds, with a 95 % interval.",
        (
            "Models were compared on the same seeds by paired tests (Wilcoxon's signed-rank test) at 5 %, with Holm's "
            "correction over all pairs of models on a dataset."
        ),
        "In all 73 trials ran.",
        "Software: crowdsweep 0.1.0 on Python 3.11.",
    ):
        assert sentence in paragraph, sentence
    known = {"3", "2", "1,234", "59", "7", "4", "95", "12", "5", "73", "0.1.0", "3.11"}
    varied = re.search(r"A collapse of up to (\d+) %", paragraph)
    assert varied is not None
    numbers = set(re.findall(r"\d(?:[\d,.]*\d)?", paragraph.replace(ODD, "")))
    assert numbers - known == {varied[1]}, "every number is of the record"


def test_selection_without_gold_is_said(tmp_path: Path) -> None:
    point = {"smoothing": 0.5}
    events = made_up_search("s", "dawid-skene", "d", [point, {"smoothing": 0.6}], [-0.5, -0.6], [0])
    scores = [{"heldout_loglik": -0.5, "test_accuracy": 0.8}, {"heldout_loglik": -0.51, "test_accuracy": 0.81}]
    events += made_up_trials("dawid-skene", "d", scores[:1], phase="search", search="s", point=point, first_seed=99)
    events += made_up_trials("dawid-skene", "d", scores, search="s", point=point)
    search = CellRecord(key="s", label="dawid-skene", metric="heldout_loglik", goal="maximize", points=2)
    space = {"smoothing": {"values": [0.5, 0.6]}}
    models = [{"name": "dawid-skene", "label": "dawid-skene", "params": {}, "search": space}]
    config = {"seeds": {"search": 1, "report": 2, "rescored": 2}, "heldout": {"fraction": 0.15}}
    paragraph = told(tmp_path, events, models=models, searches=[search], config=config)
    assert "were chosen by trying every point of their space (2 points), on each dataset separately." in paragraph
    assert (
        "Each point was fitted with 1 seed and scored by the mean log-likelihood of 15 % of the annotations"
        in paragraph
    )
    assert "so without gold." in paragraph
    assert "Of each search the 2 best points were fitted again" in paragraph


def test_settings_failures_and_several_versions_are_said(tmp_path: Path) -> None:
    events = made_up_trials("dawid-skene", "d", [{"train_accuracy": 0.8}, None], params={"smoothing": 0.25})
    sweep = made_up_sweep(events, models=[])
    first = sweep[0]
    assert isinstance(first, SweepStarted)
    plan = replace(first.plan, cells=tuple(replace(c, params={"smoothing": 0.25}) for c in first.plan.cells))
    later = replace(first, plan=plan, environment={"crowdsweep": "0.2.0", "python": "3.11"}, resumed=True)
    journal = Journal(tmp_path)
    journal.handle_many([*sweep[:-1], later, sweep[-1]])
    journal.close()
    paragraph = " ".join(methods_of(analysed(tmp_path)))
    assert "Set by hand: dawid-skene: smoothing 0.25." in paragraph
    assert "In all 2 trials ran (1 failed and is missing from the means)." in paragraph
    assert "Software: crowdsweep 0.1.0 and 0.2.0 on Python 3.11." in paragraph
    assert "training items against gold, which no ranked model saw (truth inference)" in paragraph


def test_the_command_prints_it_alone_and_latex_can_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = published_store(tmp_path)
    assert run_command_line(["report", str(store), "--methods"]) == 0
    plain = capsys.readouterr().out
    assert plain.strip() == cs.results(store).methods()
    assert not (store / "report.html").exists(), "it writes nothing"
    assert run_command_line(["report", str(store), "--methods", "--latex"]) == 0
    latex = capsys.readouterr().out
    assert latex.strip() == cs.results(store).methods(latex=True)
    assert "95 \\% interval" in latex
    assert "cmm\\_2 \\& 50\\% \\#1 \\{x\\} \\textbackslash{}input" in latex
    assert not re.search(r"(?<!\\)[&%#_]", latex)
    assert run_command_line(["report", str(store), "--latex"]) == 2
    assert "add --methods" in capsys.readouterr().err
