"""Every reader of files, given sound files that somebody changed: a result or one named error, within 10 s and 2 GB.

Each reader runs in a child process, whose memory is limited and measured. `CROWDSWEEP_MUTATIONS` says how many inputs
each of them is given; `make test-all` gives ten thousand.
"""

import json
import os
import random
import time
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import yaml
from databases_of_sweeps import database, hurt_database, read_database
from mutations import Reader, campaign, mutated
from safetensors.numpy import save
from sound_files import SOUND, WORDS, folder_files
from sound_sweeps import SPACES, hurt_sweep, sound_sweep

from crowdsweep.analysis.trial_table import results_table
from crowdsweep.data.describe import describe
from crowdsweep.data.oddities import find_oddities
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import BadInput, CrowdsweepError
from crowdsweep.importing.normalise import normalised
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.write import write_rows
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.labelling.recipe import RECIPE, read_recipe
from crowdsweep.record.journal import read_journal
from crowdsweep.record.rows import START, chain, parse_row
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep

MUTATIONS = int(os.environ.get("CROWDSWEEP_MUTATIONS", "60"))
ROOT = Path(__file__).parents[2]
FEATURES = np.zeros((2, 4), np.float32)


@cache
def bytes_of(pattern: str) -> list[bytes]:
    """The contents of files of this repository, in the order of their names."""
    return [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


def journal(rng: random.Random) -> dict[str, bytes]:
    content = rng.choice(bytes_of("tests/assets/journals/*/failing/journal.jsonl"))
    return {"journal.jsonl": b"".join(content.splitlines(keepends=True)[: rng.choice([3, 10, 30])])}


def hurt_journal(data: bytes, rng: random.Random) -> bytes:
    """Changes any bytes, or what a row says, whose checksum then agrees."""
    rows = [parse_row(row) for row in data.splitlines(keepends=True)]
    if rng.random() < 0.4 or None in rows:
        return mutated(data, rng)
    texts = [row.text.decode() for row in rows if row is not None]
    at = rng.randrange(len(texts))
    texts[at] = mutated(texts[at].encode(), rng).decode("utf-8", "replace").replace("\n", " ")
    return chain(texts, START)[0]


def recipe(rng: random.Random) -> dict[str, bytes]:
    told = {
        "command": "crowdsweep label birds",
        "dataset": "birds",
        "params": {"smoothing": rng.random(), "hidden": [16, 16]},
        "seeds": list(range(5)),
        "classes": list(WORDS),
        "calibration": {"in_words": "as they are", "rows": 12, "temperature": 1.5},
        "notes": ["annotators: few", "a: b"],
        "files": ["classifier/", "labels.csv", "annotators.csv"],
        "written": "2026-01-01 10:00 UTC",
    }
    return {RECIPE: yaml.safe_dump(told, sort_keys=False, allow_unicode=True).encode()}


def classifier(rng: random.Random) -> dict[str, bytes]:
    draw, scaled = np.random.default_rng(rng.randrange(1000)), {"mean": np.zeros(4), "factor": np.ones(4)}
    shapes = {"w0": (4, 3), "b0": (1, 3), "w1": (3, 2), "b1": (1, 2)}
    weights = {
        f"fit-{fit}.safetensors": save(
            {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} | scaled
        )
        for fit in range(2)
    }
    told = {
        "format": rng.choice([2, 3]),
        "network": {"kind": "dense", "activation": "relu", "output": "softmax", "widths": [4, 3, 2], "dropout": 0.0},
        "classes": ["no", "yes"],
        "fits": list(weights),
        "digests": {name: sha256(content).hexdigest() for name, content in weights.items()},
    }
    return {"classifier.json": json.dumps(told, indent=2).encode(), **weights}


def read_sweep(place: Path, rng: random.Random) -> None:
    config = load_sweep(place / "sweep.yaml")
    assert parse_sweep(config_to_mapping(config), str(place / "sweep.yaml")) == config


def read_dataset(place: Path, rng: random.Random) -> None:
    dataset = read_folder(place)
    find_oddities(dataset)
    describe(dataset)


def export(rng: random.Random) -> dict[str, bytes]:
    number = rng.randrange(len(SOUND))
    return {f"{number}-{SOUND[number][1]}": SOUND[number][2](rng)}


def read_export(place: Path, rng: random.Random) -> None:
    (path,) = place.iterdir()
    form, _, _, asked = SOUND[int(path.name.partition("-")[0])]
    try:
        imported = read_form(form, path, asked)
        write_rows(normalised(imported) if rng.random() < 0.3 else imported, place / "out")
    except CrowdsweepError:
        assert not (place / "out").exists(), "something was left behind"
        raise


def read_classifier(place: Path, rng: random.Random) -> None:  # a reader
    saved = load_classifier(place)
    try:
        saved.predict(FEATURES)
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error


READERS = {
    "journal": Reader(
        make=journal, read=lambda place, _: results_table(read_journal(place), "all", every=True), ways=hurt_journal
    ),
    "recipe": Reader(make=recipe, read=lambda place, _: read_recipe(place)),
    "classifier": Reader(make=classifier, read=read_classifier),
    "dataset": Reader(make=folder_files, read=read_dataset),
    "export": Reader(make=export, read=read_export),
    "sweep file": Reader(
        make=sound_sweep, read=read_sweep, ways=hurt_sweep, first=lambda: [*map(load_sweep, SPACES.glob("*.yaml"))]
    ),
    "database": Reader(make=database, read=read_database, ways=hurt_database),
}


@pytest.mark.timeout(3600)  # of ten thousand
@pytest.mark.skipif(not hasattr(os, "fork"), reason="memory is limited in a child process")
@pytest.mark.parametrize("name", READERS)
def test_a_changed_input_ends_in_a_result_or_one_named_error(name: str) -> None:
    started = time.perf_counter()
    ended = campaign(READERS[name], range(MUTATIONS))
    print(
        f"{name}: {dict(ended.ends)} in {time.perf_counter() - started:.0f} s, slowest {ended.slowest_s:.2f} s, "
        f"at most {ended.largest_bytes >> 20} MB"
    )
    assert not ended.wrong, "\n".join([f"{len(ended.wrong)} of {MUTATIONS}", *ended.wrong[:10]])
    assert min(ended.ends["result"], ended.ends["named error"]) > MUTATIONS / 30, "all sound, or all hopeless"


# What longer campaigns have found: Parquet whose footer cannot be true, which ended the process; an id of 5,000 digits.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="memory is limited in a child process")
@pytest.mark.parametrize(("name", "seed"), [("dataset", 8709), ("dataset", 4340)])
def test_what_was_wrong_once(name: str, seed: int) -> None:
    assert campaign(READERS[name], range(seed, seed + 1)).wrong == []
