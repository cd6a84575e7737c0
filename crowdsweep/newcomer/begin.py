"""A newcomer's first step: a dataset folder with sweep files in it, or the sweep that a folder is run by."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.folder import is_dataset_folder
from crowdsweep.data.formats.normalise import normalised
from crowdsweep.data.formats.registry import read_form
from crowdsweep.data.formats.rows import ImportedRows, shown
from crowdsweep.data.formats.write import write_rows
from crowdsweep.data.missing import perhaps_missing
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.spelling import alike
from crowdsweep.errors import BadInput, DataError, error_words
from crowdsweep.files.asked import is_file, is_folder, stands
from crowdsweep.files.drafts import write_new
from crowdsweep.files.located import parse_yaml
from crowdsweep.newcomer.choices import Chosen, choose, facts_of
from crowdsweep.newcomer.guess import Guess
from crowdsweep.newcomer.sweep_text import STUDY_FILE, SWEEP_FILE, redundancy_text, sweep_text
from crowdsweep.sweepfile.overrides import with_overrides
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
        made, models = _texts(dataset, folder, {}, ())
        texts.update(made)
        chosen.extend(models)
        return made

    dataset = write_rows(imported, folder, beside=beside)
    notes = (
        *guess.notes,
        *imported.notes,
        *_perhaps_no_answers(imported),
        *_spelled_alike(imported),
        *_mistaken(dataset),
    )
    return Begun(dataset=dataset, chosen=tuple(chosen), files=tuple(texts), notes=notes)


def begin_with_folder(folder: Path) -> Begun:
    """Writes sweep files into a dataset folder.

    Raises:
        DataError: it is no dataset's folder, holds a sweep file already, or cannot be written.
    """
    found = _loaded(folder)
    texts, chosen = _texts(found.dataset, folder, found.params, found.notes)
    for name in texts:
        if stands(folder / name):
            raise DataError(f"{folder / name}: stands there already, and is kept; move it away to have it written anew")
    try:
        write_new(folder, {name: text.encode() for name, text in texts.items()})
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error_words(error)}; copy it to a place that can") from error
    return Begun(dataset=found.dataset, chosen=tuple(chosen), files=tuple(texts), notes=found.notes)


def asked_sweep(path: Path, overrides: Iterable[str] = ()) -> AskedSweep:
    """Returns the sweep of a sweep file, or of a dataset's folder: its `sweep.yaml`, else what `init` would write.

    Args:
        path: the file or folder.
        overrides: as for `load_sweep`.

    Raises:
        BadInput: the sweep file or the dataset cannot be used, or the folder is none of a dataset.
    """
    if not is_folder(path):
        return AskedSweep(config=load_sweep(path, overrides))
    file = path / SWEEP_FILE
    if is_file(file):
        return AskedSweep(config=load_sweep(file, overrides), note=f"{path}: by its {SWEEP_FILE}")
    found = _loaded(path)
    facts = facts_of(found.dataset, found.params)
    chosen = choose(facts, str(path))
    text = sweep_text(path, facts, chosen, dataset=str(path.resolve()))
    value, where = with_overrides(*parse_yaml(text, f"default sweep of {path}"), tuple(overrides))
    n_models = sum(not one.left_out for one in chosen)
    note = (
        f"{path}: {n_models} models that fit these data; to see and change the sweep, write it into the folder: "
        f"`crowdsweep init {shlex.quote(str(path))}`"
    )
    return AskedSweep(config=parse_sweep(value, "", where), note=" ".join([*found.notes, note]))


def _perhaps_no_answers(imported: ImportedRows) -> Iterator[str]:
    """Yields a sentence on each class that is called as other programs write an answer that was not given."""
    counts = Counter(label for row in imported.rows for label in row.labels)
    for label in () if imported.missing.told else perhaps_missing(list(counts)):
        yield (
            f"{counts[label]:,} answers are {shown(label)}, taken for a class like any other; where that means that "
            f"there is no answer, begin anew with --missing={shlex.quote(label)}"
        )


def _mistaken(dataset: CrowdDataset) -> Iterator[str]:
    """Yields what else of the dataset is most likely a mistake, but spellings, which are told by what joins them."""
    for oddity in mistakes(dataset):
        if "spelling" not in oddity.kind:
            yield str(oddity)


def _spelled_alike(imported: ImportedRows) -> Iterator[str]:
    """Yields a sentence on the classes, items and annotators that differ only in spelling."""
    classes = [label for row in imported.rows for label in row.labels]
    classes += [label for given in imported.gold.values() for label in given]
    people = [row.annotator for row in imported.rows]
    for kind, names in (("classes", classes), ("items", imported.items), ("annotators", people)):
        if groups := alike(names):
            told = "; ".join(" and ".join(map(repr, group[:4])) for group in groups[:3])
            more = "; …" if len(groups) > 3 else ""
            yield f"{kind} that differ only in spelling: {told}{more}; --normalise joins them"


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """A folder's dataset, the parameters that it takes to load it, and why these, in sentences."""

    dataset: CrowdDataset
    params: dict[str, Scalar]
    notes: tuple[str, ...]


def _loaded(folder: Path) -> _Loaded:
    """Loads a folder as it can be: of several kinds of features the first, without features of annotators that are not
    whole or of several kinds."""
    if not is_dataset_folder(folder):
        record = is_file(folder / "journal.jsonl")
        hint = (
            "it is a sweep's record: name the sweep file, or `crowdsweep status` it"
            if record
            else ("of a file of labels, `crowdsweep init FILE` makes one")
        )
        raise BadInput(f"{folder}: expected a dataset's folder, with annotations.csv or votes.csv; {hint}")
    kinds = sorted(path.name.removeprefix("features-").removesuffix(".npz") for path in folder.glob("features-*.npz"))
    params: dict[str, Scalar] = {}
    notes: list[str] = []
    if len(kinds) > 1:
        params["features"] = kinds[0]
        notes.append(
            f"There are features of several kinds, and those of {kinds[0]} are taken; "
            f"`features: [{', '.join(kinds)}]` runs every model on each kind."
        )
    place = str(folder.resolve())
    try:
        dataset = catalogue.load(place, params)
    except DataError as error:
        if not (any(folder.glob("annotators.*")) or any(folder.glob("annotator-features-*.npz"))):
            raise
        params["annotator_features"] = "none"
        try:
            dataset = catalogue.load(place, params)
        except DataError:
            raise error from None
        notes.append(f"Features of annotators are left out: {error}")
    return _Loaded(dataset=dataset, params=params, notes=tuple(notes))


def _texts(
    dataset: CrowdDataset, folder: Path, params: dict[str, Scalar], notes: tuple[str, ...]
) -> tuple[dict[str, str], list[Chosen]]:
    facts = facts_of(dataset, params)
    chosen = choose(facts, str(folder))
    study = redundancy_text(folder, facts, chosen)
    texts = {SWEEP_FILE: sweep_text(folder, facts, chosen, notes=notes)}
    return texts if study is None else {**texts, STUDY_FILE: study}, chosen
