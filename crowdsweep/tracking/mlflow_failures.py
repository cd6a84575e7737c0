"""Messages for errors of MLflow, its databases and its servers: one line, without SQL, web pages or secrets."""

import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from crowdsweep.errors import CrowdsweepError, plain
from crowdsweep.record.shown_uri import redacted, without_credentials
from crowdsweep.tracking.object_failures import of_objects
from crowdsweep.tracking.run_book import Rejected
from crowdsweep.tracking.uri import database_file

_BEYOND_REPAIR = "INVALID_PARAMETER_VALUE"
_LIMIT = 400
_NO_MORE = re.compile(r"\s*(\[SQL:|\[parameters:|\(Background on this error|Response body:|Traceback \(most recent)")
_STATUS = re.compile(r"failed with error code (\d{3})|too many (\d{3}) error responses")
_LOGIN = re.compile("authentication failed|no password supplied|access denied|login failed", re.IGNORECASE)
_DRIVERS = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
    "pymysql": "pymysql",
    "pymssql": "pymssql",
    "pyodbc": "pyodbc",
    "boto3": "boto3",
    "botocore": "boto3",
}
"""Module of a driver → package to install for it."""
_OF_DISKS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written, as when it is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
}


class TrackingFailed(OSError):
    """MLflow could not do what was asked now; a later attempt may succeed."""


@contextmanager
def translated_errors(uri: str) -> Generator[None]:
    """Translates exceptions of MLflow into the project's errors, without a cause; the project's own errors pass.

    Raises:
        Rejected: MLflow will never accept what it was given.
        TrackingFailed: anything else, not only `MlflowException`: drivers and databases raise their own exceptions.
    """
    try:
        yield
    except (Rejected, TrackingFailed, CrowdsweepError):
        raise
    except Exception as error:  # noqa: BLE001 - each driver and each database has its own exceptions
        kind = TrackingFailed
        if isinstance(error, MlflowException) and error.error_code == _BEYOND_REPAIR:
            kind = Rejected
        raise kind(words_of(error, uri)) from None


def words_of(error: BaseException, uri: str) -> str:
    """Returns the message of an error in one line.

    Args:
        uri: MLflow's tracking URI, whose secrets are removed from the message.
    """
    said = _said(error, uri)
    text = plain(" ".join(redacted(_NO_MORE.split(said, maxsplit=1)[0], uri).split()))
    return text if len(text) <= _LIMIT else text[:_LIMIT] + "…"


def _said(error: BaseException, uri: str) -> str:
    if isinstance(error, MlflowException) and isinstance(error.__cause__, SQLAlchemyError):
        error = error.__cause__
    if words := of_objects(error):
        return words
    of_database = isinstance(error, DBAPIError)
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error, uri)
    if isinstance(error, ImportError):
        return _of_driver(error)
    text = str(error)
    if isinstance(error, MlflowException):
        return _of_server(text)
    if isinstance(error, OSError | Rejected):
        return text
    if _LOGIN.search(text) and without_credentials(uri) == uri:
        keeps = (
            "the record does not keep passwords: give the complete URI as MLFLOW_TRACKING_URI, or to `mirror` as --uri"
        )
        return f"{text.strip()}; {keeps}"
    return text if of_database else f"{type(error).__name__}: {text}"


def _of_sqlite(error: sqlite3.Error, uri: str) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary part of an extended code
    what = _OF_DISKS.get(code)
    return f"{database_file(uri) or 'the database'}: {what} ({error})" if what else str(error)


def _of_driver(error: ImportError) -> str:
    module = (error.name or "").partition(".")[0]
    if package := _DRIVERS.get(module):
        what = "this object store needs the package" if package == "boto3" else "this database needs the driver"
        return f"{what} {module}, which is not installed: `pip install '{package}'`"
    return f"a package that it needs cannot be imported: {error}"


def _of_server(text: str) -> str:
    if "timeout exception" in text:
        return "the server accepts connections but does not answer"
    if "not in a valid JSON" in text:
        return "it answers, but not as an MLflow server; is the address right?"
    if status := _STATUS.search(text):
        return of_status(int(status[1] or status[2]))
    return text


def of_status(code: int) -> str:
    """Returns a message for a server's HTTP status that is neither 200 nor an error of MLflow's own."""
    if code == 401:
        return (
            "the server requires a user name and a password (401): set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    if code == 403:
        return "the server denies access to this user, or to this operation (403)"
    if code == 404:
        return "there is no MLflow server at this address (404)"
    if code >= 500:
        return f"the server failed (status {code})"
    return f"the server answered {code}, which an MLflow server does not"
