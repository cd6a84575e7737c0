"""The job package: a folder with all that a sweep needs to run on a cluster.

    sweep.yaml      the sweep file, with every default and `--set` written out
    package.json    the `JobOrder`: store, versions of this machine, the job's id, …
    data/NAME       a dataset's folder; the sweep file calls the dataset NAME
    plugins/N       each folder of CROWDSWEEP_PLUGINS
    earlier/NAME    the journal of an earlier sweep that the search starts from (`warm_start`)

A dataset is called by its folder's name and found through CROWDSWEEP_DATA. So the record contains no path of the
package, which is gone when the job has ended.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml

from crowdsweep.data import catalogue
from crowdsweep.data.computed.kinds import computed, is_computed
from crowdsweep.data.on_disk.updates import CHANGED, current_path
from crowdsweep.errors import BadInput, DataError, error_words
from crowdsweep.files.typed import Many, Text, Truth, read_as
from crowdsweep.paths import is_file, is_folder, names_in
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import store_named
from crowdsweep.registry import discovery
from crowdsweep.sweepfile.read import config_to_mapping
from crowdsweep.sweepfile.records import DatasetEntry, SweepConfig

SWEEP_FILE, PACKAGE_FILE, DATA, PLUGINS, EARLIER = "sweep.yaml", "package.json", "data", "plugins", "earlier"
MOST_BYTES = 500 << 20
"""Size limit of a package: a cluster's head node keeps it in memory."""
_LEFT_OUT = ("__pycache__", "crowdsweep-runs", "crowdsweep-labels")


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """What the driver on the cluster is told besides the sweep.

    Attributes:
        job: submission id of the job.
        store: location of the record, as the cluster sees it.
        is_shared: whether the machine that submitted the job sees the same folder.
        versions: versions of Python and the libraries on the submitting machine; empty where any will do.
        again: words of the command that submits the job again, without `--set`.
        overrides: `--set` options of that command.
        retry_failed: whether trials that failed in earlier runs run again.
    """

    job: Text
    store: Text
    is_shared: Truth
    versions: Mapping[str, str]
    again: Many[Text]
    overrides: Many[Text] = ()
    retry_failed: Truth = False


def pack(config: SweepConfig, order: JobOrder, folder: Path) -> None:
    """Writes a package into an empty folder.

    Raises:
        UnknownName, DataError: a dataset is not found here, or its images would have to be sent.
        BadInput: the package would be larger than `MOST_BYTES`.
    """
    originals = dict.fromkeys(entry.name for entry in config.datasets)
    found = {name: catalogue.find_folder(name) for name in originals if discovery.get("dataset", name) is None}
    for entry in config.datasets:
        if entry.name in found:
            _check_images(entry)
    places = _places(found)
    files = [(path, places[name] / path.name) for name, source in found.items() for path in _files(source)]
    for number, plugin in enumerate(discovery.search_path()):
        files += [(path, Path(PLUGINS, str(number)) / path.relative_to(plugin)) for path in _tree(plugin)]
    earlier = {store: Path(EARLIER, path.name) for store in config.sampler.warm_start if (path := _folder(store))}
    journals = {Path(store, JOURNAL_FILE): place / JOURNAL_FILE for store, place in earlier.items()}
    files += [(path, place) for path, place in journals.items() if is_file(path)]  # else looked for on the cluster
    size = sum(path.stat().st_size for path, _ in files)
    if size > MOST_BYTES:
        raise BadInput(
            f"expected at most {MOST_BYTES >> 20} MiB of datasets and plug-ins to send to a cluster, got "
            f"{size >> 20} MiB; put the data where its nodes find them, and run the sweep there (clusters/README.md)"
        )
    for path, place in files:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)
    called = {name: place.name if place.parent == Path(DATA) else f"./{place}" for name, place in places.items()}
    called |= {store: f"./{place}" for store, place in earlier.items()}
    mapping = config_to_mapping(_renamed(config, called))
    (folder / SWEEP_FILE).write_text(yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True), encoding="utf-8")
    (folder / PACKAGE_FILE).write_text(json.dumps(asdict(order)), encoding="utf-8")


