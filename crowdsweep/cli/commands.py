"""The command line: each command parses its arguments, calls one part of the platform and prints the result.

Heavy libraries are imported inside the commands that need them, so that `--help` and listings are fast.
"""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

import click

from crowdsweep.cli.about import datasets, doctor, explain, models, schema
from crowdsweep.cli.add import add
from crowdsweep.cli.completion import completion, models_named, stores_named, stores_or_datasets_named
from crowdsweep.cli.data import EXPORT_NAMES, data
from crowdsweep.cli.fetch import fetch
from crowdsweep.cli.help import Commands
from crowdsweep.cli.init import init
from crowdsweep.cli.loading_notice import LoadingNotice, next_notice, set_loading_notice, start_loading_notice
from crowdsweep.cli.outcome import (
    EXIT_BAD_INPUT,
    EXIT_FAILED_TRIALS,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.cli.paths import PATH, STORE
from crowdsweep.cli.running import plan, run
from crowdsweep.cli.stores import compare, list_stores, named_store, status, stop, store_argument
from crowdsweep.cli.submit import submit, submitted
from crowdsweep.cli.sweeps import demo, sweeps
from crowdsweep.errors import BadInput, CrowdsweepError, error_words, is_out_of_memory, plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import asked_store, stores_in

if TYPE_CHECKING:
    from crowdsweep.analysis.trial_table import TablePhase
    from crowdsweep.views.tables.pivot import PlusMinus
    from crowdsweep.views.tables.texts import TableFormat

record_argument = click.argument("store", metavar="DIR", type=STORE, shell_complete=stores_named)


def run_command_line(arguments: Sequence[str], *, waiting: LoadingNotice | None = None) -> int:
    """Runs one command and returns its exit code: 0, 2 (bad input), 3 or 4 (see `exit_code`), or 130 (interrupted).

    Args:
        arguments: arguments of the command line, from the name of the command on.
        waiting: timer of the notice that the program is loading, where a user waits for it.
    """
    try:
        code = commands.main(list(arguments), prog_name="crowdsweep", standalone_mode=False, obj=waiting)
    except CrowdsweepError as error:
        say(f"error: {plain(str(error))}", err=True)
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        output = StringIO()
        error.show(output)
        say(output.getvalue().rstrip("\n"), err=True)
        return EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        return EXIT_INTERRUPTED
    except SystemExit:  # only click's: the reader of a pipe has closed it, as `head` does
        return EXIT_OK
    except Exception as error:
        if _is_of_printing(error):
            what = "write it to another place, or make room there, then do the same again"
            _say_at_last(f"error: the output could not be written ({plain(error_words(error))}); {what}")
            return EXIT_BAD_INPUT
        if isinstance(error, FileNotFoundError) and _is_here_gone():
            _say_at_last("error: the current folder was removed; change to another one, then do the same again")
            return EXIT_BAD_INPUT
        if not is_out_of_memory(error):
            raise
        what = "what was written is whole: give this command more, or other programs less, then do the same again"
        say(f"error: there is no more memory ({plain(error_words(error))}); {what}", err=True)
        return EXIT_BAD_INPUT
    return code if isinstance(code, int) else EXIT_OK


def _is_of_printing(error: Exception) -> bool:
    """Whether an error is that of a stream that what is printed cannot be written to, such as a file on a full disk."""
    frames = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    return isinstance(error, OSError) and frames[-1] is click.echo.__code__


def _is_here_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _say_at_last(message: str) -> None:
    """Prints an error, if there is still a place to print it to."""
    with suppress(OSError):
        say(message, err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="crowdsweep")
@click.pass_context
def commands(context: click.Context) -> None:
    """Find out which model of crowd annotations is best on your data, with which settings, and how sure that is."""
    start_loading_notice(context)


for command in (
    *(run, plan, data, init, add, schema, submit, submitted, list_stores, status, stop, compare, completion),
    *(demo, doctor, explain, fetch, sweeps, models, datasets),
):
    commands.add_command(command)


@commands.command()
@click.argument("stores", metavar="[DIR …]", nargs=-1, type=STORE, shell_complete=stores_named)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json", "md", "latex"]),
    help="By default csv of trials; of the pivot, a table for the terminal.",
)
@click.option("--phase", type=click.Choice(["search", "report", "all"]), default="report", show_default=True)
@click.option(
    "--all-trials", is_flag=True, help="Also trials of earlier versions of the sweep file, marked by `asked`."
)
@click.option(
    "--layout",
    type=click.Choice(["trials", "pivot", "front"]),
    default="trials",
    show_default=True,
    help="A row per trial, models × datasets as papers print them, or the Pareto front of searches.",
)
@click.option(
    "--metric", metavar="NAME", help="What ranks in the pivot, such as test_macro_f1; else what the report says."
)
@click.option(
    "--plus-minus",
    type=click.Choice(["interval", "sd", "none"]),
    default="interval",
    show_default=True,
    help="What follows a mean in the pivot.",
)
def results(
    stores: tuple[Store, ...],
    form: "TableFormat | None",
    phase: "TablePhase",
    all_trials: bool,
    layout: str,
    metric: str | None,
    plus_minus: "PlusMinus",
) -> None:
    """Print one row per trial: what it was, how it ended, what it cost and every metric; or models × datasets; or the
    Pareto front of searches of several objectives.

    Of several sweeps the rows of all, or the models of all on the data that they share.
    """
    if layout == "front":
        _print_front(stores, form, asked=phase != "report" or all_trials or metric is not None)
        return
    if layout == "pivot":
        if phase != "report" or all_trials:
            raise BadInput("--layout pivot: shows what the report counts; leave --phase and --all-trials out")
        _print_pivot(stores, form, metric, plus_minus)
        return
    if metric is not None:
        raise BadInput("--metric: ranks models in a pivot, and trials have no rank; add --layout pivot")
    from crowdsweep.analysis.trial_table import results_of_all
    from crowdsweep.record.journal import read_journal
    from crowdsweep.views.tables.texts import render_table

    states = [read_journal(store) for store in _named_stores(stores)]
    click.echo(render_table(results_of_all(states, phase, every=all_trials), form or "csv").rstrip("\n"))


