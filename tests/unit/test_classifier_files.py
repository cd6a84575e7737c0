"""A saved classifier that somebody damaged or changed: one named error, and never other labels without a word."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file
from time_limit import at_most

from crowdsweep.errors import BadInput
from crowdsweep.labelling.classifiers import (
    PlainClassifier,
    load_classifier,
    save_classifiers,
)
from crowdsweep.models.classifier import NetworkPredictor
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.scaling import Scale

FEATURES = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
WEIGHTS = "fit-0.safetensors"


def saved(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    network = DenseNetwork(widths=(4, 3, 2))
    values = {one.name: rng.normal(size=one.shape).astype(np.float32) for one in network.parameters()}
    fit = PlainClassifier(
        predictor=NetworkPredictor(network=network, values=values),
        order=np.arange(2),
        scale=Scale(mean=np.zeros(4), factor=np.ones(4)),
    )
    save_classifiers(folder, [fit, fit], ["no", "yes"], "soft-mv")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(tmp_path / "classifier")


def described(folder: Path, **changes: Any) -> None:
    path = folder / "classifier.json"
    told = json.loads(path.read_text())
    network = {**told["network"], **changes.pop("network", {})}
    path.write_text(json.dumps({**told, "network": network, **changes}))


def resaved(folder: Path, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], *, digests: bool) -> None:
    """Changes weights, and the digest in the description where a forger would."""
    content = save(change(load_file(folder / WEIGHTS)))
    (folder / WEIGHTS).write_bytes(content)
    if not digests:
        described(folder, format=2)


def refused(folder: Path, told: str = "expected") -> str:
    with at_most(5), pytest.raises(BadInput, match=told) as error:
        load_classifier(folder)
    assert type(error.value).__module__ == "crowdsweep.errors"
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 1000
    return str(error.value)


def test_what_was_saved_is_read(folder: Path) -> None:
    read = load_classifier(folder)
    probs = read.predict(FEATURES)
    assert (read.class_names, probs.shape) == (("no", "yes"), (3, 2))
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    told = json.loads((folder / "classifier.json").read_text())
    assert (told["format"], set(told["digests"])) == (3, {WEIGHTS, "fit-1.safetensors"})


@pytest.mark.parametrize("version", [1, 2])
def test_earlier_formats_are_read(version: int, folder: Path) -> None:
    wanted = load_classifier(folder).predict(FEATURES)
    path = folder / "classifier.json"
    told = json.loads(path.read_text())
    del told["digests"]
    path.write_text(json.dumps({**told, "format": version}))
    np.testing.assert_array_equal(load_classifier(folder).predict(FEATURES), wanted)


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "header", "bit", "longer"])
def test_damaged_weights_are_refused(damage: str, folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "empty": b"",
        "zeros": bytes(100),
        "header": (2**60).to_bytes(8, "little") + content[8:],
        "bit": content[:-3] + bytes([content[-3] ^ 0x40]) + content[-2:],
        "longer": content + bytes(100),
    }
    (folder / WEIGHTS).write_bytes(damaged[damage])
    refused(folder, "SHA-256")
    described(folder, format=2)
    if damage == "bit":
        load_classifier(folder)  # nobody can know
    else:
        refused(folder, "expected a folder `classifier`")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays: {name: array.astype(np.int8) for name, array in arrays.items()}, "float32"),
        (lambda arrays: {name: array.astype(np.float64) for name, array in arrays.items()}, "float32"),
        (lambda arrays: {name: array > 0 for name, array in arrays.items()}, "float32"),
        (lambda arrays: {name: array * np.float32("nan") for name, array in arrays.items()}, "finite"),
        (lambda arrays: {**arrays, "mean": arrays["mean"] * np.inf}, "finite"),
        (lambda arrays: dict(list(arrays.items())[1:]), "got none"),
        (lambda arrays: {name: array for name, array in arrays.items() if name != "mean"}, "as array mean"),
        (lambda arrays: {**arrays, "w9": arrays["w0"]}, "as array w9 none"),
        (lambda arrays: {**arrays, "w0": arrays["w0"].T.copy()}, r"as array w0 float32 \(4, 3\), got float32 \(3, 4\)"),
    ],
)
def test_weights_of_other_types_and_shapes_are_refused(
    change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], told: str, folder: Path
) -> None:
    with np.errstate(invalid="ignore"):
        resaved(folder, change, digests=False)
    refused(folder, told)


def test_weights_that_overflow_give_an_error_and_no_probabilities(folder: Path) -> None:
    resaved(folder, lambda arrays: {**arrays, "w1": np.full_like(arrays["w1"], 3e38)}, digests=False)
    with pytest.raises(BadInput, match="got NaN"):
        load_classifier(folder).predict(FEATURES * 1e3)


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"fits": fits}
            for fits in ([], WEIGHTS, [1], None, [".."], [""], ["a\0b"], ["../x"], [WEIGHTS] * 2, ["none"])
        ),
        {"fits": [f"fit-{n}.safetensors" for n in range(20_000)]},
        *({"classes": names} for names in (["a"], list("abcdef"), "ab", 5, [None, None], ["a", "a"], ["a", "\ud800"])),
        *({"network": {"widths": widths}} for widths in ([], [4], [10**12, 10**12], [-4, 2], "42", [True, 2], None)),
        *({"network": {"widths": widths}} for widths in ([4.0, 3, 2], [[4], 2], [1] * 100_000, [4, 10**9, 2])),
        *({"network": {key: "tanh"}} for key in ("activation", "output", "kind")),
        *({"format": version} for version in (0, 4, "3", None, True, 2.0, [])),
        *({"digests": digests} for digests in (None, {}, {WEIGHTS: "0" * 64}, {WEIGHTS: 1, "fit-1.safetensors": 1})),
        {"network": {"activation": None}},
    ],
)
def test_a_description_that_no_classifier_has_is_refused(changes: dict[str, Any], folder: Path) -> None:
    described(folder, **changes)
    refused(folder)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b'"x"', b"NaN", b"\xff", "{}".encode("utf-16"), bytes(50)),
        *(b"[" * 100_000 + b"]" * 100_000, b'{"format":3,"network":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"),
        b'{"format":' + b"9" * 6000 + b"}",
        b'{"format":3,"network":{"kind":"dense","activation":"relu","output":"softmax","widths":[1e400]}}',
    ],
)
def test_a_damaged_description_is_refused(content: bytes, folder: Path) -> None:
    (folder / "classifier.json").write_bytes(content)
    refused(folder)


@pytest.mark.parametrize("name", ["classifier.json", WEIGHTS])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "dangling", "none", "long"])
def test_what_is_no_file_is_not_read(kind: str, name: str, folder: Path) -> None:
    path = folder / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to(path.name)
    elif kind == "long":
        with path.open("wb") as file:
            file.truncate(1 << 40)  # takes no room
    refused(folder)


@pytest.mark.parametrize("place", ["no-such-folder", "n" * 300, "p/" * 3000, "a\0b"])
def test_a_folder_that_cannot_be_is_a_named_error(place: str) -> None:
    with pytest.raises(BadInput, match="found none"):
        load_classifier(place)


def test_another_readers_file_may_stand_beside_it(folder: Path) -> None:
    save_file({"x": np.zeros(1, np.float32)}, folder / "notes.safetensors")
    assert len(load_classifier(folder).fits) == 2


@pytest.mark.parametrize("key", ["activation", "output"])
def test_the_newest_format_says_what_its_network_computes(folder: Path, key: str) -> None:
    path = folder / "classifier.json"
    told = json.loads(path.read_text())
    del told["network"][key]
    path.write_text(json.dumps(told))
    assert f"network.{key}" in refused(folder)
