"""Sweeps from Python: run one, or open what one has found."""

import json
import logging
import shlex
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from crowdsweep import app
from crowdsweep.analysis.flat_tables import comparison_table, study_table
from crowdsweep.analysis.pivot import Pivot, pivot_table
from crowdsweep.analysis.standing import sweep_status
from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.together import pivot_of_all
from crowdsweep.analysis.trade_offs import front_table
from crowdsweep.analysis.trial_table import TablePhase, results_table
from crowdsweep.api.fits import Fit, check_seeds, to_keep
from crowdsweep.api.loading import without_numpy
from crowdsweep.api.notebook import as_html
from crowdsweep.api.plots import Plots
from crowdsweep.api.threads import one_thread
from crowdsweep.errors import BadInput, ConvergenceWarning, Interrupted, Where
from crowdsweep.labelling.chosen import Chosen, chosen_of_sweep
from crowdsweep.labelling.folder import fit_chosen
from crowdsweep.models import registered
from crowdsweep.record.journal import read_journal
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.record.stores import DEFAULT_STORES, asked_store
from crowdsweep.sweep.starter.begin import asked_sweep
from crowdsweep.sweepfile.read import sweep_of
from crowdsweep.sweepfile.records import Engine, SweepConfig
from crowdsweep.views.papers.figure_files import formats_of, write_figures
from crowdsweep.views.papers.methods import methods_paragraph
from crowdsweep.views.tables.pivot import PlusMinus, render_pivot
from crowdsweep.views.tables.texts import TableFormat

_SHOWN = ("dataset", "rank", "model", "metric", "mean", "low", "high", "n", "failed")

