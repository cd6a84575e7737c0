"""Sweeps from Python: running one, and opening the results of one."""

import json
import logging
import shlex
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from crowdsweep import app
from crowdsweep.analysis.flat_tables import comparison_table, study_table
from crowdsweep.analysis.pivot import Pivot, pivot_table
from crowdsweep.analysis.several_sweeps import pivot_of_all
from crowdsweep.analysis.status import sweep_status
from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.trade_offs import front_table
from crowdsweep.analysis.trial_table import TablePhase, results_table
from crowdsweep.api.fits import Fit, check_seeds, fits_to_save
from crowdsweep.api.loading import without_numpy
from crowdsweep.api.notebook import as_html
from crowdsweep.api.plots import Plots
from crowdsweep.api.threads import one_thread
from crowdsweep.errors import BadInput, ConvergenceWarning, Interrupted, Where
from crowdsweep.files.located import MAX_DEPTH
from crowdsweep.labelling.chosen import Chosen, chosen_of_sweep
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.models import registered
from crowdsweep.record.journal import read_journal
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.record.stores import DEFAULT_STORES, asked_store
from crowdsweep.sweep.starter.begin import asked_sweep
from crowdsweep.sweepfile.read import sweep_of
from crowdsweep.sweepfile.records import Engine, SweepConfig
from crowdsweep.views.papers import formats_of, methods_paragraph, write_figures
from crowdsweep.views.tables.pivot import PlusMinus, render_pivot
from crowdsweep.views.tables.texts import TableFormat

_SHOWN = ("dataset", "rank", "model", "metric", "mean", "low", "high", "n", "failed")

