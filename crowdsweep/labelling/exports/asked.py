"""Exports for other tools, checked before a fit and written after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput, UnknownName, shown
from crowdsweep.labelling.exports.items import described
from crowdsweep.labelling.exports.label_studio import (
    check_shown,
    check_written,
    label_studio,
    own_interface,
    read_interface,
)
from crowdsweep.labelling.exports.registry import EXPORTS, LABEL_STUDIO, Writer

SAME = "same"


@dataclass(frozen=True, kw_only=True)
class Exports:
    """The exports for other tools that the user requests.

    Attributes:
        forms: keys of `registry.EXPORTS`, `label-studio`, or `same`: the form of the file that the dataset was made of.
        interface: file with the interface of the Label Studio project that predictions are for; None for a new project.
    """

    forms: Sequence[str] = ()
    interface: Path | None = None

    @property
    def words(self) -> list[str]:
        """The options of `crowdsweep label` that request these exports."""
        interface = [] if self.interface is None else ["--interface", str(self.interface)]
        return [*(part for form in self.forms for part in ("--export", form)), *interface]

    def writers(self, dataset: CrowdDataset) -> list[Writer]:
        """Checks, before anything is fitted to a dataset, that the forms can hold its labels, and returns what writes
        them.

        Raises:
            UnknownName: there is no such form.
            BadInput: a form cannot hold them.
        """
        forms = self._forms(dataset)
        if self.interface is not None and LABEL_STUDIO not in forms:
            raise BadInput("--interface: it is of a Label Studio project; add --export label-studio")
        return [self._label_studio(dataset) if form == LABEL_STUDIO else _writer(form, dataset) for form in forms]

    def _forms(self, dataset: CrowdDataset) -> list[str]:
        known = [SAME, LABEL_STUDIO, *EXPORTS]
        if unknown := next((form for form in self.forms if form not in known), None):
            raise UnknownName("form", unknown, known)
        return list(dict.fromkeys(_form_of(dataset) if form == SAME else form for form in self.forms))

    def _label_studio(self, dataset: CrowdDataset) -> Writer:
        if self.interface is not None:
            found = read_interface(self.interface, dataset)
            check_shown(found, dataset, self.interface)
            return partial(label_studio, interface=found)
        names = own_interface(dataset)
        classes = dataset.class_labels if names.stars is None else ()
        check_written([*classes, names.question, names.shown])
        return partial(label_studio, interface=None)


NOTHING = Exports()


def _writer(form: str, dataset: CrowdDataset) -> Writer:
    found = EXPORTS[form]
    if dataset.scale == "multilabel" and not found.several:
        raise BadInput(f"--export {form}: it needs one class per item, and these items may have several")
    if found.check is not None:
        found.check(dataset)
    return found.write


def _form_of(dataset: CrowdDataset) -> str:
    """Returns the form of the file that a dataset was made of.

    Raises:
        BadInput: the form is not recorded, or has no export; a plain table has none, as labels.csv is one.
    """
    form, known = described(dataset).form, sorted([LABEL_STUDIO, *EXPORTS])
    if form in known:
        return form
    if form == "csv":
        raise BadInput(
            f"--export {SAME}: dataset {dataset.name} was made of a table, and labels.csv, which is written anyway, "
            f"is one; leave --export out, or name a tool: {', '.join(known)}"
        )
    raise BadInput(
        f"--export {SAME}: expected a dataset whose dataset.yaml says in which form its file came, as `init` "
        f"notes it, got {shown(form) if form else 'none'} of {dataset.name}; name the tool: {', '.join(known)}"
    )
