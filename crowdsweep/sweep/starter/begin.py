"""The starter sweep files of a dataset's folder, and the sweep that is run when the user names a folder."""

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from crowdsweep.data import catalogue
from crowdsweep.data.computed.features import with_computed
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.on_disk.folder import is_dataset_folder
from crowdsweep.data.on_disk.folder_files import feature_kinds
from crowdsweep.errors import BadInput, DataError, error_words
from crowdsweep.files.drafts import write_new
from crowdsweep.files.located import parse_yaml
from crowdsweep.importing.file_to_folder import imported_file
from crowdsweep.importing.guess import Guess
from crowdsweep.paths import is_file, is_folder, lexists
from crowdsweep.sweep.starter.choices import Chosen, choose, facts_of
from crowdsweep.sweep.starter.sweep_text import STUDY_FILE, SWEEP_FILE, redundancy_text, sweep_text
from crowdsweep.sweepfile.named import asked_file, sweep_names
from crowdsweep.sweepfile.read import load_sweep, sweep_of
from crowdsweep.sweepfile.records import SweepConfig

_OF_TEXTS = "text:tfidf"
_ON_TEXTS = (
    "Items have texts: their words are features, of which classifiers learn. Sentence embeddings tell more: "
    "`features: {text: sentence-transformers/all-MiniLM-L6-v2}`, after `pip install 'crowdsweep[text]'`."
)

_ON_IMAGES = (
    "Items have images. Features of them are `features: {image: timm/resnet50.a1_in1k}` beside the dataset's name (or "
    "another model of timm), after `pip install 'crowdsweep[images]'`; models with a classifier, such as soft-mv and "
    "crowd-layer, then learn of these."
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StarterSweep:
    """The starter sweep files of a dataset's folder.

    Attributes:
        chosen: models that fit the dataset, including those that are left out.
        texts: file name → text; the file of the sweep itself is the first.
        notes: sentences on how the dataset was read.
    """

    dataset: CrowdDataset
    chosen: tuple[Chosen, ...]
    texts: Mapping[str, str]
    notes: tuple[str, ...] = ()


def begin_with_file(path: Path, guess: Guess, folder: Path, *, normalise: bool) -> StarterSweep:
    """Writes a file of labels as a dataset's folder, with starter sweep files: all of it, or nothing.

    Args:
        guess: what it is taken for; without doubts.
        folder: new or empty.
        normalise: whether to join names that differ only in spelling.

    Returns:
        The sweep; its notes say what the user may have meant in another way.

    Raises:
        DataError: as for `imported_file`; or no model can be fitted to these data.
    """
    with imported_file(guess.form, path, guess.asked, folder, normalise=normalise) as (imported, place):
        begun = _begun(_with_features(_Loaded(dataset=imported.dataset, params={}, notes=())), folder)
        for name, text in begun.texts.items():
            (place / name).write_text(text, encoding="utf-8")
    return replace(begun, notes=(*guess.notes, *imported.rows.notes, *imported.doubtful()))


def begin_with_folder(folder: Path) -> StarterSweep:
    """Writes starter sweep files into a dataset's folder.

    Raises:
        BadInput: the folder holds no dataset.
        DataError: the dataset cannot be loaded, the folder holds one of the sweep files already, or cannot be written.
    """
    begun = _begun(_loaded(folder), folder)
    for name in begun.texts:
        if lexists(folder / name):
            raise DataError(f"{folder / name}: already exists, and is kept; move it away to have it written again")
    try:
        write_new(folder, {name: text.encode() for name, text in begun.texts.items()})
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error_words(error)}; copy it to a place that can") from error
    return begun


