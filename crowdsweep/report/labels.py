"""Which model of the sweep file a trial belongs to.

A trial is run once, whoever asks for it: where a search selects the very point that another entry of the sweep file
fixes, one trial answers for both.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from crowdsweep import plugins
from crowdsweep.errors import BadInput
from crowdsweep.sinks.journal import JournalState
from crowdsweep.trial.spec import TrialSpec, canonical_json


def model_label(spec: TrialSpec, entries: Iterable[Mapping[str, Any]]) -> str:
    """Returns what the sweep file calls the model of a trial: of the entries whose fixed parameters are the trial's
    and whose searched parameters can have given its point, the one that says most."""
    best, best_score = spec.model, -1
    params = _plain(spec.params)
    for entry in entries:
        fixed, space = _plain(entry.get("params") or {}), entry.get("search") or {}
        if entry["name"] != spec.model or any(params.get(name) != value for name, value in fixed.items()):
            continue
        if bool(space) != bool(spec.point) or not set(spec.point) <= set(space):
            continue
        if len(fixed) > best_score:
            best, best_score = entry.get("label") or spec.model, len(fixed)
    return best


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
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for key, spec in state.specs.items():
        if "report" not in state.phases[key]:
            continue
        params, own = canonical_json(dict(spec.params)), model_label(spec, entries)
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
        if protocol is not None and "protocol" in plugins.full_params(entry["name"], given):
            given = {"protocol": protocol, **given}
        return canonical_json(plugins.full_params(entry["name"], given))
    except BadInput:
        return ""


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters as JSON gives them back, so that (64,) and [64] are the same."""
    return json.loads(canonical_json(dict(params)))
