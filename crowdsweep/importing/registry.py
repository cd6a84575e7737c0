"""Registry of the forms that files of labels have, by name, with one function to read all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from crowdsweep.errors import DataError, UnknownName
from crowdsweep.importing.forms.argilla import read_argilla
from crowdsweep.importing.forms.columns import read_crowd_kit, read_csv
from crowdsweep.importing.forms.doccano import read_doccano
from crowdsweep.importing.forms.label_studio import read_label_studio
from crowdsweep.importing.forms.lewidi import read_lewidi
from crowdsweep.importing.forms.matrices import read_cleanlab, read_matrix, read_snorkel
from crowdsweep.importing.forms.mturk import read_mturk
from crowdsweep.importing.forms.peerannot import read_peerannot
from crowdsweep.importing.forms.potato import read_potato
from crowdsweep.importing.forms.prodigy import read_prodigy
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.paths import is_file, is_folder

_COLUMNS = ("item", "annotator", "label", "gold", "weight", "text", "image", "features")
_OF_EVERY_FORM = ("missing", "scale")
_OF_MATRICES = ("item", "gold")


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form that other people's files of labels have.

    Attributes:
        title: title in one line.
        read: reads a file of this form.
        asks: fields of `FileOptions` that the form takes.
        folders: whether the form also reads a folder.
    """

    title: str
    read: Callable[[Path, FileOptions], ImportedRows]
    asks: tuple[str, ...] = ()
    folders: bool = False


FORMS: Mapping[str, Form] = {
    "csv": Form(title="any table with a row per answer, by the names of its columns", read=read_csv, asks=_COLUMNS),
    "crowd-kit": Form(title="table with the columns task, worker, label", read=read_crowd_kit),
    "matrix": Form(
        title="items × annotators: CSV, text or .npy; -1, NaN or an empty cell means no answer",
        read=read_matrix,
        asks=_OF_MATRICES,
    ),
    "cleanlab": Form(
        title="the same with a header in any case: cleanlab's table of several annotators",
        read=read_cleanlab,
        asks=_OF_MATRICES,
    ),
    "snorkel": Form(title="label matrix, items × labelling functions", read=read_snorkel, asks=_OF_MATRICES),
    "peerannot": Form(title="answers.json: item, annotator, label", read=read_peerannot),
    "lewidi": Form(
        title="JSON of the LeWiDi shared tasks: a file per split or their folder, with what is known of annotators",
        read=read_lewidi,
        folders=True,
    ),
    "label-studio": Form(title="JSON or JSON_MIN export", read=read_label_studio, asks=("question",)),
    "argilla": Form(title="records of version 1 or 2 as JSON", read=read_argilla, asks=("question",)),
    "doccano": Form(
        title="JSONL export: a file, or a folder or zip of a file per annotator", read=read_doccano, folders=True
    ),
    "potato": Form(
        title="annotated instances of Potato: a column for each option", read=read_potato, asks=("question",)
    ),
    "prodigy": Form(title="JSONL of db-out", read=read_prodigy, asks=("question",)),
    "mturk": Form(title="results CSV of Mechanical Turk", read=read_mturk, asks=("question",)),
}


def read_form(form: str, path: Path, asked: FileOptions | None = None) -> ImportedRows:
    """Reads a file in one of the forms.

    Args:
        form: a key of FORMS.
        path: the file; for some forms a folder.
        asked: what the user says of the file: a question, columns.

    Raises:
        UnknownName: there is no such form, or no such question.
        DataError: the file is missing, empty or not of that form, or the user named something that the form does not
            take; the message says where.
    """
    if form not in FORMS:
        raise UnknownName("form", form, FORMS)
    asked = asked or FileOptions()
    for field in fields(FileOptions):
        is_set = field.name not in _OF_EVERY_FORM and getattr(asked, field.name) is not None
        if is_set and field.name not in FORMS[form].asks:
            takes = ", ".join(f"--{name}" for name in FORMS[form].asks) or "no such option"
            raise DataError(f"{path}: the form {form} takes {takes}; leave --{field.name} out")
    if not (is_file(path) or (FORMS[form].folders and is_folder(path))):
        raise DataError(f"{path}: expected a file to import, found {'a folder' if is_folder(path) else 'none'}")
    return replace(FORMS[form].read(path, asked), form=form)