_FINDINGS = 3  # findings of a study that a notebook shows

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """Results of a sweep so far; `run` and `results` return it. Every property and method reads the record anew.

    Attributes:
        store: folder, or URI in an object store, of the sweep's record.
    """

    store: Store

    @property
    def table(self) -> pa.Table:
        """Trials of the report phase, a row each, as `crowdsweep results` prints them."""
        return self.trials()

    def trials(self, phase: TablePhase = "report") -> pa.Table:
        """Returns the trials of a phase (`report`, `search` or `all`), a row each."""
        return results_table(self._state, phase)

    @property
    def comparison(self) -> pa.Table:
        """Comparison of the models, a row per model and dataset, best first; `table.csv` of the report.

        Columns are rank, mean and interval of the metric that ranks, the test against the best, seconds, and others.
        """
        with one_thread():
            return comparison_table(analysed(self.store).comparison)

    def pivot(self, metric: str | None = None, *, beside: Sequence["Results"] = ()) -> pa.Table:
        """Returns a pivot table of models × datasets, as papers print it, a row per model.

        Each dataset has a column named by its title, with the mean. Further columns are `<title>: low`, `high`, `sd`,
        `n`, `stands` (best, as good, worse, not tested, saw gold), and `printed` where there are published values.

        Args:
            metric: the metric that ranks, such as `test_macro_f1`; None for that of the report.
            beside: further sweeps, whose models are ranked and tested with this one's on the data that they share.

        Raises:
            BadInput: no finished trial has that metric, or the metric has no goal (maximize or minimize).
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
        """Returns the pivot table as text, as `crowdsweep results --layout pivot` prints it.

        Args:
            form: format of the text: `latex` with booktabs, `md`, `csv` or `json`.
            metric: as for `pivot`.
            beside: as for `pivot`.
            plus_minus: what follows a mean: half its 95 % `interval`, the `sd` over seeds, or `none`.

        Raises:
            BadInput: as for `pivot`.
        """
        with one_thread():
            return render_pivot(self._pivot(metric, beside), form, plus_minus)

    @property
    def front(self) -> pa.Table:
        """The Pareto front of every search of several objectives, a row per point.

        Columns are model, dataset, number and hyper-parameters of the point, and the mean of each objective over the
        search seeds.

        Raises:
            BadInput: no search of the sweep has several objectives, or none has scored a point.
        """
        with one_thread():
            found = analysed(self.store)
            return front_table(found.state, found.trade_offs.values())

    @property
    def plot(self) -> Plots:
        """Figures of the report, for a notebook: `found.plot.means()`, `.curve()`, `.search("cmm")`, …"""
        return Plots(look=lambda: analysed(self.store))

    def figures(self, formats: str = "pdf") -> list[Store]:
        """Writes the report's figures, with their captions, into the folder `figures` of the sweep's store.

        This is what `crowdsweep report --figures` does.

        Args:
            formats: pdf, svg, png, or several separated by commas.

        Returns:
            The written files.

        Raises:
            BadInput: a format is not known, or a file is in the way that crowdsweep did not write.
            WriteFailed: the files could not be written.
        """
        wanted = formats_of(formats)
        with one_thread():
            return write_figures(analysed(self.store), wanted)

    def methods(self, *, latex: bool = False) -> str:
        """Returns a methods paragraph for a paper, as `crowdsweep report --methods` prints it.

        Every number in it comes from the record.
        """
        with one_thread():
            return methods_paragraph(analysed(self.store), latex=latex)

    @property
    def study(self) -> pa.Table | None:
        """The numbers of the sweep's study (such as labels needed, or gain and cost of more labels), a row each.

        This is `study.csv` of the report; None where the sweep has no study.
        """
        with one_thread():
            found = analysed(self.store).study
        return None if found is None else study_table(found)

    @property
    def status(self) -> dict[str, Any]:
        """Status of the sweep: counts, best models so far, latest failures; as `crowdsweep status --json` prints it."""
        return sweep_status(self._state, self.store)

    @property
    def report(self) -> Store:
        """The file of the report's page."""
        return self.store / "report.html"

    def recommended(self, dataset: str | None = None) -> Chosen:
        """Returns the model that the report recommends: its `model`, `params`, and `why`.

        Args:
            dataset: the dataset, for a sweep with several.

        Raises:
            BadInput: there are several datasets and none is named, there is no such dataset, or no model is ranked yet.
        """
        with one_thread():
            return chosen_of_sweep(analysed(self.store), dataset)

    def label(self, dataset: str | None = None, *, model: str | None = None, seeds: int | None = None) -> Fit:
        """Fits the recommended model, at its chosen point, to all data, as `crowdsweep label DIR` does.

        Args:
            dataset: the dataset, for a sweep with several.
            model: label, in the sweep file, of another model than the recommended one.
            seeds: number of fits that are averaged; None for the number of report seeds of the sweep.

        Raises:
            BadInput: as for `recommended`; or the dataset has changed since the sweep ran, or `seeds` is below 1.
            FitFailed: a fit failed.

        Warns:
            ConvergenceWarning: a fit ended while its objective still clearly improved.
        """
        if seeds is not None:
            check_seeds(seeds)
            seeds = int(seeds)
        given = {"dataset": dataset, "model": model, "seeds": seeds}
        words = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        with one_thread():
            chosen = chosen_of_sweep(analysed(self.store), dataset, model, seeds)
        registered.build_model(chosen.model, chosen.params)  # loads the numeric libraries, which are then limited
        with one_thread():
            fitted = fit_everything(
                chosen.model, chosen.params, chosen.data(), chosen.dataset_params, n_seeds=chosen.n_seeds
            )
        if fitted.unfinished:
            warnings.warn(fitted.unfinished, ConvergenceWarning, stacklevel=2)
        command = f"crowdsweep.results({str(self.store)!r}).label({words})"
        return Fit(fitted=fits_to_save(fitted), source=chosen.dataset, why=chosen.why, command=command)

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
    """Opens the results of a sweep, which may still be running.

    Args:
        store: the sweep's folder, its name below `crowdsweep-runs`, or its URI in an object store
            (`s3://bucket/prefix`).

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
    """Runs a sweep, or resumes it without repeating the trials that its record holds, and then writes the report.

    Ctrl-C ends the sweep in order and is raised once everything is written; pressed twice, it ends the sweep at once.

    Args:
        sweep: a sweep file, a dataset's folder, the name of a built-in sweep (`crowdsweep.sweeps()` lists them), or the
            contents of a sweep file as a mapping. Folders in it are relative to the file, else to the working folder.
        store: folder or URI (`s3://bucket/prefix`) of the record; None for `crowdsweep-runs/NAME`.
        overrides: values for single keys of the sweep file, such as `{"seeds.report": 3}`.
        engine: `inline` or `ray`, in place of the sweep file's.
        address: address of a Ray cluster to join.
        retry_failed: whether to run trials again that failed in earlier runs.
        quiet: whether to show no progress.
        live: whether to keep the report's page up to date during the run, and to print its address.

    Raises:
        BadInput: the sweep cannot be run; nothing was run or written.
        JournalLocked: another driver is at work on this record.
        InfeasibleRequest: the cluster has no room for a single slot.
        WriteFailed: the report could not be written; the record is kept.
        KeyboardInterrupt: the sweep was interrupted; the same call resumes it.
    """
    if threading.current_thread() is not threading.main_thread():
        raise BadInput(
            "run: expected to be called in the main thread, as only that one receives Ctrl-C; start a process for it"
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
        return sweep_of(_of_yaml(sweep, Where()), Where(), words)
    return asked_sweep(sweep, words)


def _of_yaml(value: Any, where: Where) -> Any:
    """Returns a value with the types that a sweep file has: lists for tuples, ranges and arrays, texts for paths.

    Raises:
        BadInput: a key is no text, or the value nests deeper than a sweep file may.
    """
    value = without_numpy(value)
    if len(where.path) > MAX_DEPTH:
        raise BadInput(where.says(f"expected values that nest at most {MAX_DEPTH} deep"))
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:  # pyright: ignore[reportUnknownVariableType]: anything may stand there
            raise BadInput(where.says(f"expected texts as keys, got {wrong[0]!r}"))
        return {key: _of_yaml(part, where.at(key)) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]: as above
    if isinstance(value, list | tuple | range):
        return [_of_yaml(part, where.at(index)) for index, part in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]: as above
    return str(value) if isinstance(value, PurePath) else value


def _as_json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, default=without_numpy, check_circular=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"overrides, {key}: expected a value that a sweep file may have, got {value!r}"[:300]) from error


def next_calls(overrides: Mapping[str, Any], store: Store) -> app.NextSteps:
    """Returns the calls that resume a sweep, retry its failures, or show its status and report."""
    found = f"crowdsweep.results({str(store)!r})"
    return app.NextSteps(
        go_on="the same call of `run`",
        retry="retry_failed=True",
        with_key=lambda key, value: f"overrides={dict(overrides) | {key: value}!r}",
        status=f"`{found}.status`",
        report=f"`crowdsweep report {shlex.quote(str(store))}`",
    )
