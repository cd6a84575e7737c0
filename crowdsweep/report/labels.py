"""Which model of the sweep file a trial belongs to.

A trial is run once, whoever asks for it: where a search selects the very point that another entry of the sweep file
fixes, one trial answers for both.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from crowdsweep.errors import BadInput
from crowdsweep.journal.journal import JournalState
from crowdsweep.models import registered
from crowdsweep.trial.spec import TrialSpec, canonical_json


class Labels:
    """What a sweep file calls the models of its trials.

    Args:
        entries: its `models`, with every default.
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self._entries: dict[str, list[tuple[str, dict[str, Any], frozenset[str]]]] = {}
        for entry in entries:
            fixed, searched = _plain(entry.get("params") or {}), frozenset(entry.get("search") or {})
            self._entries.setdefault(entry["name"], []).append((entry.get("label") or entry["name"], fixed, searched))

    def of(self, spec: TrialSpec) -> str:
        """Returns the label of a trial's model: of the entries whose fixed parameters are the trial's and whose
        searched parameters can have given its point, the one that says most."""
        entries = self._entries.get(spec.model, ())
        if len(entries) == 1:
            return entries[0][0]
        params = _plain(spec.params)
        fitting = [
            (len(fixed), label)
            for label, fixed, searched in entries
            if all(name in params and params[name] == value for name, value in fixed.items())
            and bool(searched) == bool(spec.point)
            and searched.issuperset(spec.point)
        ]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else spec.model


def selected_points(state: JournalState) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """Returns (label, dataset, dataset parameters as canonical JSON) → the points that the search selected, best
    first."""
    searches: Mapping[str, Mapping[str, str]] = state.plan.get("searches", {})
    selected: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for study, numbers in state.selected.items():
        proposals = {proposal.number: proposal for proposal in state.proposals[study]}
        first = state.proposals[study][0]
        label = searches.get(study, {}).get("label", first.model)
        cell = (label, first.dataset, canonical_json(dict(first.dataset_params)))
        selected[cell] = [proposals[number].point for number in numbers]
    return selected


def other_labels(state: JournalState) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Returns trial key → (label, point) of every further entry that this trial of the report phase answers for."""
    entries: list[Mapping[str, Any]] = list(state.config.get("models", ()))
    asked: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for entry in entries:
        if not entry.get("search"):
            params = _full(state, entry, {})
            asked.setdefault((entry["name"], params), []).append((entry.get("label") or entry["name"], {}))
    by_label = {entry.get("label") or entry["name"]: entry for entry in entries}
    searched: dict[tuple[str, str, str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for (label, dataset, dataset_params), points in selected_points(state).items():
        if label in by_label:
            for point in points:
                cell = (by_label[label]["name"], _full(state, by_label[label], point), dataset, dataset_params)
                searched.setdefault(cell, []).append((label, point))
    labels = Labels(entries)
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for key, spec in state.specs.items():
        if "report" not in state.phases[key]:
            continue
        params, own = canonical_json(dict(spec.params)), labels.of(spec)
        cell = (spec.model, params, spec.dataset, canonical_json(dict(spec.dataset_params)))
        others = [*asked.get((spec.model, params), ()), *searched.get(cell, ())]
        if others := [(label, point) for label, point in others if label != own]:
            found[key] = others
    return found


def _full(state: JournalState, entry: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    """Returns an entry's parameters at a point with every default, canonical JSON; empty where they are not known
    (the model is not installed any more, or has changed)."""
    given = {**(entry.get("params") or {}), **point}
    protocol = state.config.get("protocol")
    try:
        if protocol is not None and "protocol" in registered.full_params(entry["name"], given):
            given = {"protocol": protocol, **given}
        return canonical_json(registered.full_params(entry["name"], given))
    except BadInput:
        return ""


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters as JSON gives them back, so that (64,) and [64] are the same."""
    return json.loads(canonical_json(dict(params)))
