"""`sampler` in a sweep file, and the earlier sweeps that its `warm_start` names."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crowdsweep.errors import BadInput, SweepFileError, Where
from crowdsweep.paths import is_file
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import store_named
from crowdsweep.record.stores import DEFAULT_STORES
from crowdsweep.search.contract import Sampler
from crowdsweep.sweepfile.checked import typed


def sampler_of(given: Any, where: Where) -> Sampler:
    """Returns a sampler, with its earlier sweeps as absolute paths or URIs.

    Raises:
        SweepFileError: the value is not a sampler, the sampler's kind does not learn from earlier points, or an earlier
            sweep has an invalid path or URI, or the name of another one.
    """
    sampler: Sampler = typed(Sampler, given, where)
    if not sampler.warm_start:
        return replace(sampler, warm_start=())
    place = where.at("warm_start")
    if sampler.kind in ("random", "grid"):
        raise SweepFileError(place.says(f"expected it only with a sampler that learns from points, got {sampler.kind}"))
    return replace(sampler, warm_start=tuple(_stores(sampler.warm_start, place)))


def source_of(store: str) -> str:
    """Returns the name of an earlier sweep, here and in the record: that of its folder."""
    return store_named(store).name


def _stores(given: Sequence[str], where: Where) -> Iterator[str]:
    """Yields the store of each earlier sweep: a URI, a folder beside the sweep file, or a sweep that ran here."""
    seen: dict[str, Where] = {}
    for number, entry in enumerate(given):
        place = where.at(number)
        try:
            store = store_named(entry)
            if isinstance(store, Path):
                beside, ran_here = ((above / store.expanduser()).resolve() for above in (place.folder, DEFAULT_STORES))
                store = next((one for one in (beside, ran_here) if is_file(one / JOURNAL_FILE)), beside)
        except (BadInput, OSError, RuntimeError) as error:  # too long; an unknown user's home
            raise SweepFileError(place.says(str(error))) from None
        if store.name in seen:
            raise SweepFileError(
                place.says(
                    f"a record called {store.name!r} is already at {seen[store.name]}; records are referred to by name"
                )
            )
        seen[store.name] = place
        yield str(store)