_FINDINGS = 3  # of a study, that are shown

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """What a sweep has found so far; `run` and `results` make it. Its record is read whenever something is asked.

    Attributes:
        store: the sweep's folder.
    """

    store: Store

    @property
    def table(self) -> pa.Table:
        """A row per trial of the report, as `crowdsweep results` prints them."""
        return self.trials()

    def trials(self, phase: TablePhase = "report") -> pa.Table:
        """Returns a row per trial: of the `report`, of the `search`, or `all`."""
        return results_table(self._state, phase)

    @property
    def comparison(self) -> pa.Table:
        """A row for each model on each dataset, best first: rank, mean and interval of the metric that ranks, test
        against the best, seconds; `table.csv` of the report."""
        with one_thread():
            return comparison_table(analysed(self.store).comparison)

    def pivot(self, metric: str | None = None, *, beside: Sequence["Results"] = ()) -> pa.Table:
        """Returns models × datasets as papers print them, a row for each model: of each dataset a column of its title
        with the mean, and `<title>: low`, `high`, `sd`, `n`, `stands` (best, as good, worse, not tested, saw gold), and
        `printed` where a paper has values.

        Args:
            metric: that ranks, such as `test_macro_f1`; the report's where it is None.
            beside: further sweeps, whose models are ranked and tested with this one's on the data that they share.

        Raises:
            BadInput: no finished trial has that metric, or it says of no model that it is better.
        """
        with one_thread():
            return pivot_table(self._pivot(metric, beside))

    def pivot_text(
        self,
        form: TableFormat = "latex",
        *,
        metric: str | None = None,
        plus_minus: PlusMinus = "interval",
        beside: Sequence["Results"] = (),
    ) -> str:
        """Returns the same as text, as `crowdsweep results --layout pivot` prints it: `latex` with booktabs, `md`,
        `csv` or `json`.

        Args:
            form: of the text.
            metric: as for `pivot`.
            beside: as for `pivot`.
            plus_minus: what stands behind a mean: half its 95 % `interval`, the `sd` over seeds, or `none`.

        Raises:
            BadInput: as `pivot`.
        """
        with one_thread():
            return render_pivot(self._pivot(metric, beside), form, plus_minus)

    @property
    def front(self) -> pa.Table:
        """The Pareto front of every search of several objectives, a row for each point: model, dataset, number and
        settings of the point, and of each objective the mean over the search seeds.

        Raises:
            BadInput: no search of the sweep has several objectives, or none has scored a point.
        """
        with one_thread():
            found = analysed(self.store)
            return front_table(found.state, found.trade_offs.values())

    @property
    def plot(self) -> Plots:
        """Draws figures of the report for a notebook: `found.plot.means()`, `.curve()`, `.search("cmm")`, …"""
        return Plots(look=lambda: analysed(self.store))

    def figures(self, formats: str = "pdf") -> list[Store]:
        """Writes the report's figures, with their captions, into `figures` of the sweep's folder, as `crowdsweep report
        --figures` does, and returns the files.

        Args:
            formats: pdf, svg, png, or several with commas between.

        Raises:
            BadInput: a format is none, or a file of somebody else's is in the way.
            NotWritten: they could not be written.
        """
        wanted = formats_of(formats)
        with one_thread():
            return write_figures(analysed(self.store), wanted)

    def methods(self, *, latex: bool = False) -> str:
        """Returns a methods paragraph for a paper, as `crowdsweep report --methods` prints it; every number in it is
        read from the record."""
        with one_thread():
            return methods_paragraph(analysed(self.store), latex=latex)

    @property
    def study(self) -> pa.Table | None:
        """The numbers of the sweep's study (labels needed, what more would bring and cost), a row each; `study.csv` of
        the report. None where the sweep has no study."""
        with one_thread():
            found = analysed(self.store).study
        return None if found is None else study_table(found)

    @property
    def status(self) -> dict[str, Any]:
        """How far it is: counts, the best so far, the latest failures; as `crowdsweep status --json` prints it."""
        return sweep_status(self._state, self.store)

    @property
    def report(self) -> Store:
        """The report's page."""
        return self.store / "report.html"

    def recommended(self, dataset: str | None = None) -> Chosen:
        """Returns the model that the report recommends: its `model`, `params`, and `why`.

        Args:
            dataset: of a sweep with several.

        Raises:
            BadInput: there are several datasets and none is named, there is no such dataset, or nothing is ranked yet.
        """
        with one_thread():
            return chosen_of_sweep(analysed(self.store), dataset)

    def label(self, dataset: str | None = None, *, model: str | None = None, seeds: int | None = None) -> Fit:
        """Fits the recommended model, at its chosen point, to everything, as `crowdsweep label DIR` does.

        Args:
            dataset: of a sweep with several.
            model: another than the recommended one, as the sweep file calls it.
            seeds: fits that are averaged; the sweep's report seeds where it is None.

        Raises:
            BadInput: as `recommended`; or the dataset has changed since the sweep ran, or `seeds` is below 1.
            FitFailed: a fit failed.
        """
        if seeds is not None:
            check_seeds(seeds)
            seeds = int(seeds)
        given = {"dataset": dataset, "model": model, "seeds": seeds}
        words = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        with one_thread():
            chosen = chosen_of_sweep(analysed(self.store), dataset, model, seeds)
        registered.build_model(chosen.model, chosen.params)  # loads what it computes with
        with one_thread():
            fitted = fit_chosen(chosen)
        if fitted.unfinished:
            warnings.warn(fitted.unfinished, ConvergenceWarning, stacklevel=2)
        command = f"crowdsweep.results({str(self.store)!r}).label({words})"
        return Fit(fitted=to_keep(fitted), source=chosen.dataset, why=chosen.why, command=command)

    def _pivot(self, metric: str | None, beside: Sequence["Results"]) -> Pivot:
        return pivot_of_all([analysed(one.store) for one in (self, *beside)], metric)

    @property
    def _state(self) -> JournalState:
        return read_journal(self.store)

    def __repr__(self) -> str:
        found = self.status
        return f"<Results {found['name']}: {found['status']}, {found['done']} of {found['total']} trials done>"

    def _repr_html_(self) -> str:
        found = self.status
        facts = {name: found[name] for name in ("status", "done", "failed", "total")}
        with one_thread():
            sweep = analysed(self.store)
            tables = {"": comparison_table(sweep.comparison).select(list(_SHOWN))}
            if sweep.study is not None:
                told = dict(enumerate(sweep.study.findings[:_FINDINGS], start=1))
                facts |= {f"finding {number}": text for number, text in told.items()}
                tables[sweep.study.title] = study_table(sweep.study)
        return as_html(found["name"], {**facts, "folder": self.store}, tables)


