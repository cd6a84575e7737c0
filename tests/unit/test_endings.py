"""What is said of how a run ended: the same in a shell and in Python, each with its own way to go on."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crowdsweep.api.sweeps import next_calls
from crowdsweep.app import closing_words
from crowdsweep.cli.outcome import next_commands
from crowdsweep.record.events import SweepStatus
from crowdsweep.sweep.driver import SweepOutcome
from crowdsweep.sweepfile.read import parse_sweep

BUDGET = {"hours": 2, "failed_trials": 0.3}
CONFIG = parse_sweep({"name": "s", "datasets": ["gaussians"], "models": ["majority-vote"], "budget": BUDGET})
RUN = ("crowdsweep", "run", "s.yaml")
SHELL = next_commands(RUN, ["budget.hours=2", "seeds.report=3"], "my runs")
PYTHON = next_calls({"budget.hours": 2, "seeds.report": 3}, Path("my runs"))

ENDS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "interrupted": (
        {"status": SweepStatus.INTERRUPTED, "dropped": True},
        ["interrupted: nothing that finished is lost; continue with `crowdsweep run s.yaml --set ", "seeds.report=3`"],
        ["continue with the same call of `run`", "no report was written; `crowdsweep report 'my runs'` writes it"],
    ),
    "over budget": (
        {"status": SweepStatus.OVER_BUDGET, "failed": 4, "allowed": "3"},
        ["`crowdsweep status 'my runs'` says why", "--retry-failed", "--set budget.failed_trials=0.6`"],
        ["status` says why", "with retry_failed=True", "'budget.failed_trials': 0.6}"],
    ),
    "out of time": (
        {"status": SweepStatus.OUT_OF_TIME},
        [
            "budget.hours (2) is used up",
            "Continue with `crowdsweep run s.yaml --set seeds.report=3 --set budget.hours=4`",
        ],
        ["Continue with overrides={'budget.hours': 4", "'seeds.report': 3}"],
    ),
    "failed": (
        {"status": SweepStatus.DONE, "failed": 1},
        ["1 trial failed; the report lists them with their errors. Try them again with `crowdsweep run s.yaml --retry"],
        ["1 trial failed; the report lists them with their errors. Try them again with retry_failed=True"],
    ),
    "lost, broken and refused": (
        {"status": SweepStatus.DONE, "lost": 2, "broken": ("cmm: its search ended",), "refused": 1},
        ["2 trials lost with their slots", "cmm: its search ended; the record is kept", "1 search could not be made"],
        ["2 trials lost with their slots", "cmm: its search ended; the record is kept", "1 search could not be made"],
    ),
    "well": ({"status": SweepStatus.DONE}, [], []),
}


@pytest.mark.parametrize("end", ENDS)
def test_both_doors_say_how_a_run_ended(end: str) -> None:
    outcome, shell, python = ENDS[end]
    made = SweepOutcome(**{"planned": 12, "finished": 10, "failed": 0, "ran": 10, **outcome})
    for then, wanted in ((SHELL, shell), (PYTHON, python)):
        told = "\n".join(closing_words(made, CONFIG, then))
        assert [part for part in wanted if part not in told] == [], told
        assert bool(told) is bool(wanted)


def test_who_drops_a_run_does_not_wait_for_what_makes_reports() -> None:
    """Their imports take longer than a command may last after a second Ctrl-C, and how to go on was not said."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from crowdsweep import app\n"
        "from crowdsweep.record.events import SweepStatus\n"
        "from crowdsweep.sweep.driver import SweepOutcome\n"
        "outcome = SweepOutcome(status=SweepStatus.INTERRUPTED, planned=4, finished=1, failed=0, ran=1, dropped=True)\n"
        "assert app.finish(None, Path('store'), outcome) is None\n"
        "sys.exit('crowdsweep.analysis.sweep' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