def _named_stores(given: tuple[Store, ...]) -> list[Store]:
    return [asked_store(store) for store in given] if given else [named_store(None)]


def _print_front(stores: tuple[Store, ...], form: "TableFormat | None", *, asked: bool) -> None:
    if asked:
        raise BadInput("--layout front: shows points of searches; leave --phase, --all-trials and --metric out")
    import pyarrow as pa

    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.analysis.trade_offs import front_table
    from crowdsweep.views.tables.texts import render_table

    sweeps = [analysed(store) for store in _named_stores(stores)]
    tables = [front_table(found.state, found.trade_offs.values()) for found in sweeps]
    click.echo(render_table(pa.concat_tables(tables, promote_options="default"), form or "csv").rstrip("\n"))


def _print_pivot(
    stores: tuple[Store, ...], form: "TableFormat | None", metric: str | None, plus_minus: "PlusMinus"
) -> None:
    from crowdsweep.analysis.several_sweeps import pivot_of_all
    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.views.tables.pivot import render_pivot
    from crowdsweep.views.terminal.grid import terminal_width
    from crowdsweep.views.terminal.pivot import pivot_text

    found = pivot_of_all([analysed(store) for store in _named_stores(stores)], metric)
    text = render_pivot(found, form, plus_minus) if form else pivot_text(found, terminal_width(), plus_minus)
    click.echo(text.rstrip("\n"))


@commands.command()
@store_argument
@click.option(
    "--live", is_flag=True, help="Write it again while the sweep runs; the open page follows. Ctrl-C ends it."
)
@click.option(
    "--figures",
    metavar="FORMATS",
    help="Also write its figures, with captions, into figures/: pdf, svg, png or several.",
)
@click.option("--methods", is_flag=True, help="Print a methods paragraph for a paper, and write nothing.")
@click.option("--latex", is_flag=True, help="The methods paragraph as LaTeX.")
def report(store: Store | None, live: bool, figures: str | None, methods: bool, latex: bool) -> None:
    """Write report.html, table.md, table.csv, table.tex and results.parquet from the record."""
    if live and (figures is not None or methods):
        raise BadInput("--live: ends when the sweep does; use --figures or --methods without it")
    if latex and not methods:
        raise BadInput("--latex: is of the methods paragraph; add --methods")
    set_loading_notice(f"{store or 'the latest sweep'}: reading it")
    if methods or figures is not None:
        _for_a_paper(store, figures, methods=methods, latex=latex)
        return
    if live:
        from crowdsweep.analysis.underway.started import started_store
        from crowdsweep.views.live import live_report

        live_report(started_store(store, lambda words: say(words, err=True)), click.echo)
        return
    from crowdsweep.views.report_files import write_report

    click.echo(write_report(named_store(store)))


def _for_a_paper(store: Store | None, formats: str | None, *, methods: bool, latex: bool) -> None:
    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.views.papers import formats_of, methods_paragraph, write_figures
    from crowdsweep.views.report_files import check_can_report, write_files

    wanted = formats_of(formats) if formats is not None else ()
    named = named_store(store)
    if wanted or not methods:
        check_can_report(named)
    found = analysed(named)
    if methods:
        click.echo(methods_paragraph(found, latex=latex))
    else:
        click.echo(write_files(found))
    if wanted:
        say(f"{found.store / 'figures'}: {len(write_figures(found, wanted))} files", err=methods)


