"""Checks of the installation: versions that results depend on, libraries that crowdsweep needs, and its extras."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import InvalidRequirement, Requirement

from crowdsweep.engine.versions import versions
from crowdsweep.health.finding import Finding

_NAME = "crowdsweep"
_FOR: dict[str, str] = {
    "cloud": "records in S3, Google Cloud and Azure (`--store s3://…`)",
    "cluster": "`crowdsweep submit`, and clusters that take jobs",
    "images": "features of images by a pretrained network (`features: {image: timm/NAME}`)",
    "text": "features of texts by an encoder (`features: {text: sentence-transformers/NAME}`)",
}
_OURS = {"dev": "all tests and checks", "docs": "the documentation site", "test": "the tests"}  # of crowdsweep itself


def installation() -> list[Finding]:
    """Returns the findings on Python, the libraries and the extras."""
    found = versions()
    python, ours = found.pop("python"), found.pop(_NAME, "")
    if not ours:
        then = "install it: `pip install` of its wheel, or of a clone"
        return [
            Finding(what="crowdsweep", verdict="problem", words="it can be imported but is not installed", then=then)
        ]
    installed = ", ".join(f"{name} {number}" for name, number in found.items())
    lacks = [*lacking(_NAME)]
    needed = Finding(what="libraries", verdict="ok", words=installed)
    if lacks:
        then = f"`pip install --upgrade {_NAME}` brings them"
        needed = Finding(
            what="libraries", verdict="problem", words=f"missing or too old: {', '.join(lacks)}", then=then
        )
    return [Finding(what="versions", verdict="ok", words=f"{_NAME} {ours}, Python {python}"), needed, *_extras()]


def lacking(name: str, extra: str = "") -> Iterator[str]:
    """Yields the requirements of an installed distribution that are not met here.

    Args:
        name: name of the distribution.
        extra: the extra whose additional requirements are checked; where empty, those that hold without any extra.
    """
    for line in requires(name) or ():
        try:
            needed = Requirement(line)
        except InvalidRequirement:  # in the metadata of another package
            continue
        always = needed.marker is None or needed.marker.evaluate({"extra": ""})
        if always != (not extra) or (extra and needed.marker and not needed.marker.evaluate({"extra": extra})):
            continue
        yield from _unmet(needed)


def _unmet(needed: Requirement) -> Iterator[str]:
    """Yields the unmet parts of a requirement: itself, or requirements of the extras that it asks for."""
    try:
        has = version(needed.name)
    except PackageNotFoundError:
        yield str(needed).partition(";")[0].strip()
        return
    if not needed.specifier.contains(has, prereleases=True):
        yield f"{needed.name}{needed.specifier} (here is {has})"
    for extra in sorted(needed.extras):
        yield from lacking(needed.name, extra)


def _extras() -> Iterator[Finding]:
    for extra in metadata(_NAME).get_all("Provides-Extra") or ():
        lacks = [*lacking(_NAME, extra)]
        needed_for = _FOR.get(extra, f"{_OURS.get(extra, 'a part')} of crowdsweep itself")
        if extra in _OURS and lacks:
            continue  # nobody who runs sweeps misses it
        yield Finding(
            what=f"extra {extra}",
            verdict="note" if lacks else "ok",
            words=f"{'not installed' if lacks else 'installed'}: {needed_for}",
            then=f"if you need it, `pip install '{_NAME}[{extra}]'` brings {', '.join(lacks)}" if lacks else "",
        )
