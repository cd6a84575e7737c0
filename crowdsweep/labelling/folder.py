"""The folder that `crowdsweep label` writes: tables, a classifier, and the recipe that recreates the folder."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, WriteFailed, error_words
from crowdsweep.files.csv_files import write_safe_table
from crowdsweep.files.owned import replaced
from crowdsweep.labelling.chosen import Chosen
from crowdsweep.labelling.clusters import cluster_tables
from crowdsweep.labelling.crowd_tables import CrowdTables, crowd_tables
from crowdsweep.labelling.exports.asked import NOTHING, Exports
from crowdsweep.labelling.exports.registry import Writer
from crowdsweep.labelling.fitted import Fitted, fit_everything
from crowdsweep.labelling.in_mlflow import log_labels_classifier
from crowdsweep.labelling.label_files import CLASSIFIER_OF_LABELS, LABELS, check_folder, place_of
from crowdsweep.labelling.labelled import Labelled, labelled_items
from crowdsweep.labelling.recipe import RECIPE, read_recipe
from crowdsweep.labelling.tables import answers_table, labels_table, probabilities_table
from crowdsweep.paths import exists, is_folder
from crowdsweep.record.fetched import as_folder, files_of
from crowdsweep.record.store_uri import Store

_log = logging.getLogger(__name__)


def label_chosen(
    chosen: Chosen,
    folder: Store,
    command: str,
    tell: Callable[[str], object],
    *,
    exports: Exports = NOTHING,
    uri: str | None = None,
) -> None:
    """Fits the chosen model, writes its labels, and logs the classifier in MLflow where the model comes from a sweep.

    Args:
        command: the command that writes the same labels again.
        exports: what is written for other tools too.
        uri: MLflow's tracking URI from the sweep file; the record has it without secrets.

    Raises:
        BadInput: the folder cannot be used, the dataset has changed since the sweep, the model cannot take it, or an
            export cannot hold its labels.
        FitFailed: a fit failed.
        WriteFailed: as for `write_labels`.
    """
    check_folder(folder)  # before the fit, which may take long
    tell(f"{chosen.model}: {chosen.why}")
    data = chosen.data()
    writers = exports.writers(data)
    fitted = fit_everything(chosen.model, chosen.params, data, chosen.dataset_params, n_seeds=chosen.n_seeds)
    if fitted.unfinished:
        _log.warning("%s", fitted.unfinished)
    about = {"command": command, "why": chosen.why, "dataset": chosen.dataset}
    labelled = labelled_items(fitted)
    for line in write_labels(labelled, crowd_tables(labelled), folder, about, writers):
        tell(line)
    if chosen.store is None:
        return
    with as_folder(folder, CLASSIFIER_OF_LABELS) as place:
        try:
            served = log_labels_classifier(chosen.store, place, fitted, uri)
        except BadInput as error:
            _log.warning("%s; the labels are written, label again to log it", error)
        else:
            if served:
                tell(served)


def default_folder(place: Store, dataset: str, fingerprint: str = "") -> Store:
    """Returns the default folder for labels: `place`, or a folder beside it where `place` holds another dataset's
    labels. Labels that were written before the dataset's folder was moved still count as this dataset's.

    Args:
        place: the preferred folder, which may hold labels of this dataset or of others.
        dataset, fingerprint: as in `Chosen`.
    """
    own = Path(dataset)
    parts = [*own.absolute().parts[1:]][::-1] if is_folder(own) else [dataset.replace("/", "-")]
    name = place.name
    for part in parts:
        if not _holds_another(place, dataset, fingerprint):
            return place
        if f"-{name}-".endswith(f"-{part}-"):
            continue
        name = f"{name}-{part}"
        place = place.with_name(name)
    return place


def _holds_another(folder: Store, dataset: str, fingerprint: str) -> bool:
    """Returns whether a folder holds the labels of another dataset. A dataset of another name does not count as another
    if that name no longer exists and its data were the same."""
    try:
        with files_of(folder, (RECIPE,)) as file:
            there = read_recipe(file)
    except BadInput:
        return False
    if there.dataset == dataset or Path(there.dataset).absolute() == Path(dataset).absolute():
        return False
    if not there.fingerprint or exists(there.dataset) or there.dataset in catalogue.names():
        return True
    return there.fingerprint != fingerprint


def write_labels(
    labelled: Labelled, crowd: CrowdTables, folder: Store, about: Mapping[str, str], exports: Sequence[Writer] = ()
) -> list[str]:
    """Writes all results of labelling, whole or not at all. Files of an earlier call are replaced; files that somebody
    else put there or changed stay (`files.owned`).

    Args:
        folder: where they are written; see `check_folder`.
        about: the `command` that recreates them, `why` this model, and the `dataset`'s folder or name.

    Returns:
        Messages of a line each: what was written, and what users of the labels should know.

    Raises:
        BadInput: a form of another tool cannot hold these labels, or a file is in the way.
        WriteFailed: the folder cannot be written, or another process is writing there.
    """
    facts = _facts(labelled, crowd)
    try:
        with as_folder(folder, LABELS, write=True) as place:
            root, parts = place_of(place)
            with replaced(root, parts, LABELS) as fresh:
                _write_files(labelled, crowd, fresh, exports)
                files = sorted(path.name + ("/" if is_folder(path) else "") for path in fresh.iterdir())
                recipe = _recipe(labelled.fitted, about, {**facts, "files": files})
                (fresh / RECIPE).write_text(recipe, encoding="utf-8")
    except OSError as error:
        raise WriteFailed(
            f"{folder}: could not be written ({error_words(error)}); nothing there was changed. Correct "
            f"that, then label again"
        ) from error
    calibrated = f"probabilities calibrated: {facts['calibration']['in_words']}"
    return [f"{folder}: {', '.join(sorted([*files, RECIPE]))}", calibrated, *facts["notes"]]


def _write_files(labelled: Labelled, crowd: CrowdTables, folder: Path, exports: Sequence[Writer]) -> None:
    """Writes everything but the recipe."""
    for name, table in _tables(labelled, crowd):
        if table is not None and name.endswith(".csv"):
            write_safe_table(folder / name, table)
        elif table is not None:
            with (folder / name).open("wb") as file:  # Arrow cannot open a path that is not UTF-8
                pq.write_table(table, file)
        del table  # before the next is made
    for write in exports:
        for name, content in write(labelled).items():
            (folder / name).write_bytes(content)
    _write_classifiers(labelled.fitted, folder)


def _tables(labelled: Labelled, crowd: CrowdTables) -> Iterator[tuple[str, pa.Table | None]]:
    """Yields the files of tables, each made when its turn comes; None for those that there is nothing to write in."""
    labels = labels_table(labelled)
    yield from (("labels.csv", labels), ("labels.parquet", labels))
    del labels
    yield from (("annotators.csv", crowd.annotators), ("next.csv", crowd.next_items))
    yield "confusion.parquet", crowd.confusion
    if (clusters := cluster_tables(labelled.fitted)) is not None:
        yield from (("item_clusters.csv", clusters.items), ("annotator_clusters.csv", clusters.annotators))
        yield "clusters.csv", clusters.answers
    yield "answers.csv", answers_table(labelled)
    yield "probabilities.parquet", probabilities_table(labelled)
    yield "raw-probabilities.parquet", probabilities_table(labelled, raw=True)


def _write_classifiers(fitted: Fitted, folder: Path) -> None:
    """Writes the classifiers of all fits, where each of them is a network on features."""
    if not fitted.predictors:
        return
    from crowdsweep.labelling.classifiers import plain_classifier, save_classifiers  # noqa: PLC0415 - torch takes seconds to import

    plain = [one for predictor in fitted.predictors if (one := plain_classifier(predictor)) is not None]
    if len(plain) == len(fitted.fits):
        aligned = [one.reordered(fit.order) for one, fit in zip(plain, fitted.fits, strict=True)]
        save_classifiers(folder / "classifier", aligned, fitted.dataset.class_labels, fitted.model)


def _facts(labelled: Labelled, crowd: CrowdTables) -> dict[str, Any]:
    """Returns how probabilities and intervals were calibrated, and notes on what contradicts them."""
    found = labelled.calibrations
    calibration = {"in_words": found.answered.words(), **asdict(found.answered)}
    if found.unseen.rows:
        calibration["unseen_items"] = {"in_words": found.unseen.words(), **asdict(found.unseen)}
    notes = list(crowd.notes)
    if note := labelled.gold_note():
        notes.append(note)
    return {"calibration": calibration, "annotators_temperature": float(crowd.temperature), "notes": notes}


def _recipe(fitted: Fitted, about: Mapping[str, str], made: Mapping[str, Any]) -> str:
    told: dict[str, Any] = {
        "command": about["command"],
        "model": fitted.model,
        "why": about["why"],
        "params": dict(fitted.params),
        "dataset": about["dataset"],
        "dataset_params": dict(fitted.dataset_params),
        "fingerprint": fitted.dataset.fingerprint,
        "seeds": list(fitted.seeds),
        "classes": list(fitted.dataset.class_labels),
        **made,
        "written": datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True)
