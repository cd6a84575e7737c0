"""What rows of the first format leave unsaid, made up from what stands around them.

In the first format a plan named no cells, and a trial neither its label nor its search: they were guessed from the
sweep file whenever a report was made. That guess lives on here, for journals that were written so; it asks nothing but
the journal itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crowdsweep.journal.state import JournalState, Role
from crowdsweep.trial.plan_record import CellRecord, DatasetRecord, PlanRecord
from crowdsweep.trial.spec import TrialSpec, canonical_json

Entry = Mapping[str, Any]
"""One of the sweep file's `models`, as `SweepStarted.config` has it."""


def plan_of(data: Mapping[str, Any]) -> PlanRecord:
    """Returns what a plan of the first format says."""
    return PlanRecord(
        datasets=tuple(DatasetRecord(**row) for row in data.get("datasets", ())),
        cells=None,
        searches=tuple(CellRecord(key=key, **row) for key, row in data.get("searches", {}).items()),
        n_trials=data.get("trials", {}).get("total", 0),
    )


def spelled_out(state: JournalState) -> Mapping[str, Sequence[Role]]:
    """Returns `state.roles` with the labels and searches that the first format leaves out."""
    began = [event for event in state.started if event.plan.cells is None]
    if not began:
        return state.roles
    entries: Sequence[Entry] = began[-1].config.get("models", ())
    labels = {search.key: search.label for search in began[-1].plan.searches}
    spelled = {search.key for event in state.started if event.plan.cells is not None for search in event.plan.searches}
    later = spelled - {search.key for event in began for search in event.plan.searches}  # none of their trials is old
    proposed = {
        _place(point.model, point.dataset, point.dataset_params, point.point, labels.get(search, point.model)): search
        for search, points in state.proposals.items()
        if search not in later
        for point in points
    }
    roles: dict[str, list[Role]] = {}
    for key, told in state.roles.items():
        spec, own = state.specs[key], list[Role]()
        for role in told:
            if not role.label:
                label = _label(spec, role, entries)
                place = _place(spec.model, spec.dataset, spec.dataset_params, role.point, label)
                role = replace(role, label=label, search=proposed.get(place, ""))
            if role not in own:
                own.append(role)
        roles[key] = own
    if state.plan.cells is None:
        _add_untold(roles, state, entries, labels)
    return roles


def _label(spec: TrialSpec, role: Role, entries: Sequence[Entry]) -> str:
    """Returns the label of the entry that a trial is of: of those whose fixed parameters are the trial's and whose
    searched parameters can have given its point, the one that says most."""
    own = [entry for entry in entries if entry["name"] == spec.model]
    if len(own) == 1:
        return _label_of(own[0])
    fitting = [
        entry
        for entry in own
        if _has(spec, entry)
        and bool(entry.get("search")) == bool(role.point)
        and set(entry.get("search") or ()).issuperset(role.point)
    ]
    return _label_of(max(fitting, key=lambda entry: len(entry.get("params") or ()))) if fitting else spec.model


def _add_untold(
    roles: dict[str, list[Role]], state: JournalState, entries: Sequence[Entry], labels: Mapping[str, str]
) -> None:
    """Adds roles in the report that no row tells: a trial that answers for several entries of a sweep file was written
    down for the first of them only."""
    reported: dict[str, list[str]] = {}  # cell → keys of its report trials
    for key, own in roles.items():
        if any(role.phase == "report" for role in own):
            reported.setdefault(state.specs[key].cell_key, []).append(key)
    untold = [*_of_selected_points(roles, state, labels), *_of_fixed_entries(roles, state, entries, reported)]
    for cell, role in untold:
        for key in reported.get(cell, ()):
            if all(role.label != other.label for other in roles[key] if other.phase == "report"):
                roles[key].append(role)


def _of_selected_points(
    roles: Mapping[str, Sequence[Role]], state: JournalState, labels: Mapping[str, str]
) -> Iterator[tuple[str, Role]]:
    """Yields the cell in which each selected point was re-scored, and its role there."""
    heldout = {(row.dataset, canonical_json(dict(row.dataset_params))): row.heldout for row in state.plan.datasets}
    searched = {
        (role.search, canonical_json(dict(role.point))): state.specs[key]
        for key, own in roles.items()
        for role in own
        if role.phase == "search"
    }
    for search, numbers in state.selected.items():
        points = {point.number: point.point for point in state.proposals.get(search, ())}
        for number in filter(points.__contains__, numbers):
            spec = searched.get((search, canonical_json(dict(points[number]))))
            if spec is not None:
                share = heldout.get((spec.dataset, canonical_json(dict(spec.dataset_params))), 0.0)
                yield (
                    replace(spec, heldout_fraction=share).cell_key,
                    Role(
                        phase="report",
                        label=labels.get(search, spec.model),
                        dataset=spec.dataset,
                        search=search,
                        point=points[number],
                    ),
                )


def _of_fixed_entries(
    roles: Mapping[str, Sequence[Role]],
    state: JournalState,
    entries: Sequence[Entry],
    reported: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, Role]]:
    """Yields, for each entry without a trial of its own on a dataset, the one cell there that can be its."""
    fixed = [entry for entry in entries if not entry.get("search")]
    for row in state.plan.datasets:
        params = dict(row.dataset_params)
        here = {
            cell: (state.specs[keys[0]], [role for key in keys for role in roles[key] if role.phase == "report"])
            for cell, keys in reported.items()
            if state.specs[keys[0]].dataset == row.dataset and dict(state.specs[keys[0]].dataset_params) == params
        }
        told = {role.label for _, own in here.values() for role in own}
        for entry in fixed:
            cells = [
                cell
                for cell, (spec, own) in here.items()
                if spec.model == entry["name"] and _has(spec, entry) and not own[0].search
            ]
            if _label_of(entry) not in told and len(cells) == 1:
                yield cells[0], Role(phase="report", label=_label_of(entry), dataset=row.dataset)


def _has(spec: TrialSpec, entry: Entry) -> bool:
    """Whether an entry's fixed parameters are the trial's; as JSON gives them back, so that (64,) and [64] are one."""
    params = spec.params
    return all(
        name in params and canonical_json(params[name]) == canonical_json(value)
        for name, value in (entry.get("params") or {}).items()
    )


def _label_of(entry: Entry) -> str:
    return entry.get("label") or entry["name"]


def _place(
    model: str, dataset: str, dataset_params: Mapping[str, Any], point: Mapping[str, Any], label: str
) -> tuple[str, str, str, str, str]:
    return model, dataset, canonical_json(dict(dataset_params)), canonical_json(dict(point)), label
