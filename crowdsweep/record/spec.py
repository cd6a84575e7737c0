"""The specification of a trial, and its key, which is equal for equal trials."""

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields
from hashlib import sha256
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from crowdsweep.data.dataset import Scalar
from crowdsweep.files.typed import Number, Whole

Phase = Literal["search", "report"]
_LARGEST = 2**63


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def canonical_json(value: Any) -> str:
    """Returns JSON with sorted keys and no spaces; equal values give equal text."""
    return "{}" if value == {} else _CANONICAL.encode(value)  # most datasets have no parameters


def digest(value: Any) -> str:
    """Returns a hash of a JSON-able value: 16 hex digits, equal for equal values."""
    return sha256(canonical_json(value).encode()).hexdigest()[:16]


def _in_64_bits(value: Scalar) -> Scalar:
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise ValueError("expected a whole number of 64 bits")
    return value


_NONE: Mapping[str, Any] = {}
"""Shared by all records without parameters."""


def _with_a_digest(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, one in value.items():  # fast path: a record may contain a million values
        kind = type(one)
        plain = isfinite(one) if kind is float else kind is bool or (kind is str and one.isascii())
        if not name.isascii() or not (plain or (kind is int and -_LARGEST <= one < _LARGEST)):
            break
    else:
        return value or _NONE
    try:
        digest(dict(value))
    except (TypeError, ValueError) as error:
        raise ValueError("expected finite numbers and whole characters, of which a key can be made") from error
    return value


Params = Annotated[Mapping[str, Any], AfterValidator(_with_a_digest)]
"""Parameters that can be part of a key: they contain no non-finite numbers and no lone surrogates."""
Settings = Annotated[Mapping[str, Annotated[Scalar, AfterValidator(_in_64_bits)]], AfterValidator(_with_a_digest)]
"""Parameters of a dataset that can be part of a key."""


Place = tuple[str, str]
"""A dataset and its parameters, these in canonical JSON."""


class OnDataset:
    """A record about a dataset with its parameters."""

    __slots__ = ()
    dataset: str
    dataset_params: Mapping[str, Any]

    @property
    def place(self) -> Place:
        """The dataset and its parameters, to look records up by."""
        return self.dataset, canonical_json(dict(self.dataset_params))


class _Keyed:
    """Slots that cache a trial's keys; a `__dict__` for them would double the memory of a record."""

    __slots__ = ("_known_cell_key", "_known_key")
    _known_cell_key: str
    _known_key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialSpec(_Keyed, OnDataset):
    """The specification of a trial, one fit with its scores: model × dataset × point × seed.

    Attributes:
        model: registered name.
        params: all hyper-parameters, with defaults filled in.
        model_version: of `ModelInfo`.
        dataset: catalogue name or folder path.
        dataset_params: dataset parameters as the sweep gives them (`annotators`, `scenario`, `training`,
            `redundancy`, `feature_seed`, …), without those left at their defaults.
        fingerprint: of the base dataset.
        seed: of the trial, from which all its random streams are derived.
        heldout_fraction: share of the training annotations that is removed before the fit and scored; 0 for none.
        data_version: version of the rules that make the trial's data (`data.splits.data_version`). Part of the key from
            2 on: the keys of version 1 date from before there was another version.
        early_stop: key of the search whose early stopping may end the trial; empty for none. Part of the key unless
            empty: the result depends on the other fits of that search and belongs to it alone.
        phase: why the trial is run. Not part of the key: the same trial in two phases is one trial.
        point: the searched part of `params`, for display.
    """

    model: str
    params: Params
    model_version: Whole
    dataset: str
    dataset_params: Settings = field(default_factory=dict)
    fingerprint: str
    seed: Whole
    heldout_fraction: Number = 0.0
    data_version: Whole = 1
    early_stop: str = field(default="", metadata={"journalled": "where any"})
    phase: Phase = "report"
    point: Params = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Hash of everything that determines the result: 16 hex digits."""
        try:
            return self._known_key
        except AttributeError:
            object.__setattr__(self, "_known_key", _key(self._all_but_seed(), self.seed))
            return self._known_key

    @property
    def cell_key(self) -> str:
        """Hash of the cell that the trial belongs to: the key without the seed."""
        try:
            return self._known_cell_key
        except AttributeError:
            object.__setattr__(self, "_known_cell_key", digest(self._cell()))
            return self._known_cell_key

    def batch_key(self, varied: Set[str]) -> str:
        """Returns what trials that are fitted together have in common: the model, and all other hyper-parameters."""
        shared = {name: value for name, value in self.params.items() if name not in varied}
        return f"{self.model} {canonical_json(shared)}"

    def with_seeds(self) -> Callable[[int], "TrialSpec"]:
        """Returns a function that makes this specification with another seed; faster than to make it anew."""
        same = {name: getattr(self, name) for name in _ALL_BUT_SEED}
        decides = self._all_but_seed()
        object.__setattr__(self, "_known_key", _key(decides, self.seed))

        def with_seed(seed: int) -> TrialSpec:
            spec = TrialSpec(**same, seed=seed)
            object.__setattr__(spec, "_known_key", _key(decides, seed))
            return spec

        return with_seed

    def _all_but_seed(self) -> str:
        """Returns what determines the result, but for the seed, in canonical JSON."""
        return canonical_json({**self._cell(), "early_stop": self.early_stop} if self.early_stop else self._cell())

    def _cell(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "params": dict(self.params),
            "model_version": self.model_version,
            "dataset_params": dict(self.dataset_params),
            "fingerprint": self.fingerprint,
            "heldout_fraction": self.heldout_fraction,
            **({} if self.data_version == 1 else {"data_version": self.data_version}),
        }


_ALL_BUT_SEED = tuple(one.name for one in fields(TrialSpec) if one.name != "seed")


def _key(all_but_seed: str, seed: int) -> str:
    text = f'{all_but_seed[:-1]},"seed":{seed}}}'  # canonical, as "seed" sorts last
    return sha256(text.encode()).hexdigest()[:16]
