"""The files of a report: the page, the comparison for papers and programs, every trial, and maps."""

import io
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet

from crowdsweep.analysis.flat_tables import comparison_table, study_table
from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.errors import WriteFailed, error_words
from crowdsweep.files.csv_files import to_csv
from crowdsweep.files.inside import check_can_write
from crowdsweep.files.owned import replace_files
from crowdsweep.paths import is_file, is_folder
from crowdsweep.record.fetched import as_folder, files_of
from crowdsweep.record.kept_arrays import without_files
from crowdsweep.record.store_files import ARTIFACTS, STORE, STUDY_FILE
from crowdsweep.record.store_uri import Store
from crowdsweep.views.figures.of_report import pictures
from crowdsweep.views.page.page import render_page
from crowdsweep.views.page.underway import Underway
from crowdsweep.views.tables.reading import comparison_for_reading

PAGE = "report.html"
WRITTEN = (PAGE, "table.md", "table.csv", "table.tex")
"""Files that MLflow shows too."""

_log = logging.getLogger(__name__)


def write_report(store: Store) -> Store:
    """Writes the report of a sweep into its store: `report.html`, `table.md`, `table.csv`, `table.tex` and
    `results.parquet`. A study also has `study.csv`. Where models keep the data that maps are drawn from, there are maps
    (`of_report.pictures`: `annotators-1.png` …).

    All files are made before the first is written, and all are written or none. Maps that an earlier report drew and
    this one does not are removed. Files that crowdsweep did not write are never overwritten (`files.owned`).

    Args:
        store: store of the sweep, as a person would write it: commands on the page name it so.

    Returns:
        The page's path.

    Raises:
        JournalError: there is no sweep in that folder.
        WriteFailed: they could not be written (a full disk, a folder that is read-only).
        ForeignFile: a file of that name exists that crowdsweep did not write, or that was changed since.
    """
    check_can_report(store)
    return write_files(analysed(store))


def check_can_report(store: Store) -> None:
    """Checks, before a record is read and analysed, that files can be written into its folder.

    Raises:
        WriteFailed: they cannot.
    """
    if isinstance(store, Path) and is_folder(store):
        try:
            check_can_write(store)
        except OSError as error:
            raise _not_written(store, store, error) from error


def write_files(found: AnalysedSweep, running: Underway | None = None) -> Store:
    """Writes the files of `write_report`, for a sweep that has been read; `running` as for `render_page`."""
    put_in_store(found, rendered(found, running))
    return found.store / PAGE


def rendered(found: AnalysedSweep, running: Underway | None = None) -> dict[str, bytes]:
    """Returns the files of `write_report` by name."""
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(found.results(), parquet)
    pyarrow.default_memory_pool().release_unused()
    texts = {**_for_programs(found), **comparison_for_reading(found), PAGE: render_page(found, running)}
    return {
        "results.parquet": parquet.getvalue(),
        **dict(pictures(found.maps)),
        **{name: text.encode(errors="backslashreplace") for name, text in texts.items()},
    }


def _for_programs(found: AnalysedSweep) -> dict[str, str]:
    """Returns the comparison, and the numbers of a study where there are some, as tables for programs."""
    tables = {"table.csv": comparison_table(found.comparison)}
    if found.study is not None and found.study.numbers:
        tables[STUDY_FILE] = study_table(found.study)
    return {name: to_csv(table) for name, table in tables.items()}


def put_in_store(found: AnalysedSweep, files: Mapping[str, bytes]) -> None:
    """Writes the files of a sweep's report into its store: all of them, or none.

    Raises:
        WriteFailed, ForeignFile: as for `write_report`.
    """
    store = found.store
    try:
        with as_folder(store, STORE, write=True) as folder:
            replace_files(folder, STORE, files, make=False)  # a store that was removed meanwhile stays removed
    except OSError as error:
        raise _not_written(store / error.filename if error.filename in files else store, store, error) from error
    if gone := without_files(found.state.results.values(), found.rows):
        _log.warning(
            "%s: files of %d trials are missing from %s, so intervals and tests do without them. `crowdsweep repair "
            "%s`, then run the same sweep again, which runs those trials again",
            *(store, gone, store / ARTIFACTS, store),
        )


def _not_written(place: Store, store: Store, error: OSError) -> WriteFailed:
    return WriteFailed(
        f"{place}: could not be written ({error_words(error)}); what was there before is unchanged, and the record is "
        f"safe. Check the disk, then run `crowdsweep report {shlex.quote(str(store))}`"
    )


def written_files(store: Store) -> dict[str, bytes]:
    """Returns the page and the tables of a sweep's report from its store; those that exist."""
    with files_of(store, WRITTEN) as folder:
        return {name: (folder / name).read_bytes() for name in WRITTEN if is_file(folder / name)}
