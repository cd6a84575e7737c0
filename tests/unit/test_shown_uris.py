"""What is shown of a tracking URI: its scheme, its host, and what is known to be a name; the rest is hidden."""

from pathlib import Path
from urllib.parse import quote

import pytest

from crowdsweep.errors import BadInput
from crowdsweep.record.shown_uri import redacted, without_credentials
from crowdsweep.tracking.uri import recorded_uri, tracking_uri

SECRETS = ("hunter2", "hunter/2", "hunt@er2", "hunt:er2", "hunt?er#2", "correct horse")
SHOWN = {
    "https://host/{}": "https://host/***",
    "https://host/{}/mlflow": "https://host/***/mlflow",
    "https://host:8443/api/{}/": "https://host:8443/api/***/",
    "https://me:{}@host/ml": "https://host/ml",
    "https://{}:@host/ml": "https://host/ml",
    "https://{}@host/ml": "https://host/ml",
    "http://me:{}@[::1]:5000/": "http://[::1]:5000/",
    "http://me:{}": "http://me:***",
    "file://me:{}@host/data/runs": "file://host/data/runs",
    "file://{}@/data/runs": "file:///data/runs",
    "sqlite+pysqlcipher://:{}@/runs.db": "sqlite+pysqlcipher:///runs.db",
    "sqlite:////data/runs.db?key={}": "sqlite:////data/runs.db",
    "postgresql://me:{}@host:5432/runs": "postgresql://host:5432/runs",
    "postgresql://host/runs?password={}&sslmode=require": "postgresql://host/runs",
    "mysql+pymysql://{}@host/runs": "mysql+pymysql://host/runs",
    "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{}": "mssql+pyodbc:///",
    "databricks://profile:{}": "databricks://profile:***",
    "me:{}@https://host/ml": "***://host/ml",
    "token={}": "token=***",
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("uri", SHOWN)
def test_what_could_be_a_secret_is_hidden(uri: str, secret: str) -> None:
    """Written as URIs ask for it; and as people write it, where a person may."""
    given = uri.format(quote(secret, safe=""))
    assert without_credentials(given) == SHOWN[uri]
    assert without_credentials(SHOWN[uri]) == SHOWN[uri], "what is shown is shown again"
    for form in (secret, quote(secret, safe="")):
        assert form not in redacted(f"cannot use {form!r} of {given}", given)


@pytest.mark.parametrize(
    "uri",
    [
        "http://host:5000",
        "https://host/mlflow/",
        "sqlite:////data/a #b/mlflow.db",
        "sqlite:////a/b@c.db",
        "postgresql+psycopg2://host:5432/runs_of_2026",
        "file:///data/mlruns",
        "databricks",
        "./mlruns",
    ],
)
def test_what_holds_no_secret_is_shown_whole(uri: str) -> None:
    assert without_credentials(uri) == uri
    assert redacted(f"cannot use {uri}", uri) == f"cannot use {uri}"


def test_the_variable_brings_what_a_record_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "postgresql://me:hunter2@host/runs"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", whole)
    assert recorded_uri(tmp_path, {"tracking": {"uri": "postgresql://host/runs"}}) == whole
    assert recorded_uri(tmp_path, {"tracking": {"uri": "postgresql://host/other"}}) == "postgresql://host/other"
    assert tracking_uri(tmp_path) == whole
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    with pytest.raises(BadInput, match="expected a complete URI"):
        recorded_uri(tmp_path, {"tracking": {"uri": "https://host/***"}})