@commands.command()
@click.argument("place", metavar="[DIR]", required=False, shell_complete=stores_or_datasets_named)
@click.option(
    "--model",
    shell_complete=models_named,
    metavar="NAME",
    help="Another model than the one that the sweep's report recommends, or label takes of a dataset without a sweep.",
)
@click.option("--dataset", metavar="NAME", help="Of a sweep with several datasets, the one to label.")
@click.option("--out", type=STORE, help="Where to write; DIR/labels of a sweep, else crowdsweep-labels/NAME.")
@click.option("--seeds", type=click.IntRange(1), help="Fits that are averaged; the sweep's report seeds, else 5.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A hyper-parameter, without a sweep.")
@click.option(
    "--export",
    "exports",
    multiple=True,
    type=click.Choice(EXPORT_NAMES),
    help="Also write files that this tool reads; same: the one whose file the dataset was made of.",
)
@click.option(
    "--interface",
    type=PATH,
    metavar="FILE",
    help="XML of the Label Studio project that predictions are for, whose names they then have.",
)
def label(
    place: str | None,
    model: str | None,
    dataset: str | None,
    out: Store | None,
    seeds: int | None,
    settings: tuple[str, ...],
    exports: tuple[str, ...],
    interface: Path | None,
) -> None:
    """Fit the model that a sweep recommends to all data, and write labels, annotators and what to label next.

    DIR is the folder of a sweep, by default the latest here, or a dataset's folder or name, which needs no sweep.
    """
    set_loading_notice(f"{place or 'the latest sweep'}: reading it")
    from crowdsweep.labelling.chosen import chosen_at
    from crowdsweep.labelling.exports.asked import Exports
    from crowdsweep.labelling.folder import default_folder, label_chosen

    place = place or str(named_store(None))
    chosen = chosen_at(place, dataset, model, settings, seeds)
    folder = out or default_folder(chosen.usual_folder, chosen.dataset, chosen.fingerprint)
    words = ["crowdsweep", "label", place, *(["--model", model] if model else [])]
    words += [*(["--dataset", dataset] if dataset else []), *(part for one in settings for part in ("--set", one))]
    asked = Exports(forms=exports, interface=interface)
    words += ["--seeds", str(chosen.n_seeds), "--out", str(folder), *asked.words]

    def tell(line: str) -> None:
        say(plain(line))
        next_notice(f"fitting {chosen.model}")

    label_chosen(chosen, folder, shlex.join(words), tell, exports=asked)


@commands.command()
@record_argument
@click.option("--uri", help="Where to write; MLFLOW_TRACKING_URI, else the database beside the record.")
def mirror(store: Store, uri: str | None) -> None:
    """Rebuild MLflow's runs from the record: what is missing or incomplete is written again."""
    from crowdsweep.views import in_mlflow

    in_mlflow.mirror(asked_store(store), uri, say)


@commands.command()
@record_argument
def repair(store: Store) -> None:
    """Put a damaged record right by the rows that can be read, keeping a copy; `run` then makes up for the others."""
    from crowdsweep.record.repair import repair_journal

    store = asked_store(store)
    done = repair_journal(store)
    if done.copy is None:
        say(f"{store}: sound, {done.kept} rows; nothing was changed")
        return
    lost = f", {done.missing} missing" if done.missing else ""
    lost += f", ends of {done.without_arrays} trials without their arrays taken out" if done.without_arrays else ""
    say(f"{store}: {done.kept} rows kept, {done.dropped} dropped{lost}; as it was: {done.copy}")


@commands.command()
@click.argument("key")
@click.option("--store", type=STORE, help="The sweep's record; all of crowdsweep-runs/ by default.")
@as_json
def replay(key: str, store: Store | None, as_json: bool) -> int:
    """Run one trial again, alone, by its key (or the start of it), and compare with the record."""
    from crowdsweep.sweep.replay import replay_trial

    stores: list[Store] = [asked_store(store)] if store is not None else [*sorted(stores_in())]
    outcome = replay_trial(key, stores)
    click.echo(json_text(outcome.to_mapping())) if as_json else say(outcome.describe())
    return EXIT_OK if outcome.same else EXIT_FAILED_TRIALS


@commands.command()
@store_argument
@click.option("--port", default=5000, show_default=True)
def ui(store: Store | None, port: int) -> int:
    """Open a sweep's runs in MLflow: on the server that tracks it, else served on 127.0.0.1 until Ctrl-C."""
    set_loading_notice("starting MLflow's server")
    from crowdsweep.tracking.ui import serve

    return serve(named_store(store), port, announce=say)
