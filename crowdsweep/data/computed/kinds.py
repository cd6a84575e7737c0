"""Kinds of computed features: as a mapping in a sweep file, `{text: tfidf}`, and as one text, `text:tfidf`.

Results and keys of trials hold the text; people write the mapping.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from crowdsweep.errors import DataError, Where, shortened, shown, suggestion

Of = Literal["text", "image"]
METHODS: Mapping[Of, tuple[str, ...]] = {
    "text": ("tfidf", "sentence-transformers/NAME"),
    "image": ("timm/NAME",),
}
_NAMED = "/NAME"  # the end of a method that names a model


class Computed(NamedTuple):
    """How features are computed.

    Attributes:
        of: the source: texts or images.
        method: `tfidf`, `sentence-transformers`, `timm`.
        model: name of the model; empty if the method has none.
    """

    of: Of
    method: str
    model: str = ""

    @property
    def asked(self) -> str:
        """The features as a sweep file writes them."""
        return f"{{{self.of}: {self.method}{f'/{self.model}' if self.model else ''}}}"


def is_computed(kind: object) -> bool:
    """Returns whether a dataset parameter `features` asks for computed features, not for a file or for answers."""
    return isinstance(kind, str) and kind.partition(":")[0] in METHODS and ":" in kind


def computed(kind: str, where: str = "") -> Computed:
    """Returns the computed features that a text such as `text:tfidf` asks for.

    Raises:
        DataError: the method is unknown, lacks its model, or takes no model.
    """
    of, _, told = kind.partition(":")
    method, _, model = told.partition("/")
    known = METHODS[cast(Of, of)]
    plain = {name.removesuffix(_NAMED): name.endswith(_NAMED) for name in known}
    if method not in plain or plain[method] != bool(model):
        raise DataError(
            f"{where}features, {of}: expected {' or '.join(known)}, got {shown(told)}; {suggestion(told, known)}"
        )
    return Computed(cast(Of, of), method, model)


def kind_of(given: Any, where: Where) -> Any:
    """Returns `text:tfidf` for `{text: tfidf}`; anything but a mapping is returned unchanged.

    Raises:
        DataError: the source or the method is unknown.
    """
    if isinstance(given, Mapping):
        told = [(of, method) for of, method in given.items() if of in METHODS and isinstance(method, str)]
        if len(told) != 1 or len(given) != 1:
            raise DataError(where.says(f"expected {' or '.join(_forms())}, got {shortened(repr(dict(given)))}"))
        given = ":".join(told[0])
    if is_computed(given):
        computed(given, f"{where}: ")
    return given


def pattern_of(of: Of) -> str:
    """Returns a regular expression that matches the methods for a source."""
    named = (f"{name.removesuffix(_NAMED)}/.+" if name.endswith(_NAMED) else name for name in METHODS[of])
    return f"^({'|'.join(named)})$"


def _forms() -> list[str]:
    return [f"{{{of}: {method}}}" for of, known in METHODS.items() for method in known]


def as_written(kind: Any) -> Any:
    """Returns `{text: tfidf}` for `text:tfidf`, for a sweep file; any other value is returned unchanged."""
    return dict([kind.split(":", 1)]) if is_computed(kind) else kind
