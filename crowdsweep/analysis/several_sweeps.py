"""Joint comparison of several sweeps: their models on shared data, ranked and tested as if one sweep had run them all.

Two datasets are the same if their data, parameters and share of held-out annotations agree, whatever their names. Where
two sweeps use one label for different cells, the name of the sweep is appended to it. A cell that several sweeps share
counts once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from crowdsweep.analysis.compare import Comparison, compare
from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.pivot import Pivot, pivot_of
from crowdsweep.analysis.study import gold_models
from crowdsweep.analysis.sweep import AnalysedSweep, check_metric, references_of
from crowdsweep.analysis.trial_table import comparison_rows
from crowdsweep.analysis.two_sweeps import letter_of
from crowdsweep.record.array_names import names_of
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.spec import Place
from crowdsweep.sweepfile.records import Metric, PublishedValue

_Data = tuple[str, str, float]
"""Identity of a dataset across sweeps: fingerprint, parameters, share of held-out annotations."""


def compare_sweeps(sweeps: Sequence[AnalysedSweep], metric: str | None = None) -> Comparison:
    """Compares all models of several sweeps.

    Args:
        sweeps: at least one; a dataset has the name that the first sweep with it uses.
        metric: the metric that ranks; None for the one that `metrics.ranking` chooses for each dataset.

    Raises:
        BadInput: no trial of any sweep has that metric, or the metric has no goal (maximize or minimize).
    """
    check_metric(metric, [block for sweep in sweeps for block in sweep.comparison.datasets])
    names = _names(sweeps)
    places = _places(sweeps, names)
    labels = _labels(sweeps, names, places)
    rows: dict[tuple[str, str], Mapping[str, Any]] = {}
    published: list[PublishedValue] = []
    references: dict[Place, DatasetRecord] = {}
    for number, sweep in enumerate(sweeps):
        for row in comparison_rows(sweep.state, sweep.trials).to_pylist():
            if row["chosen"]:
                dataset, params = places[number, (row["dataset"], row["dataset_params"])]
                renamed = {"dataset": dataset, "dataset_params": params, "model": labels[number, row["model"]]}
                rows.setdefault((renamed["model"], row["key"]), {**row, **renamed})
        for own, told in references_of(sweep.state).items():
            if (number, own) in places:
                references.setdefault(places[number, own], told)
        published += _published(sweep, number, places, labels)
    return compare(
        _table(list(rows.values())),
        metric=_wanted(sweeps),
        published=published,
        gold_models=frozenset(labels[n, one] for n, sweep in enumerate(sweeps) for one in gold_models(sweep.state)),
        references=references,
        item_scores=_KeptTogether(sweeps=sweeps),
        by=metric or "",
    )


def pivot_of_all(sweeps: Sequence[AnalysedSweep], metric: str | None = None) -> Pivot:
    """Returns the pivot table of one sweep, or of several together.

    Args:
        sweeps: at least one.
        metric: the metric that ranks; None for that of the report.

    Raises:
        BadInput: as for `compare_sweeps`.
    """
    if len(sweeps) == 1:
        return sweeps[0].pivot(metric)
    papers = dict.fromkeys(filter(None, ((one.state.config.get("published") or {}).get("table") for one in sweeps)))
    names = ", ".join(dict.fromkeys(sweep.state.name for sweep in sweeps))
    return pivot_of(compare_sweeps(sweeps, metric), sweep=names, paper="; ".join(papers))


def _names(sweeps: Sequence[AnalysedSweep]) -> list[str]:
    """Returns the names of the sweeps, with a letter appended where two have the same name."""
    alike = Counter(sweep.state.name for sweep in sweeps)
    return [
        sweep.state.name if alike[sweep.state.name] == 1 else f"{sweep.state.name} {letter_of(number)}"
        for number, sweep in enumerate(sweeps)
    ]


def _wanted(sweeps: Sequence[AnalysedSweep]) -> Metric | None:
    """Returns the metric of the sweep files where they all name the same one; else None."""
    named = [sweep.state.config.get("metric") for sweep in sweeps]
    first, *others = [Metric(name=one["name"], goal=one["goal"]) if one else None for one in named]
    return first if all(one == first for one in others) else None


def _places(sweeps: Sequence[AnalysedSweep], names: Sequence[str]) -> dict[tuple[int, Place], Place]:
    """Returns (number of a sweep, its dataset) → the dataset in the joint comparison."""
    known: dict[_Data, Place] = {}
    taken: set[Place] = set()
    found: dict[tuple[int, Place], Place] = {}
    for number, sweep in enumerate(sweeps):
        for own, data in _data_of(sweep):
            if data not in known:
                name = own[0] if own not in taken else f"{own[0]} [{names[number]}]"
                known[data] = (name, own[1])
                taken.add(known[data])
            found[number, own] = known[data]
    return found


def _data_of(sweep: AnalysedSweep) -> Iterator[tuple[Place, _Data]]:
    heldout = {place: told.heldout for place, told in references_of(sweep.state).items()}
    for trial in sweep.trials:
        if trial.chosen:
            place = trial.spec.place
            yield place, (trial.spec.fingerprint, place[1], heldout.get(place, 0.0))


def _labels(
    sweeps: Sequence[AnalysedSweep], names: Sequence[str], places: Mapping[tuple[int, Place], Place]
) -> dict[tuple[int, str], str]:
    """Returns (number of a sweep, label in it) → label in the joint comparison.

    The label stays the same unless another sweep uses it for different cells on the same data.
    """
    keys: dict[tuple[int, str], dict[Place, set[str]]] = {}
    for number, sweep in enumerate(sweeps):
        for trial in sweep.trials:
            if trial.chosen:
                of_label = keys.setdefault((number, trial.label), {})
                of_label.setdefault(places[number, trial.spec.place], set()).add(trial.spec.cell_key)
    owners = Counter(label for _, label in keys)
    found = {
        (number, label): f"{label} ({names[number]})" if owners[label] > 1 and _differs(label, own, keys) else label
        for (number, label), own in keys.items()
    }
    every = [cell.label for sweep in sweeps for cell in [*sweep.state.plan.cells, *sweep.state.plan.searches]]
    return {(number, label): label for number in range(len(sweeps)) for label in every} | found


def _differs(
    label: str, own: Mapping[Place, set[str]], keys: Mapping[tuple[int, str], Mapping[Place, set[str]]]
) -> bool:
    """Whether another sweep uses the label for different cells, on data that both have."""
    return any(
        cells != others[place]
        for (_, name), others in keys.items()
        if name == label
        for place, cells in own.items()
        if place in others
    )


def _published(
    sweep: AnalysedSweep, number: int, places: Mapping[tuple[int, Place], Place], labels: Mapping[tuple[int, str], str]
) -> Iterator[PublishedValue]:
    names = {own[0]: place[0] for (of, own), place in places.items() if of == number}
    for value in (sweep.state.config.get("published") or {}).get("values", ()):
        read = PublishedValue(**value)
        model = labels.get((number, read.model), read.model)
        yield replace(read, dataset=names.get(read.dataset, read.dataset), model=model)


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = sorted({name for row in rows for name in row})
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class _KeptTogether:
    """Lookup of the scores of single items in several records (an `ItemScores` function)."""

    sweeps: Sequence[AnalysedSweep]

    def __call__(self, keys: Sequence[str], metric: str) -> Mapping[str, Float[np.ndarray, " items"]]:
        """Returns key → item scores, as `KeptScores` does; empty where not all trials were scored on the same items."""
        _, _, items = names_of(metric)
        found: dict[str, Float[np.ndarray, " items"]] = {}
        scored: set[str] = set()
        for sweep in self.sweeps:
            own = [key for key in keys if key in sweep.state.results and key not in found]
            kept = KeptScores(sweep.state, sweep.rows)(own, metric)
            scored |= {sweep.state.results[key].kept[items].digest for key in kept}
            found |= kept
        return found if len(scored) == 1 else {}
