"""A newcomer's first step: a dataset folder with sweep files in it, or the sweep that a folder is run by."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.folder import is_dataset_folder
from crowdsweep.data.formats.normalise import normalised
from crowdsweep.data.formats.registry import read_form
from crowdsweep.data.formats.write import write_rows
from crowdsweep.errors import BadInput, DataError, error_words
from crowdsweep.newcomer.choices import Chosen, choose, facts_of
from crowdsweep.newcomer.guess import Guess
from crowdsweep.newcomer.sweep_text import STUDY_FILE, SWEEP_FILE, redundancy_text, sweep_text
from crowdsweep.sweepfile.located import parse_yaml, with_overrides
from crowdsweep.sweepfile.read import load_sweep, parse_sweep
from crowdsweep.sweepfile.records import SweepConfig


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What was written.

    Attributes:
        dataset: of the folder.
        chosen: models that fit it, those that are left out too.
        files: names of what was written into the folder.
        notes: what was left out or taken for what, in sentences.
    """

    dataset: CrowdDataset
    chosen: tuple[Chosen, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AskedSweep:
    """A sweep that a person named by a file or by a dataset's folder.

    Attributes:
        config: the sweep.
        note: what a person should know of it; empty for a file.
    """

    config: SweepConfig
    note: str = ""


def begin_with_file(path: Path, guess: Guess, folder: Path, *, normalise: bool = False) -> Begun:
    """Writes a file of labels as a dataset folder, with its sweep files: whole, or not at all.

    Raises:
        DataError: the file cannot be taken so, or the folder holds files already.
    """
    imported = read_form(guess.form, path, guess.asked)
    if normalise:
        imported = normalised(imported)
    texts: dict[str, str] = {}
    chosen: list[Chosen] = []

    def beside(dataset: CrowdDataset) -> dict[str, str]:
        made, models = _texts(dataset, folder, {})
        texts.update(made)
        chosen.extend(models)
        return made

    dataset = write_rows(imported, folder, beside=beside)
    return Begun(dataset=dataset, chosen=tuple(chosen), files=tuple(texts), notes=tuple(imported.notes))


def begin_with_folder(folder: Path) -> Begun:
    """Writes sweep files into a dataset folder.

    Raises:
        DataError: it is no dataset's folder, holds a sweep file already, or cannot be written.
    """
    dataset, params = _loaded(folder)
    texts, chosen = _texts(dataset, folder, params)
    for name in texts:
        if (folder / name).exists():
            raise DataError(f"{folder / name}: stands there already, and is kept; move it away to have it written anew")
    written: list[Path] = []
    try:
        for name, text in texts.items():
            written.append(folder / name)
            written[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise DataError(f"{folder}: cannot be written: {error_words(error)}; copy it to a place that can") from error
    return Begun(dataset=dataset, chosen=tuple(chosen), files=tuple(texts))


def asked_sweep(path: Path, overrides: Iterable[str] = ()) -> AskedSweep:
    """Returns the sweep of a sweep file, or of a dataset's folder: its `sweep.yaml`, else what `init` would write.

    Args:
        path: the file or folder.
        overrides: as for `load_sweep`.

    Raises:
        BadInput: the sweep file or the dataset cannot be used, or the folder is none of a dataset.
    """
    if not path.is_dir():
        return AskedSweep(config=load_sweep(path, overrides))
    file = path / SWEEP_FILE
    if file.is_file():
        return AskedSweep(config=load_sweep(file, overrides), note=f"{path}: running its {SWEEP_FILE}")
    dataset, params = _loaded(path)
    facts = facts_of(dataset, params)
    chosen = choose(facts, str(path))
    text = sweep_text(path, facts, chosen, dataset=str(path.resolve()))
    value, where = with_overrides(*parse_yaml(text, f"default sweep of {path}"), tuple(overrides))
    n_models = sum(not one.left_out for one in chosen)
    note = (
        f"{path}: {n_models} models that fit these data; to see and change the sweep, write it into the folder: "
        f"`crowdsweep init {shlex.quote(str(path))}`"
    )
    return AskedSweep(config=parse_sweep(value, "", where), note=note)


def _loaded(folder: Path) -> tuple[CrowdDataset, dict[str, Scalar]]:
    """Returns a folder's dataset, and the parameters that it takes to load it."""
    if not is_dataset_folder(folder):
        record = (folder / "journal.jsonl").exists()
        hint = (
            "it is a sweep's record: name the sweep file, or `crowdsweep status` it"
            if record
            else ("of a file of labels, `crowdsweep init FILE` makes one")
        )
        raise BadInput(f"{folder}: expected a dataset's folder, with annotations.csv or votes.csv; {hint}")
    kinds = sorted(path.name.removeprefix("features-").removesuffix(".npz") for path in folder.glob("features-*.npz"))
    params: dict[str, Scalar] = {"features": kinds[0]} if len(kinds) > 1 else {}
    return catalogue.load(str(folder.resolve()), params), params


def _texts(dataset: CrowdDataset, folder: Path, params: dict[str, Scalar]) -> tuple[dict[str, str], list[Chosen]]:
    facts = facts_of(dataset, params)
    chosen = choose(facts, str(folder))
    study = redundancy_text(folder, facts, chosen)
    texts = {SWEEP_FILE: sweep_text(folder, facts, chosen)}
    return texts if study is None else {**texts, STUDY_FILE: study}, chosen
