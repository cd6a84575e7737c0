"""Features that are computed of images: of files in one folder, bounded, once, and part of what a trial is."""

import hashlib
import logging
import os
import struct
import sys
import types
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from timm_stand_in import MeanColour, Timm, stand_in_for_timm

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue
from crowdsweep.data.computed import image_files, images
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.oddities import find_oddities
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError

N_ITEMS = 10


def colours() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, size=(N_ITEMS, 3), dtype=np.uint8)


def written(folder: Path, *, names: Mapping[int, str] | None = None, root: str = "") -> Path:
    """Ten items, each with a picture of one colour, in the order of their ids."""
    (folder / "photos").mkdir(parents=True)
    told = [f"photos/{n}.png" for n in range(N_ITEMS)]
    for name, colour in zip(told, colours(), strict=True):
        Image.fromarray(np.broadcast_to(colour, (6, 4, 3)).copy()).save(folder / name)
    for n, name in (names or {}).items():
        told[n] = name
    rows = [f"i{n},{'train' if n < 6 else 'test'},{name}" for n, name in enumerate(told)]
    (folder / "items.csv").write_text("\n".join(["item,split,image", *rows]) + "\n")
    answers = [f"i{n},a{who},{'cat' if n % 2 else 'dog'}" for n in range(6) for who in range(3)]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *answers]) + "\n")
    if root:
        (folder / "dataset.yaml").write_text(f"name: album\nimages: {root}\n")
    return folder


timm = pytest.fixture(stand_in_for_timm)


def loaded(folder: Path, model: Path | str | None = None, **params: object) -> CrowdDataset:
    kind = f"image:timm/{folder.parent / 'model' if model is None else model}"
    return catalogue.load(str(folder), {"features": kind, **params})  # type: ignore[arg-type]


def test_each_item_has_what_the_network_says_of_its_image(tmp_path: Path, timm: Timm) -> None:
    data = loaded(written(tmp_path / "album"))
    assert data.items.features.dtype == np.float32
    assert np.array_equal(data.items.features, colours())
    assert timm.loaded == [f"local-dir:{tmp_path / 'model'}"]
    folds = prepare(loaded(tmp_path / "album", folds=3), {"folds": 3}, 0)  # nothing is fitted to training items
    assert folds.training.items.features.shape == (2, 3)


def test_they_are_computed_once_and_what_was_ended_goes_on(tmp_path: Path, timm: Timm, monkeypatch) -> None:
    monkeypatch.setattr(images, "BLOCK", 4)
    monkeypatch.setattr(images, "BATCH", 3)
    folder = written(tmp_path / "album")
    real = images.keep
    monkeypatch.setattr(images, "keep", lambda *given: real(*given) if timm.seen < 8 else 1 / 0)
    with pytest.raises(ZeroDivisionError):  # as it is killed after the first block
        loaded(folder)
    monkeypatch.setattr(images, "keep", real)
    assert timm.seen == 8
    data = loaded(folder)
    assert timm.seen == 8 + 6
    assert np.array_equal(data.items.features, colours())
    assert np.array_equal(loaded(folder).items.features, colours())
    kept = sorted((tmp_path / "cache/crowdsweep/features").iterdir())
    assert (timm.seen, len(kept)) == (14, 3)
    kept[0].write_bytes(b"damaged")
    assert loaded(folder).fingerprint == data.fingerprint
    assert timm.seen in (14 + 4, 14 + 2)


def test_images_and_the_network_are_part_of_what_a_trial_is(tmp_path: Path, timm: Timm, monkeypatch) -> None:
    folder = written(tmp_path / "album")
    data = loaded(folder)
    plain = catalogue.load(str(folder), {})
    assert plain.fingerprint != data.fingerprint
    monkeypatch.setattr(MeanColour, "scale", 1.0000001)  # another machine's last digits
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert loaded(folder).fingerprint == data.fingerprint
    (folder / "photos/3.png").rename(folder / "photos/three.png")
    (folder / "items.csv").write_text((folder / "items.csv").read_text().replace("3.png", "three.png"))
    assert loaded(folder).fingerprint == data.fingerprint  # another name is no other picture
    assert catalogue.load(str(folder), {}).fingerprint == plain.fingerprint
    Image.new("RGB", (4, 4), "red").save(folder / "photos/three.png")
    other = loaded(folder)
    assert other.fingerprint != data.fingerprint
    assert other.items.features[3] == pytest.approx([255, 0, 0])
    (tmp_path / "model/model.safetensors").write_bytes(b"2")
    assert loaded(folder).fingerprint != other.fingerprint
    monkeypatch.setattr(images, "VERSION", 2)
    assert len({loaded(folder).fingerprint, other.fingerprint, data.fingerprint}) == 3


