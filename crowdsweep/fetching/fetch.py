"""Fetches a public dataset into a dataset folder: complete and verified, or not at all.

Downloads are kept in `.crowdsweep-fetch/NAME` beside the folder until that is complete, so that an interrupted command
can resume. Downloads that fail a check are removed.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import yaml

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.folder import is_dataset_folder, read_folder
from crowdsweep.data.on_disk.new_folder import check_new, written_whole
from crowdsweep.data.public import Counts, PublicDataset, PublicFile
from crowdsweep.errors import DataError, error_words
from crowdsweep.fetching.archives import extract
from crowdsweep.fetching.converters import CONVERTERS, Release
from crowdsweep.fetching.download import digest_of, download
from crowdsweep.files import csv_files
from crowdsweep.files.inside import names_below, opened_folder
from crowdsweep.paths import is_file
from crowdsweep.units import show_file_size

DOWNLOADS = ".crowdsweep-fetch"
SOURCE_FILE = "SOURCE.md"


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A dataset that has been fetched.

    Attributes:
        folder: folder of the dataset.
        was_there: whether the dataset was there before.
    """

    folder: Path
    was_there: bool


def lies_in(place: Path, public: PublicDataset) -> bool:
    """Whether a folder of datasets has this dataset."""
    if public.converter:
        return is_dataset_folder(place / public.name)
    return all(is_file(place / public.name / name) for name in _kept(public))


def fetch(public: PublicDataset, place: Path, tell: Callable[[str], None]) -> Fetched:
    """Fetches a dataset into a folder of its name; does nothing where the dataset is there already.

    Args:
        public: the dataset.
        place: the folder of datasets that gets the dataset's folder; created where it is missing.
        tell: receives sentences on the progress.

    Raises:
        DataError: a file cannot be downloaded or fails a check, or the folder cannot be written.
    """
    folder = place / public.name
    if lies_in(place, public):
        return Fetched(folder=folder, was_there=True)
    check_new(folder)
    try:
        with opened_folder(place, DOWNLOADS, public.name, make=True) as downloads:
            here = place / DOWNLOADS / public.name
            received = {file.name: download(file.url, here, file.name, tell) for file in public.files}
            try:
                _build(public, received, folder, tell)
            finally:
                _remove(downloads)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error_words(error)}; choose another place by --to") from error
    finally:
        _remove_folders(place, public.name)
    return Fetched(folder=folder, was_there=False)


def _build(public: PublicDataset, received: Mapping[str, Path], folder: Path, tell: Callable[[str], None]) -> None:
    """Checks the downloaded files, and writes the dataset folder."""
    files: dict[str, Path] = {}
    digests: dict[str, str] = {}
    for file in public.files:
        path = received[file.name]
        _check_kind(file, path)
        digests[file.name] = _checked_digest(file, path, tell)
        files |= extract(path, file.members, path.parent) if file.members else {file.name: path}
    release = CONVERTERS[public.converter](files) if public.converter else None
    with written_whole(folder) as draft:
        (draft / SOURCE_FILE).write_text(_source_text(public, digests), encoding="utf-8")
        if release is None:  # its checksums identify it
            for name in _kept(public):
                shutil.copyfile(files[name], draft / name)
            return
        _write(public, release, draft)
        _check_counts(public, read_folder(draft))


def _kept(public: PublicDataset) -> list[str]:
    """Returns the names of the files that a dataset consists of; for an archive, those of its members."""
    return [name for file in public.files for name in (file.members or (file.name,))]


def _check_kind(file: PublicFile, path: Path) -> None:
    """Refuses a web page in place of a file, which sites send when the file has moved or needs a login."""
    with path.open("rb") as opened:
        beginning = opened.read(512).lstrip().lower()
    if beginning.startswith((b"<!doctype html", b"<html")):
        raise DataError(f"{file.url}: expected {file.name}, got a web page (HTML); it was removed: has it moved?")


def _checked_digest(file: PublicFile, path: Path, tell: Callable[[str], None]) -> str:
    """Returns a file's digest as `algorithm:hexadecimal`, checked against the published checksum if there is one."""
    size = show_file_size(path.stat().st_size)
    if file.checksum is None:
        received = f"sha256:{digest_of(path, 'sha256')}"
        tell(f"{file.name}: {size}; no checksum is published; received {received}")
        return received
    algorithm, _, wanted = file.checksum.partition(":")
    if (received := digest_of(path, algorithm)) != wanted:
        raise DataError(
            f"{file.url}: expected a file whose {algorithm} is {wanted}, got {received} ({size}); it was removed: "
            f"fetch it again; if the checksum is the same, the published file has changed"
        )
    tell(f"{file.name}: {size}; its checksum is as published ({file.checksum})")
    return file.checksum


def _write(public: PublicDataset, release: Release, folder: Path) -> None:
    csv_files.write_rows(folder / "annotations.csv", ("item", "annotator", "label"), release.answers)
    columns = list(dict.fromkeys(name for known in release.items.values() for name in known))
    rows = ((item, *(known.get(name, "") for name in columns)) for item, known in release.items.items())
    csv_files.write_rows(folder / "items.csv", ("item", *columns), rows)
    csv_files.write_rows(folder / "classes.csv", ("label", "name"), public.classes.items())
    for kind, features in release.features.items():
        np.savez(
            folder / f"features-{kind}.npz", features=features.astype(np.float32), item=np.array(list(release.items))
        )
    about = {"name": public.name, "title": public.title, "scale": "nominal", "missing": []}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(about, sort_keys=False), encoding="utf-8")


def _check_counts(public: PublicDataset, dataset: CrowdDataset) -> None:
    """Refuses a dataset whose counts are not the published ones: another version, or a file that was cut or changed."""
    rows = dataset.annotations
    found = Counts(
        items=dataset.items.n_items,
        annotated=int((rows.labels_per_item > 0).sum()),
        annotators=rows.n_active_annotators,
        annotations=len(rows),
        gold=len(np.unique(dataset.gold.item)),
    )
    if found != public.counts:
        wanted, got = asdict(public.counts), asdict(found)
        differences = ", ".join(
            f"{wanted[name]:,} {name}, got {got[name]:,}" for name in got if wanted[name] != got[name]
        )
        raise DataError(
            f"{public.name}: expected {differences}; the files received are not those that the papers describe, and "
            f"were removed: see {public.home}"
        )


def _source_text(public: PublicDataset, digests: Mapping[str, str]) -> str:
    files = "\n".join(f"- {file.url}\n  {digests[file.name]}" for file in public.files)
    return (
        f"# {public.title}\n\nLicence: {public.licence}.\nCite: {public.citation}.\nAbout it: {public.home}\n\n"
        f"Fetched by crowdsweep from:\n\n{files}\n"
    )


def _remove(folder: int) -> None:
    """Removes the files in an opened folder of downloads."""
    for name in names_below(folder):
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)


def _remove_folders(place: Path, name: str) -> None:
    """Removes the folders of downloads if they are empty."""
    with suppress(OSError), opened_folder(place, DOWNLOADS) as above:
        os.rmdir(name, dir_fd=above)
    with suppress(OSError), opened_folder(place) as above:
        os.rmdir(DOWNLOADS, dir_fd=above)
