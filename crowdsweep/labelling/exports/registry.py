"""The forms of exported labels, under the names of the forms that can be imported (`importing.registry`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.labelling.exports.argilla import argilla
from crowdsweep.labelling.exports.arrays import arrays, check_numbered, peerannot
from crowdsweep.labelling.exports.cleanlab import check_matrix, cleanlab
from crowdsweep.labelling.exports.crowd_kit import check_columns, crowd_kit
from crowdsweep.labelling.exports.doccano import check_texts, doccano
from crowdsweep.labelling.exports.lewidi import lewidi
from crowdsweep.labelling.exports.mturk import check_characters, mturk
from crowdsweep.labelling.exports.potato import potato
from crowdsweep.labelling.exports.prodigy import prodigy
from crowdsweep.labelling.labelled import Labelled

Writer = Callable[[Labelled], dict[str, bytes]]
"""Returns the files of a form, by name."""
LABEL_STUDIO = "label-studio"
"""The form that also takes the interface of a project (`asked.Exports`)."""


@dataclass(frozen=True, kw_only=True)
class ExportForm:
    """A form of files that another tool reads.

    Attributes:
        write: returns the files by name.
        check: raises BadInput, before a fit, for a dataset whose labels the form cannot hold.
        several: whether the form can hold several classes of an item.
    """

    write: Writer
    check: Callable[[CrowdDataset], None] | None = None
    several: bool = False


EXPORTS: Mapping[str, ExportForm] = {
    "argilla": ExportForm(write=argilla, several=True),
    "cleanlab": ExportForm(write=cleanlab, check=check_matrix),
    "crowd-kit": ExportForm(write=crowd_kit, check=check_columns),
    "doccano": ExportForm(write=doccano, check=check_texts, several=True),
    "lewidi": ExportForm(write=lewidi, several=True),
    "matrix": ExportForm(write=arrays("matrix")),
    "mturk": ExportForm(write=mturk, check=check_characters, several=True),
    "peerannot": ExportForm(write=peerannot, check=check_numbered),
    "potato": ExportForm(write=potato, several=True),
    "prodigy": ExportForm(write=prodigy, several=True),
    "snorkel": ExportForm(write=arrays("snorkel")),
}
