"""CIFAR-10 from files in its official layout, made small: read, embedded, answered by the crowd of Setup 2, fetched."""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from file_server import file_server
from PIL import Image
from timm_stand_in import Timm, stand_in_for_timm

from crowdsweep import app
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue, public
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk import cifar_binary
from crowdsweep.data.public import PUBLIC_DATASETS
from crowdsweep.data.sources import cifar_10
from crowdsweep.errors import DataError
from crowdsweep.fetching import download as downloads
from crowdsweep.record.journal import read_journal
from crowdsweep.seeds import SeedStream
from crowdsweep.sweepfile.read import load_sweep

N = 30
"""Records of a file, in place of 10,000."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
timm = pytest.fixture(stand_in_for_timm)
SWEEP = Path(__file__).parents[2] / "search_spaces/sparsity-cifar10.yaml"


def images(n: int = 6 * N) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, row, column, colour], and the class of each, which colours its corner."""
    draws = np.random.default_rng(0)
    gold = np.arange(n) % 10
    found = draws.integers(0, 256, size=(n, 32, 32, 3), dtype=np.uint8)
    found[:, :16, :16] = (25 * gold[:, None, None, None]).astype(np.uint8)
    return found, gold


def released() -> dict[str, bytes]:
    """The files, a record after the other: the class, then red, green and blue, a row after the other."""
    found, gold = images()
    files: dict[str, bytes] = {}
    for number, name in enumerate([*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]):
        content = bytearray()
        for image in range(number * N, (number + 1) * N):
            content.append(int(gold[image]))
            for colour in range(3):
                for row in range(32):
                    content += found[image, row, :, colour].tobytes()
        files[name] = bytes(content)
    return {**files, "batches.meta.txt": "\n".join([*CLASSES, "", ""]).encode()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of datasets, on the search path."""
    monkeypatch.setattr(cifar_binary, "RECORDS", N)
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "sets"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "sets"


def written(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in released().items():
        (folder / name).write_bytes(content)
    return folder


def drawn(**params: object) -> CrowdDataset:
    base = catalogue.load("cifar-10", params)  # type: ignore[arg-type]
    assert cifar_10.SOURCE.draw is not None
    return cifar_10.SOURCE.draw(base, SeedStream(0).child("crowd"))


@pytest.mark.parametrize("name", ["cifar-10", "cifar-10-batches-bin"])
def test_the_files_become_items_with_gold_in_the_official_split(name: str, place: Path) -> None:
    written(place / name)
    data = catalogue.load("cifar-10", {"components": 4})
    assert data.class_names == CLASSES
    assert [len(data.items_of(split)) for split in ("train", "dev", "test")] == [5 * N, 0, N]
    assert np.array_equal(data.gold.label, images()[1])
    assert len(data.annotations) == 0


def test_components_are_those_of_a_plain_decomposition(place: Path) -> None:
    """Of the training images alone, by their singular values; of each the largest weight is positive."""
    written(place / "cifar-10")
    data = catalogue.load("cifar-10", {"components": 7})
    pixels = images()[0].transpose(0, 3, 1, 2).reshape(6 * N, -1) / 255
    centred = pixels - pixels[: 5 * N].mean(axis=0)
    _, _, directions = np.linalg.svd(centred[: 5 * N], full_matrices=False)
    for direction in directions[:7]:
        direction *= np.sign(direction[np.abs(direction).argmax()])
    assert data.items.features.dtype == np.float32
    assert data.items.features == pytest.approx(centred @ directions[:7].T, abs=2e-4)
    assert np.ptp(data.items.features.var(axis=0)[:1]) == 0


def test_they_are_found_once_and_their_last_digits_are_no_other_data(place: Path, monkeypatch) -> None:
    folder = written(place / "cifar-10")
    first = catalogue.load("cifar-10", {"components": 3})
    real = cifar_10.principal_components
    monkeypatch.setattr(cifar_10, "principal_components", lambda *given: 1 / 0)
    assert np.array_equal(catalogue.load("cifar-10", {"components": 3}).items.features, first.items.features)
    monkeypatch.setattr(cifar_10, "principal_components", lambda *given: real(*given) * np.float32(1.0000001))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "other"))
    assert catalogue.load("cifar-10", {"components": 3}).fingerprint == first.fingerprint
    assert catalogue.load("cifar-10", {"components": 2}).fingerprint != first.fingerprint
    content = bytearray((folder / "data_batch_2.bin").read_bytes())
    content[77] ^= 1
    (folder / "data_batch_2.bin").write_bytes(content)
    assert catalogue.load("cifar-10", {"components": 3}).fingerprint != first.fingerprint


def test_the_crowd_answers_train_items_as_the_published_diagonals_say(place: Path, monkeypatch) -> None:
    written(place / "cifar-10")
    data = drawn(annotators=2000, labels_per_item=1000, components=2)
    rows, crowd = data.annotations, data.crowd
    assert crowd is not None
    assert set(data.split[np.unique(rows.item)]) == {1}
    gold, group = data.gold.label[rows.item], crowd.group[rows.annotator]
    right = np.zeros((4, 10))
    for kind in range(4):
        for code in range(10):
            right[kind, code] = (rows.label[(gold == code) & (group == kind)] == code).mean()
    assert right == pytest.approx(cifar_10._RIGHT, abs=0.04)
    assert right.mean(axis=1) == pytest.approx([0.745, 0.361, 0.325, 0.165], abs=0.02)
    assert np.bincount(crowd.group) / 2000 == pytest.approx([0.20, 0.45, 0.15, 0.20], abs=0.04)


def test_a_network_of_timm_sees_the_images(place: Path, tmp_path: Path, timm: Timm) -> None:
    written(place / "cifar-10")
    data = catalogue.load("cifar-10", {"features": f"image:timm/{tmp_path / 'model'}"})
    scaled = [np.asarray(Image.fromarray(image).resize((4, 4)), dtype=float).mean(axis=(0, 1)) for image in images()[0]]
    assert data.items.features == pytest.approx(np.array(scaled), abs=1e-3)
    assert data.features_from.startswith(f"image:timm/{tmp_path / 'model'} 1 ")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"features": "vgg"}, r"parameter features: expected pca or \{image: timm/NAME\}, got 'vgg'"),
        ({"features": "text:tfidf"}, r"expected pca or \{image: timm/NAME\}"),
        ({"components": 0}, "components: expected a number at least 1, got 0"),
        ({"components": 5 * N}, "components: expected at most 149, got 150"),
    ],
)
def test_parameters_that_nobody_can_have_are_told(params: dict[str, object], said: str, place: Path) -> None:
    written(place / "cifar-10")
    with pytest.raises(DataError, match=said):
        catalogue.load("cifar-10", params)  # type: ignore[arg-type]


def test_without_the_files_it_is_said_how_to_get_them(place: Path) -> None:
    place.mkdir()
    with pytest.raises(
        DataError, match=r"expected data_batch_1.bin, … in one of .*/cifar-10, .*`crowdsweep fetch cifar"
    ):
        catalogue.load("cifar-10", {})


@pytest.mark.parametrize("name", ["cifar-10", "cifar-10-batches-py"])
def test_the_version_for_python_is_not_read(name: str, place: Path) -> None:
    (place / name).mkdir(parents=True)
    (place / name / "data_batch_1").write_bytes(b"cos\nsystem\n(S'touch pickled'\ntR.")
    with pytest.raises(
        DataError, match=rf"{name}: expected the binary version .*got that for Python.*are not read.*fetch"
    ):
        catalogue.load("cifar-10", {})


def test_files_that_are_not_what_they_should_be_are_told(place: Path) -> None:
    folder = written(place / "cifar-10")
    whole = (folder / "data_batch_3.bin").read_bytes()
    for content, said in (
        (whole[:-1], "data_batch_3.bin: expected 92,190 bytes, 30 records of 3,073, got 92,189"),
        (whole + b"1", "data_batch_3.bin: expected 30 records .* of at most 92,190 bytes, got more"),
        (
            whole[: 3073 * 7] + b"\x0a" + whole[3073 * 7 + 1 :],
            "data_batch_3.bin, record 8: expected a class from 0 to 9, got 10",
        ),
    ):
        (folder / "data_batch_3.bin").write_bytes(content)
        with pytest.raises(DataError, match=said):
            catalogue.load("cifar-10", {})
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3.bin: expected 30 records .*, found none"):
        catalogue.load("cifar-10", {})
    (folder / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="expected the names of 10 classes, got 2"):
        catalogue.load("cifar-10", {})


def test_the_archive_is_fetched_and_its_files_are_kept_as_they_are(place: Path, monkeypatch, capsys) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {**released(), "readme.html": b"<html>"}.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    dataset = PUBLIC_DATASETS["cifar-10"]
    (file,) = dataset.files
    assert (set(file.members), file.checksum) == (released().keys(), "md5:c32a1d4ab5d03f1284b67883e8d87530")
    assert file.members.keys() == {*cifar_binary.FILES, cifar_binary.CLASSES_FILE}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "_PAUSE_S", 0.0)
    with file_server() as server:
        path = urlsplit(file.url).path
        server.files[path] = packed.getvalue()
        checksum = f"md5:{hashlib.md5(packed.getvalue()).hexdigest()}"
        here = replace(dataset, files=(replace(file, url=server.url + path, checksum=checksum),))
        monkeypatch.setitem(public.PUBLIC_DATASETS, "cifar-10", here)  # type: ignore[arg-type] - a dict
        for said in ("60,000 items, for crowds that are simulated", "cifar-10: is here already"):
            assert run_command_line(["fetch", "cifar-10"]) == 0
            assert said in capsys.readouterr().out
    assert {path.name for path in place.iterdir()} == {"cifar-10"}
    assert "Krizhevsky" in (place / "cifar-10/SOURCE.md").read_text()
    for name, content in released().items():
        assert (place / "cifar-10" / name).read_bytes() == content


@pytest.mark.long
def test_the_sweep_that_comes_along_runs(place: Path, tmp_path: Path) -> None:
    written(place / "cifar-10")
    short = ["study.annotators=[20, 60]", "datasets.cifar-10.components=8", "seeds.report=1", "engine=inline"]
    app.run(load_sweep(SWEEP, [*short, "tracking={enabled: false}"]), tmp_path / "run", quiet=True)
    results = read_journal(tmp_path / "run").results.values()
    assert [result.status for result in results] == ["ok"] * 12
    assert all("test_accuracy" in result.metrics for result in results)