def asked_sweep(
    given: str | Path, overrides: Iterable[str] = (), tell: Callable[[str], object] = _log.info
) -> SweepConfig:
    """Returns the sweep of a sweep file, of a dataset's folder, or of that name among the packaged sweeps.

    The sweep of a folder is its `sweep.yaml`, else the one that `init` would write. `asked_file` finds what a name
    means.

    Args:
        overrides: as for `load_sweep`.
        tell: receives what the user should know of the choice, as a text; not called where there is nothing.

    Raises:
        BadInput: the sweep file or the dataset cannot be used, the folder holds no dataset, or nothing has that name.
    """
    asked = asked_file(given)
    path, file, notes = asked.path, asked.path / SWEEP_FILE, [asked.note]
    if not is_folder(path):
        config = load_sweep(path, overrides)
    elif is_file(file):
        config = load_sweep(file, overrides)
        notes.append(f"{path}: by its {SWEEP_FILE}")
    else:
        begun = _begun(_loaded(path), path, str(path.resolve()))
        config = sweep_of(*parse_yaml(begun.texts[SWEEP_FILE], f"default sweep of {path}"), overrides)
        n_models = sum(not one.left_out for one in begun.chosen)
        how = f"to see and change the sweep, write it into the folder: `crowdsweep init {shlex.quote(str(path))}`"
        notes += [*begun.notes, f"{path}: {n_models} models that fit these data; {how}"]
    if said := " ".join(filter(None, notes)):
        tell(said)
    return config


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """The dataset of a folder, the parameters that load it, and the reasons for these, in sentences."""

    dataset: CrowdDataset
    params: dict[str, Scalar]
    notes: tuple[str, ...]


def _begun(found: _Loaded, folder: Path, dataset: str = ".") -> StarterSweep:
    """Returns the starter sweep files of a dataset in a folder; `dataset` is the dataset's name in these files."""
    facts = facts_of(found.dataset, found.params)
    chosen = choose(facts, str(folder))
    texts = {SWEEP_FILE: sweep_text(folder, facts, chosen, dataset=dataset, notes=found.notes)}
    if (study := redundancy_text(folder, facts, chosen)) is not None:
        texts[STUDY_FILE] = study
    return StarterSweep(dataset=found.dataset, chosen=tuple(chosen), texts=texts, notes=found.notes)


def _loaded(folder: Path) -> _Loaded:
    """Loads a folder's dataset with parameters that work, and notes why it took them.

    If there are several kinds of item features, the first is taken. Annotator features are left out where they are
    incomplete or of several kinds.
    """
    if not is_dataset_folder(folder):
        hint = "of a file of labels, `crowdsweep init FILE` makes one"
        if is_file(folder / "journal.jsonl"):
            hint = "it is a sweep's record: name the sweep file, or `crowdsweep status` it"
        elif str(folder) in sweep_names():
            hint += f"; the sweep of that name that comes with crowdsweep is `crowdsweep sweeps {folder} > FILE.yaml`"
        raise BadInput(f"{folder}: expected a dataset's folder, with annotations.csv or votes.csv; {hint}")
    kinds = feature_kinds(folder)
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
    return _with_features(_Loaded(dataset=dataset, params=params, notes=tuple(notes)))


def _with_features(found: _Loaded) -> _Loaded:
    """Returns a dataset with features of its texts, where all of its items have texts and none has other features.

    Items in units stay without features, since the sentence of a token says more than its word. Features of images cost
    a download and minutes; a note says how to get them.
    """
    items = found.dataset.items
    if items.features is None and found.dataset.images is not None:
        found = replace(found, notes=(*found.notes, _ON_IMAGES))
    if items.features is not None or items.text is None or items.unit is not None:
        return found
    try:
        dataset = with_computed(found.dataset, _OF_TEXTS)
    except DataError:  # some items have no text, or the texts have no words in common
        return found
    params: dict[str, Scalar] = {**found.params, "features": _OF_TEXTS}
    dataset = replace(dataset, params={**dataset.params, "features": _OF_TEXTS})
    return _Loaded(dataset=dataset, params=params, notes=(*found.notes, _ON_TEXTS))
