"""A sweep whose runs are not in the database beside its record: where they are, and whether they can be served here."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import BadInput, plain
from crowdsweep.record.shown_uri import HIDDEN, without_credentials
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.artifact_files import experiment_in, relocate_artifacts
from crowdsweep.tracking.artifact_places import FOLDER
from crowdsweep.tracking.sweep_page import VIEW_TAG, experiments_link, runs_link
from crowdsweep.tracking.uri import database_file, sqlite_uri, tracking_uri

_OF_MLFLOW = "mlruns"  # MLflow's artifact folder for a database on a server, where the sweep was started


@dataclass(frozen=True, kw_only=True)
class ServedElsewhere:
    """What MLflow's server is started with.

    Attributes:
        uri: URI of the database, with the name and the password that it needs.
        artifacts: the one folder whose files are served.
        runs: link to the sweep's runs, within the server's pages.
        remote: whether artifacts in object stores are served too, with the credentials of the environment.
    """

    uri: str
    artifacts: Path
    runs: str
    remote: bool = False


def place_elsewhere(state: JournalState, database: Path) -> str | None:
    """Returns the URI, without secrets, of the place elsewhere that has a sweep's runs; None where they are in the
    database beside its record, or nowhere.

    It is the place that the sweep file names, or else the one that the runs were last written to.
    """
    own, asked = sqlite_uri(database), state.config.get("tracking", {}).get("uri")
    places = [asked] if asked else [] if database.is_file() else [*state.runs][::-1]
    for place in map(without_credentials, places):  # the record may be anybody's
        file = database_file(place)
        if place != own and (file is None or file.is_file()):
            return place
    return None


def address_of(state: JournalState, place: str) -> str | None:
    """Returns the web address of a sweep's runs on a tracking server; None where the place is not such a server, or the
    record has only a part of its URI."""
    if not place.startswith(("http://", "https://")) or HIDDEN in place:
        return None
    known = state.runs.get(place)
    return f"{place.rstrip('/')}/{runs_link(known.experiment_id, viewed=False)}" if known else place


def is_of_a_server(place: str) -> bool:
    """Whether a place is a tracking server, which has its own pages, and not a database."""
    return place.startswith(("http://", "https://", "databricks"))


def served_elsewhere(store: Store, state: JournalState, place: str) -> ServedElsewhere:
    """Checks that a database elsewhere can be served, and returns what to serve. It creates nothing there, because only
    a record names the place.

    Raises:
        BadInput: the database does not answer, is not MLflow's, or needs a name and a password that were not given.
    """
    uri = tracking_uri(store, place)
    file = database_file(uri)
    try:
        if file is not None:
            relocate_artifacts(file, whole=False)
            return ServedElsewhere(uri=uri, artifacts=file.with_name(FOLDER), runs=runs_in(file, state))
        from crowdsweep.tracking.mlflow_reachable import check_tables  # noqa: PLC0415 - mlflow takes seconds to import

        check_tables(uri)
    except OSError as error:
        raise BadInput(
            f"this sweep is tracked in {place}, which cannot be opened: {plain(str(error))}; correct this, then do it "
            f"again. If the database needs a user name and a password, give the complete URI as MLFLOW_TRACKING_URI"
        ) from None
    known = state.runs.get(place)
    runs = experiments_link() if known is None else runs_link(known.experiment_id, viewed=False)
    return ServedElsewhere(uri=uri, artifacts=Path.cwd() / _OF_MLFLOW, runs=runs, remote=True)


def runs_in(database: Path, state: JournalState) -> str:
    """Returns the link to a sweep's runs within the pages of a database's server, or to all experiments if it is not
    known."""
    found = experiment_in(database, state.config.get("tracking", {}).get("experiment") or state.name, VIEW_TAG)
    return experiments_link() if found is None else runs_link(found[0], viewed=found[1])


def server_words(state: JournalState, place: str) -> str:
    """Returns a message that says where the runs of a sweep on a tracking server can be seen."""
    if address := address_of(state, place):
        return f"this sweep is tracked on {place}: {address}"
    return f"this sweep is tracked on {place}: open it there"


def mirror_words(store: Store, state: JournalState) -> str:
    """Returns the command that writes a sweep's runs into the database beside its record."""
    mirror = f"crowdsweep mirror {shlex.quote(str(store))}"
    if os.environ.get("MLFLOW_TRACKING_URI") and not state.config.get("tracking", {}).get("uri"):
        mirror = f"MLFLOW_TRACKING_URI= {mirror}"  # without it, `mirror` would write to the variable's place
    return mirror