def results(store: str | Store, /) -> Results:
    """Opens what a sweep has found; it may still run.

    Args:
        store: its folder, its name below `crowdsweep-runs`, or its URI in an object store (`s3://bucket/prefix`).

    Raises:
        BadInput: there is no such folder.
        JournalError: there is no sweep in it.
    """
    place = asked_store(store_named(store))
    read_journal(place)
    return Results(store=place)


def run(
    sweep: str | Path | Mapping[str, Any],
    /,
    *,
    store: str | Store | None = None,
    overrides: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    quiet: bool = False,
    live: bool = False,
) -> Results:
    """Runs a sweep, or goes on with it: what its record already holds is not done again. Then writes the report.

    Ctrl-C ends it in order, and is raised when all is written; twice, at once.

    Args:
        sweep: a sweep file, a dataset's folder, the name of a sweep that comes along (`crowdsweep.sweeps()` has them),
            or what stands in a sweep file; folders in it are looked up beside the file, else here.
        store: where the record goes, a folder or a URI (`s3://bucket/prefix`); `crowdsweep-runs/NAME` where it is None.
        overrides: single keys, such as `{"seeds.report": 3}`.
        engine: `inline` or `ray` in place of the sweep's.
        address: of a Ray cluster to join.
        retry_failed: runs again what failed in earlier runs.
        quiet: no progress.
        live: keeps the report's page up to date meanwhile, and tells its address.

    Raises:
        BadInput: the sweep cannot be run; nothing was run or written.
        JournalLocked: another driver is at work on this record.
        InfeasibleRequest: the cluster has no room for a single slot.
        NotWritten: the report could not be written; the record is kept.
        KeyboardInterrupt: it was interrupted; call it again to go on.
    """
    if threading.current_thread() is not threading.main_thread():
        raise BadInput(
            "run: expected to be called in the main thread, which alone hears Ctrl-C; start a process for it"
        )
    config = _config(sweep, overrides or {})
    place = DEFAULT_STORES / config.name if store is None else store_named(store)
    how = app.How(engine=engine, address=address, quiet=quiet, retry_failed=retry_failed, live=live)
    with one_thread():
        outcome = app.run_to_the_end(config, place, tell=_log.info, **how)
    words = app.closing_words(outcome, config, next_calls(overrides or {}, place))
    if outcome.status == "interrupted":
        raise Interrupted(f"{config.name}: {'. '.join(words)}")
    for line in words:
        _log.warning("%s: %s", config.name, line)
    return Results(store=place)


def _config(sweep: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]) -> SweepConfig:
    words = [f"{key}={_as_json(key, value)}" for key, value in overrides.items()]
    if not isinstance(sweep, str | Path):
        return sweep_of(sweep, Where(), words)
    return asked_sweep(sweep, words)


def _as_json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, default=without_numpy, check_circular=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"overrides, {key}: expected what may stand in a sweep file, got {value!r}"[:300]) from error


def next_calls(overrides: Mapping[str, Any], store: Store) -> app.NextSteps:
    """Returns the calls that go on with a sweep."""
    found = f"crowdsweep.results({str(store)!r})"
    return app.NextSteps(
        go_on="the same call of `run`",
        retry="retry_failed=True",
        with_key=lambda key, value: f"overrides={dict(overrides) | {key: value}!r}",
        status=f"`{found}.status`",
        report=f"`crowdsweep report {shlex.quote(str(store))}`",
    )