def test_images_may_begin_in_another_folder_and_are_found_after_a_copy(tmp_path: Path, timm: Timm) -> None:
    folder = written(tmp_path / "album", root="../elsewhere")
    (folder / "photos").rename(tmp_path / "elsewhere")
    (folder / "items.csv").write_text((folder / "items.csv").read_text().replace("photos/", ""))
    data = loaded(folder)
    assert np.array_equal(data.items.features, colours())
    (tmp_path / "deeper").mkdir()
    write_folder(read_folder(folder), tmp_path / "deeper/copy")
    assert loaded(tmp_path / "deeper/copy", tmp_path / "model").items.features.tolist() == colours().tolist()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../secret.png", r"items.csv, row 4, column image, item 'i3': expected a file in .*album, got .*leads out"),
        ("/etc/hostname", "which leads out of it"),
        ("photos/link.png", "which leads out of it"),
        ("photos/gone.png", "row 4.*expected 'photos/gone.png' in .*album, found none; put it there"),
        ("photos", "found a folder"),
        ("photos/pipe", "found a pipe"),
        ("https://example.org/3.png", "got an address.*download the images first"),
        ("", "row 4.*'i3': expected an image of every item, as {image: timm/.*} needs, 1 have none"),
        ("photos/words.png", r"row 4.*'i3': expected an image \(JPEG, PNG, .*words.png, cannot read it as that"),
        ("photos/script.eps", "cannot read it as that"),  # read by a program of its own, where it were let pass
        ("photos/cut.png", "cut.png, cannot read it as that"),
        ("photos/deep.png", "expected eight bits for each colour in .*deep.png, got the mode 'I;16'"),
        ("photos/wide.png", "expected at most 67,108,864 pixels in .*wide.png, got 20,000 × 4,000"),
        ("photos/wider.png", "expected at most 67,108,864 pixels in .*wider.png, got more"),
        ("x" * 300, "found none"),
    ],
)
def test_an_image_that_cannot_be_used_is_told_with_its_row(name: str, said: str, tmp_path: Path, timm: Timm) -> None:
    folder = written(tmp_path / "album", names={3: name})
    photos = folder / "photos"
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    (photos / "words.png").write_text("words")
    (photos / "script.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n")
    whole = (photos / "0.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(photos / "deep.png")
    for size, bomb in (((20_000, 4_000), "wide.png"), ((60_000, 60_000), "wider.png")):
        (photos / bomb).write_bytes(png_head(*size))
    os.mkfifo(photos / "pipe")
    with pytest.raises(DataError, match=said):
        loaded(folder)
    if name != "photos/cut.png":  # what its head does not tell is found when it is read
        assert (timm.loaded, timm.seen) == ([], 0)


def png_head(width: int, height: int) -> bytes:
    """A picture of few bytes that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, timm: Timm, monkeypatch) -> None:
    folder = written(tmp_path / "album")
    monkeypatch.setattr(image_files, "MOST_BYTES", (folder / "photos/0.png").stat().st_size)
    (folder / "photos/7.png").write_bytes(bytes(10_000))
    with pytest.raises(DataError, match=r"row 8.*at most \d+ bytes in .*7.png, got 10,000"):
        loaded(folder)


def test_without_images_or_their_folder_it_is_said_how_to_have_some(tmp_path: Path, timm: Timm) -> None:
    folder = written(tmp_path / "album", root="nowhere")
    with pytest.raises(DataError, match=r"expected its images in .*nowhere, found no such folder.*`images: FOLDER`"):
        loaded(folder)
    (folder / "items.csv").unlink()
    with pytest.raises(DataError, match=r"need images, and it has none.*init FILE --image COLUMN"):
        loaded(folder)


def test_check_says_which_images_are_not_there(tmp_path: Path) -> None:
    found = find_oddities(read_folder(written(tmp_path / "album", names={2: "photos/gone.png", 5: " ", 7: "photos"})))
    told = {oddity.kind: (oddity.count, oddity.examples) for oddity in found if "image" in oddity.kind}
    assert told == {
        "items without an image": (1, ("i5",)),
        f"images that are not in {tmp_path / 'album'}": (2, ("photos/gone.png", "photos")),
    }


def test_pixels_stand_as_people_see_them(tmp_path: Path) -> None:
    """Turned as the camera says, of a palette or in grey, of an animation the first picture."""
    upright = np.zeros((2, 3, 3), dtype=np.uint8)
    upright[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(np.rot90(upright).copy()).save(tmp_path / "turned.png", exif=exif)
    Image.fromarray(upright).convert("P").save(
        tmp_path / "palette.gif", save_all=True, append_images=[Image.new("P", (3, 2))]
    )
    Image.fromarray(upright[:, :, 0]).save(tmp_path / "grey.bmp")
    Image.fromarray(upright).convert("RGBA").save(tmp_path / "alpha.webp", lossless=True)
    for path in sorted(tmp_path.iterdir()):
        file = image_files.ImageFile(path, "", "here")
        with image_files.warned_of_size_alone():
            file.check()
            assert np.array_equal(np.asarray(file.rgb()), upright), path.name


def test_a_network_that_cannot_be_used_is_told(tmp_path: Path, timm: Timm, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "album")
    monkeypatch.setattr(MeanColour, "scale", float("nan"))
    with pytest.raises(DataError, match=r"gives no finite vector of each image, but shape \[10, 3\]"):
        loaded(folder)
    monkeypatch.setattr(MeanColour, "forward", lambda self, pixels: [pixels])
    with pytest.raises(DataError, match="gives no features"):
        loaded(folder)
    (tmp_path / "model/model.safetensors").rename(tmp_path / "model/pytorch_model.bin")
    with pytest.raises(DataError, match=r"cannot be used .*found no model.safetensors"):  # a pickle is not read
        loaded(folder)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(DataError, match=r"pip install 'crowdsweep\[images\]'"):
        loaded(folder)


def test_a_network_of_the_hub_is_asked_for_by_its_name(tmp_path: Path, timm: Timm, monkeypatch) -> None:
    asked: list[tuple[str, str]] = []
    hub = types.ModuleType("huggingface_hub")
    hub.hf_hub_download = lambda repo, file: asked.append((repo, file)) or str(tmp_path / "model" / file)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    folder = written(tmp_path / "album")
    first = loaded(folder, "resnet18.a1_in1k")
    assert loaded(folder, "somebody/theirs").fingerprint != first.fingerprint
    files = ("config.json", "model.safetensors")
    assert asked == [(repo, file) for repo in ("timm/resnet18.a1_in1k", "somebody/theirs") for file in files]
    monkeypatch.setattr(hub, "hf_hub_download", lambda *_: 1 / 0)
    with pytest.raises(DataError, match="is it a timm model on huggingface"):
        loaded(folder, "nobody/nothing")


def test_a_long_computation_says_how_far_it_is(tmp_path: Path, timm: Timm, monkeypatch, caplog) -> None:
    monkeypatch.setattr(images, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(images, "BATCH", 4)
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        loaded(written(tmp_path / "album"))
    said = [record.getMessage() for record in caplog.records]
    assert [words.split(": ")[-1].split(" of ")[0] for words in said] == ["4", "8"]
    assert all("of 10 images, about" in words for words in said)


def test_threads_are_given_back(tmp_path: Path, timm: Timm) -> None:
    before = torch.get_num_threads()
    loaded(written(tmp_path / "album"))
    assert torch.get_num_threads() == before


def test_a_digest_is_of_the_whole_file(tmp_path: Path, timm: Timm) -> None:
    folder = written(tmp_path / "album")
    data = read_folder(folder)
    assert data.images is not None
    found = image_files.image_files(data.images, data.item_names, "")
    assert [file.digest for file in found] == [
        hashlib.sha256((folder / f"photos/{n}.png").read_bytes()).hexdigest() for n in range(N_ITEMS)
    ]


def table(path: Path, name: Callable[[int], str], header: str = "photo,who,said", first: int = 0) -> Path:
    rows = [f"{name(n)},a{who},{'cat' if (n + who) % 3 else 'dog'}" for n in range(first, N_ITEMS) for who in range(3)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_init_keeps_the_images_that_a_column_names(tmp_path: Path, timm: Timm, capsys, monkeypatch) -> None:
    """A table with pictures beside it: names begin in its folder, wherever the dataset goes; `add` brings more."""
    (written(tmp_path / "work") / "photos/9.png").rename(tmp_path / "away.png")
    file = table(tmp_path / "work/answers.csv", lambda n: f"photos/{n}.png")
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["init", str(file), "sets/album", "--image", "photo"]) == 0
    said = capsys.readouterr().out
    assert "image is 'photo'" in said
    assert f"note: 1 of the 10 images are not in {tmp_path / 'work'}, such as 'photos/9.png'" in " ".join(said.split())
    assert "{image: timm/" in (tmp_path / "sets/album/sweep.yaml").read_text()
    (tmp_path / "away.png").rename(tmp_path / "work/photos/9.png")
    data = loaded(tmp_path / "sets/album", tmp_path / "model")
    assert data.items.features.tolist() == colours().tolist()

    Image.new("RGB", (4, 4), "red").save(tmp_path / "work/photos/10.png")
    more = tmp_path / "work/photos/more.csv"
    more.write_text("photo,file,who,said\nphotos/10.png,10.png,a1,cat\nphotos/3.png,3.png,a9,cat\n")
    add = ["add", "sets/album", str(more), "--item", "photo", "--annotator", "who", "--label", "said"]
    assert run_command_line(add) == 2
    assert "image describe each" in " ".join((told := capsys.readouterr().err).split())
    assert "by --image" in told
    assert run_command_line([*add, "--image", "file"]) == 0
    data = loaded(tmp_path / "sets/album", tmp_path / "model")
    assert data.items.features[list(data.item_names).index("photos/10.png")] == pytest.approx([255, 0, 0])
    outside = table(tmp_path / "outside.csv", lambda n: f"{n}.png", first=9)
    assert run_command_line(["add", "sets/album", str(outside), "--image", "photo"]) == 2
    assert "expected images in" in capsys.readouterr().err


def test_whole_paths_below_the_table_are_taken_and_others_are_not(tmp_path: Path, timm: Timm, capsys) -> None:
    folder = written(tmp_path / "work")
    file = table(folder / "answers.csv", lambda n: f"{folder}/photos/{n}.png")
    assert run_command_line(["data", "import", "csv", str(file), str(tmp_path / "a"), *by("photo")]) == 0
    assert loaded(tmp_path / "a", tmp_path / "model").items.features.tolist() == colours().tolist()
    for number, name in enumerate(("/etc/hostname", "../secret.png", "https://example.org/1.png")):
        file = table(folder / "answers.csv", lambda n, name=name: name if n == 4 else f"photos/{n}.png")
        assert run_command_line(["data", "import", "csv", str(file), str(tmp_path / f"b{number}"), *by("photo")]) == 2
        assert "answers.csv, line 14, column photo: expected" in " ".join(capsys.readouterr().err.split())


def test_one_image_an_item_and_names_that_look_like_some_are_told(tmp_path: Path, capsys) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("id,file,who,said\n" + "".join(f"{n % 4},{n}.jpg,a{n},{'cd'[n % 3 > 0]}\n" for n in range(12)))
    columns = ["--item", "id", "--annotator", "who", "--label", "said", "--image", "file"]
    assert run_command_line(["init", str(file), str(tmp_path / "a"), *columns]) == 2
    assert "expected one image for item '0', got '0.jpg' and '4.jpg'" in " ".join(capsys.readouterr().err.split())
    assert run_command_line(["init", str(file), str(tmp_path / "a"), *columns[:-1], "fil"]) == 2
    assert "did you mean 'file'" in capsys.readouterr().err
    table(file, lambda n: f"{n}.JPG")
    assert run_command_line(["init", str(file), str(tmp_path / "a")]) == 0
    assert "'photo' names image files; to use them for features: --image photo" in " ".join(
        capsys.readouterr().out.split()
    )


def by(item: str) -> list[str]:
    return ["--item", item, "--annotator", "who", "--label", "said", "--image", item]


@pytest.mark.long
@pytest.mark.parametrize("architecture", ["test_resnet", "test_vit"])
def test_a_real_network_in_a_folder(architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """timm itself, where it is installed (`pip install 'crowdsweep[images]'`): a tiny network with random weights. Its
    features are those of the network with its head, asked for what stands before that, one image at a time."""
    real: Any = pytest.importorskip("timm", reason="timm is not installed: pip install 'crowdsweep[images]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    network = real.create_model(architecture, pretrained=False, num_classes=7).eval()
    real.models.save_for_hf(network, tmp_path / "model", safe_serialization=True)
    folder = written(tmp_path / "album")
    noise = np.random.default_rng(1).integers(0, 256, size=(N_ITEMS, 50, 70, 3), dtype=np.uint8)
    for n in range(N_ITEMS):
        Image.fromarray(noise[n]).save(folder / f"photos/{n}.png")
    data = loaded(folder)
    transform = real.data.create_transform(**real.data.resolve_model_data_config(network), is_training=False)
    with torch.inference_mode():
        expected = [
            network.forward_head(
                network.forward_features(transform(Image.fromarray(noise[n]))[None]), pre_logits=True
            ).numpy()[0]
            for n in range(N_ITEMS)
        ]
    assert data.items.features.shape == (N_ITEMS, network.num_features)
    assert data.items.features == pytest.approx(np.array(expected), abs=1e-4)
    assert np.array_equal(loaded(folder).items.features, data.items.features)
