"""The folder of labels: which of its files crowdsweep owns, and from where the folder is reached."""

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from crowdsweep.errors import BadInput, ForeignFile, place_words
from crowdsweep.files.drafts import is_draft
from crowdsweep.files.inside import content_of, names_below
from crowdsweep.files.names import NoName, inside
from crowdsweep.files.owned import Kind, check_owned
from crowdsweep.labelling.recipe import LARGEST, RECIPE, recipe_of
from crowdsweep.paths import check_path, is_file, is_folder, lexists
from crowdsweep.record.fetched import check_place
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import Store

CLASSIFIER = "classifier"
_FILE = re.compile(
    r"label\.yaml|(labels|annotators|answers|next|item_clusters|annotator_clusters|clusters)\.csv"
    r"|(labels|probabilities|raw-probabilities|confusion|crowd-kit-labels|crowd-kit-probabilities|cleanlab-labels)"
    r"\.parquet|label-studio\.(json|xml)|cleanlab-pred-probs\.npy|argilla\.json|(doccano|prodigy|potato)\.jsonl"
    r"|mturk\.csv|lewidi(-(train|dev|test|unlabelled))?-(soft|pe)\.tsv|(matrix|snorkel|peerannot)-(labels"
    r"|probabilities)\.npy|(cleanlab|matrix|snorkel|peerannot)-classes\.json|(matrix|snorkel)-items\.json"
    r"|classifier/(classifier\.json|fit-[0-9]{1,6}\.safetensors)"
)
_FACTS = ("command", "model", "dataset", "fingerprint", "seeds", "classes", "files", "written")


def place_of(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Returns the root from which a folder is reached, and the names below it, none of which may be a link. A folder in
    a sweep's store is reached from the store; any other folder is its own root."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - of a link, the link's own name
    for above in absolute.parents:
        if is_file(above / JOURNAL_FILE):
            return above, absolute.relative_to(above).parts
    return folder, ()


def check_folder(folder: Store) -> None:
    """Checks that labels may be written to a folder: it is new or empty, or labels were written to it before.

    Raises:
        BadInput: it holds something else, or files that were changed since; or it cannot be read or written.
    """
    if not isinstance(folder, Path):
        check_place(folder, LABELS)
        return
    check_path(folder, "a folder")
    if lexists(folder) and not is_folder(folder):
        raise BadInput(f"{folder}: expected a new or empty folder, or one of labels, got a file")
    root, parts = place_of(folder)
    try:
        check_owned(root, parts, LABELS)
    except OSError as error:
        raise BadInput(
            f"{folder}: expected a folder that labels can be written to, got {place_words(error)}; correct "
            f"that, or give another folder (--out)"
        ) from error


def _files_told(folder: int) -> tuple[str, ...] | None:
    """Returns the files that the recipe in an opened folder lists; None where there is no complete recipe."""
    try:
        recipe = recipe_of(Path(RECIPE), content_of(folder, RECIPE, LARGEST) or b"")
    except BadInput:
        return None
    return tuple(recipe.files) if set(recipe.says).issuperset(_FACTS) else None


def _adopted(folder: int, where: str) -> Iterable[str]:
    """Returns the names of label files that an earlier version wrote, by its recipe. The recipe was written last, so
    files that were changed after it are not ours any more."""
    there = [name for name in names_below(folder) if not is_draft(name)]
    if not there:
        return ()
    files = _files_told(folder)
    if files is None:
        raise ForeignFile(
            f"{where}: expected a new or empty folder, or one of labels, got one that holds other files "
            f"({', '.join(sorted(there)[:3])}{', …' if len(there) > 3 else ''})"
        )
    names = {RECIPE, *(name for name in files if not name.endswith("/"))}
    if f"{CLASSIFIER}/" in files and CLASSIFIER in there:
        names |= _in_classifier(folder)
    return sorted(name for name in names if _is_plain(name) and _as_old(folder, name))


def _in_classifier(folder: int) -> set[str]:
    try:
        inner = os.open(CLASSIFIER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return set()
    try:
        return {f"{CLASSIFIER}/{name}" for name in names_below(inner)}
    finally:
        os.close(inner)


def _is_plain(name: str) -> bool:
    try:
        inside(name, deepest=2)
    except NoName:
        return False
    return _may_write(name)


def _as_old(folder: int, name: str) -> bool:
    """Returns whether a file was not changed since the recipe was written."""
    try:
        changed = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime_ns
        return changed <= os.stat(RECIPE, dir_fd=folder, follow_symlinks=False).st_ctime_ns
    except OSError:
        return False


def _may_write(name: str) -> bool:
    return _FILE.fullmatch(name) is not None


def _is_of_classifier(name: str) -> bool:
    return name.startswith(f"{CLASSIFIER}/") and _may_write(name)


LABELS = Kind(name="labels", may_write=_may_write, adopted=_adopted, folders=(CLASSIFIER,), last=(RECIPE,))
"""What `crowdsweep label` writes: a folder of tables, a classifier, and the recipe that recreates it."""

CLASSIFIER_OF_LABELS = replace(LABELS, may_write=_is_of_classifier, last=())
"""The classifier alone, of the files in such a folder."""
