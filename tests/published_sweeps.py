"""Made-up sweeps that a paper could be written from: names that LaTeX would obey, a search, printed values, gold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from journals import made_up_search, made_up_sweep, made_up_trials

from crowdsweep.record.events import Event
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord

NOISE = (0.001, -0.001, 0.002, -0.002, 0.0005, -0.0005, 0.0015, -0.0015, 0.0, 0.0005, -0.0005, 0.001)
ODD = "cmm_2 & 50% #1 {x} \\input"
"""A label with all that LaTeX takes for its own."""


def scores(mean: float, *, f1: float | None = None, shift: int = 0, metric: str = "test_accuracy") -> list[Any]:
    """Twelve seeds around a mean; other models' seeds vary otherwise."""
    noise = [*NOISE[shift:], *NOISE[:shift]]
    f1_of = {} if f1 is None else {"test_macro_f1": f1}
    counts = {"n_annotations": 1234.0, "n_active_annotators": 59.0, "test_entropy": 0.3}
    return [{metric: mean + step, **{name: f1 + step for name, f1 in f1_of.items()}, **counts} for step in noise]


def events() -> list[Event]:
    """Two datasets: on birds ODD is best, vote close and coin worse; by macro-F1 coin is best. On cats vote wins."""
    found = made_up_search("s", "cmm", "birds", [{"groups": 2}, {"groups": 3}], [0.7, 0.8], [1])
    point: dict[str, Any] = {"point": {"groups": 3}, "search": "s", "label": ODD}
    found += made_up_trials("cmm", "birds", [{"dev_accuracy": 0.8}], phase="search", first_seed=99, **point)
    found += made_up_trials("cmm", "birds", scores(0.9, f1=0.5), **point)
    found += made_up_trials("majority-vote", "birds", scores(0.8995, f1=0.6, shift=5), label="vote")
    found += made_up_trials("one-coin", "birds", scores(0.7, f1=0.8, shift=3), label="coin")
    found += made_up_trials("ideal", "birds", scores(0.95, f1=0.9, shift=2))
    found += made_up_trials("majority-vote", "cats", scores(0.8, f1=0.7), label="vote")
    collapsed = [*scores(0.6, f1=0.6)[:10], *scores(0.1, f1=0.1)[10:]]
    found += made_up_trials("one-coin", "cats", collapsed, label="coin")
    return found


MODELS: Sequence[Mapping[str, Any]] = [
    {"name": "cmm", "label": ODD, "params": {}, "search": {"groups": {"min": 1, "max": 9}}, "datasets": ["birds"]},
    {"name": "majority-vote", "label": "vote", "params": {}},
    {"name": "one-coin", "label": "coin", "params": {}},
    {"name": "ideal", "label": "ideal", "params": {}},
]
CONFIG: Mapping[str, Any] = {
    "seeds": {"search": 4, "report": 12, "rescored": 1},
    "sampler": {"kind": "tpe", "seed": 7, "parallel": 4},
    "early_stop": {"kind": "none"},
    "heldout": {"fraction": 0.1},
    "published": {
        "table": "Table 3 of the paper",
        "values": [
            {"model": "vote", "dataset": "birds", "metric": "test_accuracy", "value": 0.8123, "dataset_params": {}},
            {"model": "coin", "dataset": "birds", "metric": "test_macro_f1", "value": 0.8222, "dataset_params": {}},
        ],
    },
}


def published_store(folder: Path, **settings: Any) -> Path:
    """Writes the record of such a sweep into a folder, and returns it."""
    searches = [CellRecord(key="s", label=ODD, metric="dev_accuracy", goal="maximize", points=2)]
    journal = Journal(folder)
    journal.handle_many(made_up_sweep(events(), models=MODELS, config=CONFIG, searches=searches, **settings))
    journal.close()
    return folder
