"""`models` in a sweep file: each with fixed hyper-parameters, a search space, its datasets and its resources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crowdsweep.errors import BadInput, Mistakes, SweepFileError, UnknownName, Where, plain, shortened, suggestion
from crowdsweep.files.located import read_yaml
from crowdsweep.models import registered
from crowdsweep.paths import is_file
from crowdsweep.resources import Resources
from crowdsweep.search.space import Space
from crowdsweep.sweepfile.checked import field_types, list_of, mapping_of, named_entries, text, typed
from crowdsweep.sweepfile.dataset_entries import resolved
from crowdsweep.sweepfile.records import ModelEntry

MODEL_KEYS = ("name", "label", "params", "search", "datasets", "resources")
RESOURCE_KEYS = tuple(field_types(Resources))


def resources_of(given: Any, where: Where, shared: Mapping[str, Any]) -> Resources:
    """Reads the resources of slots; settings that a model leaves out are those of the sweep (`shared`)."""
    resources: Resources = typed(Resources, {**shared, **mapping_of(given, where, RESOURCE_KEYS)}, where)
    if own := {"CPU", "GPU", "memory", "object_store_memory"} & resources.custom.keys():
        name = min(own)
        raise SweepFileError(where.at("custom", name).says("expected a custom resource; say cpu and gpu for Ray's own"))
    return resources


def model_entries(
    given: Any, where: Where, datasets: Sequence[str] | None, shared: Resources, mistakes: Mistakes
) -> Iterator[ModelEntry]:
    """Yields the entries of `models:`; entries that cannot be read go to `mistakes`.

    Args:
        datasets: names of the sweep's datasets; None where these could not be read.
        shared: resources of the sweep, for what a model's own leave out.
    """
    seen: dict[str, Where] = {}
    for place, entry in named_entries(given, where, "model", mistakes):
        with mistakes.apart():
            model = _model(entry, place, datasets, shared)
            if model.label in seen:
                told = f"{model.label!r} is already at {seen[model.label]}; give one of them a `label`"
                raise SweepFileError(place.says(told))
            seen[model.label] = place
            yield model


def _model(entry: Mapping[str, Any], place: Where, datasets: Sequence[str] | None, shared: Resources) -> ModelEntry:
    with Mistakes() as mistakes:
        name = text(entry["name"], place.at("name"))
        if name not in (known := registered.model_names()):
            mapping_of(entry, place, MODEL_KEYS, mistakes)
            raise UnknownName("model", name, known, str(place.at("name")))
        own = {parameter.name for parameter, _ in registered.every_parameter(name)}
        for key in entry.keys() & (own - {*MODEL_KEYS}):
            told = f"{key!r} is a hyper-parameter: write params: {{{key}: …}}, or search: {{{key}: …}} for a range"
            mistakes.keep(SweepFileError(place.at(key).says(told)))
        entry = {key: value for key, value in entry.items() if key in MODEL_KEYS or key not in own}
        entry = mapping_of(entry, place, MODEL_KEYS, mistakes)
        label = name
        with mistakes.apart():
            label = text(entry.get("label", name), place.at("label"))
            if label != plain(label):
                raise SweepFileError(place.at("label").says(f"expected a label that can be printed, got {label!r}"))
        params: Mapping[str, Any] = {}
        with mistakes.apart():
            given = mapping_of(entry.get("params", {}), place.at("params"))
            params = given
            params = _checked_params(name, given, place.at("params"), mistakes)
        space = Space({})
        if "search" in entry:
            with mistakes.apart():
                space = _space(name, params, entry["search"], place.at("search"))
                space.check_fits(name, params, place.at("search"))
        only: tuple[str, ...] = ()
        if "datasets" in entry:
            with mistakes.apart():
                only = tuple(_only(entry["datasets"], place.at("datasets"), datasets))
        resources = None
        if "resources" in entry:
            with mistakes.apart():
                resources = resources_of(entry["resources"], place.at("resources"), vars(shared))
    return ModelEntry(
        name=name, params=params, space=space, label=label, datasets=only, resources=resources, place=str(place)
    )


def _only(given: Any, where: Where, datasets: Sequence[str] | None) -> Iterator[str]:
    """Yields the datasets that a model is limited to; each must be a dataset of the sweep, if these are known."""
    for index, part in enumerate(list_of(given, where, "dataset of this sweep")):
        name = resolved(text(part, where.at(index)), where.at(index))
        if datasets is not None and name not in datasets:
            raise UnknownName("dataset of this sweep", name, datasets, str(where.at(index)))
        yield name


def _space(model: str, params: Mapping[str, Any], given: Any, where: Where) -> Space:
    """Reads `search`: a mapping, `default`, or a file of spaces. Hyper-parameters that `params` fixes are removed from
    the latter two, so that one file serves many sweeps."""
    if isinstance(given, Mapping):
        return Space.parse(given, where)
    if not isinstance(given, str):
        told = "expected `default`, a file of spaces, or a mapping of hyper-parameters to ranges"
        instead = "write `default` for the model's own space" if given is True else "leave it out to search nothing"
        raise SweepFileError(where.says(f"{told}; got {shortened(repr(given))}; {instead}"))
    if given == "default":
        shapes = registered.model_info(model).space
        if not shapes:
            raise SweepFileError(where.says(f"nothing can be searched in {model!r}; leave `search` out"))
        return Space.parse(shapes, f"default space of {model}").fixing(registered.with_steps(model, params))
    folder = where.folder
    tried = [folder / part / f"{given}{suffix}" for part in ("", "spaces") for suffix in ("", ".yaml")]
    path = next((path for path in tried if is_file(path)), None)
    if path is None:
        names = ["default", *(known.stem for known in (folder / "spaces").glob("*.yaml"))]
        raise SweepFileError(where.says(f"there is no file of spaces {shortened(given)!r}; {suggestion(given, names)}"))
    shapes, inside = read_yaml(path, cite=False)
    if not isinstance(shapes, Mapping) or not all(isinstance(shape, Mapping) for shape in shapes.values()):
        # Not quoted: a sweep file from elsewhere may name any file, and its owner may pass the message on.
        raise SweepFileError(
            where.says(
                f"expected a file of spaces, a mapping of hyper-parameters to ranges, got another: {path}; "
                f"`crowdsweep models {model} --space` prints one"
            )
        )
    space = Space.parse(shapes, inside)
    space.fixing(params).check_fits(model, params, inside)
    return space.fixing(params)


def _checked_params(model: str, params: Mapping[str, Any], where: Where, mistakes: Mistakes) -> Mapping[str, Any]:
    """Returns the fixed hyper-parameters that the model accepts; the message of another one has its line.

    Raises:
        SweepFileError: the hyper-parameters do not go together.
    """
    accepted = dict(params)
    while True:
        try:
            registered.build_model(model, accepted)
        except BadInput as error:
            guilty = [key for key in accepted if f"parameter {key!r}" in str(error)]
            wrong = SweepFileError(where.at(*guilty[:1]).says(f"{error}{_as_range(guilty, accepted)}"))
            if not guilty:
                raise wrong from None
            mistakes.keep(wrong)
            del accepted[guilty[0]]
        else:
            return accepted


def _as_range(guilty: Sequence[str], params: Mapping[str, Any]) -> str:
    """Returns how to search a hyper-parameter that is given as a range or a list of values."""
    value = params[guilty[0]] if guilty else None
    if isinstance(value, Mapping):
        return f"; ranges belong under `search`: search: {{{guilty[0]}: {{…}}}}"
    if isinstance(value, list) and len(value) > 1:  # pyright: ignore[reportUnknownArgumentType]: it comes from YAML
        return f"; to try each of them write search: {{{guilty[0]}: {{values: {shortened(str(value))}}}}}"  # pyright: ignore[reportUnknownArgumentType]: as above
    return ""