def _check_images(entry: DatasetEntry) -> None:
    kind = entry.params.get("features")
    if isinstance(kind, str) and is_computed(kind) and computed(kind).of == "image":
        raise DataError(
            f"dataset {entry.name}: expected features that are numbers, got {computed(kind).asked}, and images are not "
            f"sent to a cluster; write them into a folder of their own, by Python, and name that: "
            f"`crowdsweep.load({entry.name!r}, features={kind!r}).save(FOLDER)`"
        )


def read_order(folder: Path) -> JobOrder:
    """Returns the `JobOrder` of a package.

    Raises:
        BadInput: the folder is no package.
    """
    try:
        return read_as(JobOrder, json.loads((folder / PACKAGE_FILE).read_bytes()))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{folder}: expected what `crowdsweep submit` packages, got another folder ({error_words(error)}); this "
            f"command is for the cluster's side of it"
        ) from None


def search_in(folder: Path) -> Mapping[str, str]:
    """Returns the search paths of datasets and plug-ins, by environment variable.

    Datasets of the package come before those of the cluster. Its plug-ins take their place: the cluster may have the
    same ones, and a model that is defined twice is refused.
    """
    plugins = folder / PLUGINS
    numbers = sorted((int(name) for name in names_in(plugins)) if plugins.is_dir() else ())
    ours = os.pathsep.join(str(plugins / str(number)) for number in numbers)
    there = os.environ.get(catalogue.SEARCH_PATH, "")
    return {
        catalogue.SEARCH_PATH: os.pathsep.join(part for part in (str(folder / DATA), there) if part),
        discovery.SEARCH_PATH: ours or os.environ.get(discovery.SEARCH_PATH, ""),
    }


def _places(found: Mapping[str, Path]) -> dict[str, Path]:
    """Returns the place of each dataset's folder in a package.

    That is `data/` and the folder's name, or `data/others/N/` and its name where another folder or a built-in dataset
    has the same name.
    """
    times = Counter(folder.name for folder in found.values())
    built_in = discovery.find("dataset")
    return {
        name: Path(DATA, folder.name)
        if times[folder.name] == 1 and folder.name not in built_in
        else Path(DATA, "others", str(number), folder.name)
        for number, (name, folder) in enumerate(found.items())
    }


def _folder(store: str) -> Path | None:
    """Returns the folder of a record; None for one in an object store, which the cluster reads itself."""
    named = store_named(store)
    return named if isinstance(named, Path) else None


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files of a dataset's folder, in their current version: a changed one may still be below `CHANGED`."""
    names = sorted({*names_in(folder), *names_in(folder / CHANGED)})
    yield from (path for name in names if name[0] != "." and is_file(path := current_path(folder, name)))


def _tree(folder: Path) -> Iterator[Path]:
    """Yields all files below a folder of plug-ins, with the data files that a plug-in reads."""
    yield from _files(folder)
    for name in sorted(names_in(folder)):
        if name[0] != "." and name not in _LEFT_OUT and is_folder(folder / name) and not (folder / name).is_symlink():
            yield from _tree(folder / name)


def _renamed(config: SweepConfig, called: Mapping[str, str]) -> SweepConfig:
    """Returns a sweep with other names for its datasets and for the earlier sweeps of `warm_start`."""

    def now(name: str) -> str:
        return called.get(name, name)

    values = tuple(replace(value, dataset=now(value.dataset)) for value in config.published.values)
    return replace(
        config,
        datasets=tuple(replace(entry, name=now(entry.name)) for entry in config.datasets),
        models=tuple(replace(entry, datasets=tuple(map(now, entry.datasets))) for entry in config.models),
        published=replace(config.published, values=values),
        sampler=replace(config.sampler, warm_start=tuple(map(now, config.sampler.warm_start))),
        source="",
    )
