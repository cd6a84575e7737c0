"""The environment variables that matter: a tracking server, a cluster, folders of datasets and of plug-ins."""

import os

from crowdsweep.data import catalogue
from crowdsweep.engine.address import check_answers, wanted_address
from crowdsweep.errors import BadInput, error_words, plain, shortened
from crowdsweep.health.finding import Finding
from crowdsweep.paths import expand_home, is_folder
from crowdsweep.record.shown_uri import redacted, without_credentials
from crowdsweep.registry import discovery


def surroundings() -> list[Finding]:
    """Returns the findings on what environment variables name."""
    return [_tracking(), _cluster(), _data(), _plugins()]


def _tracking() -> Finding:
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri:
        return Finding(what="tracking", verdict="ok", words="MLflow runs are written to a database beside each record")
    from crowdsweep.tracking.mlflow_reachable import check_reachable  # noqa: PLC0415 - mlflow takes seconds to import

    shown = f"MLFLOW_TRACKING_URI, {plain(shortened(without_credentials(uri)))},"
    try:
        check_reachable(uri)
    except (OSError, BadInput) as error:
        words = f"{shown} cannot be used: {redacted(error_words(error), uri)}"
        then = "sweeps run without MLflow; `crowdsweep mirror` writes their runs later"
        return Finding(what="tracking", verdict="note", words=words, then=then)
    return Finding(what="tracking", verdict="ok", words=f"{shown} answers")


def _cluster() -> Finding:
    what = "cluster"
    try:
        wanted = wanted_address(None)
        if wanted == "local":
            return Finding(
                what=what, verdict="ok", words="each sweep starts Ray on this machine, and stops it at the end"
            )
        if wanted == "auto":
            return Finding(what=what, verdict="ok", words="RAY_ADDRESS is auto: the cluster of this machine is joined")
        check_answers(wanted, wanted)
    except BadInput as error:
        then = "unset RAY_ADDRESS to have sweeps run on this machine"
        return Finding(what=what, verdict="problem", words=str(error), then=then)
    return Finding(what=what, verdict="ok", words=f"RAY_ADDRESS: a Ray cluster answers at {wanted}")


def _data() -> Finding:
    what, named = "datasets", _named(catalogue.SEARCH_PATH)
    if missing := [folder for folder in named if not is_folder(expand_home(folder))]:
        return _missing(what, catalogue.SEARCH_PATH, missing)
    n = len(catalogue.names())
    words = f"{n} are known by name" if named else f"{n} are known by name; any folder can be given by its path"
    then = "" if named else f"set {catalogue.SEARCH_PATH} to the folder of yours, to use them by name as well"
    return Finding(what=what, verdict="ok", words=words, then=then)


def _plugins() -> Finding:
    what, named = "plug-ins", _named(discovery.SEARCH_PATH)
    if missing := [folder for folder in named if not is_folder(expand_home(folder))]:
        return _missing(what, discovery.SEARCH_PATH, missing)
    try:
        n = sum(
            not place.module for kind in ("model", "dataset", "template") for place in discovery.find(kind).values()
        )
    except BadInput as error:
        return Finding(what=what, verdict="problem", words=str(error))
    return Finding(what=what, verdict="ok", words=f"{n} models, datasets and studies" if n else "none")


def _named(variable: str) -> list[str]:
    return [folder for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _missing(what: str, variable: str, missing: list[str]) -> Finding:
    words = (
        f"{variable} names something that is not a folder: {', '.join(plain(shortened(folder)) for folder in missing)}"
    )
    return Finding(what=what, verdict="note", words=words, then="remove it, or make the folder")
