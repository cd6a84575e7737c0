"""What stands in a dataset folder in place of its files: pipes, devices, links, objects in arrays."""

import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import DataError


def small_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "annotations.csv").write_text("item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\n")
    (folder / "items.csv").write_text("item,gold\na,cat\n")
    (folder / "classes.csv").write_text("label\ncat\ndog\n")
    (folder / "dataset.yaml").write_text("title: pets\n")
    (folder / "annotators.csv").write_text("annotator\nx\ny\n")
    np.savez(folder / "features-x.npz", item=np.array(["a", "b"]), features=np.zeros((2, 3), np.float32))
    features = np.zeros((2, 3), np.float32)
    np.savez(folder / "annotator-features-x.npz", annotator=np.array(["x", "y"]), features=features)
    return folder


READ = ["annotations.csv", "items.csv", "classes.csv", "annotators.csv", "dataset.yaml", "features-x.npz"]


def put_in_place(kind: str, path: Path) -> None:
    path.unlink()
    match kind:
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case "a folder":
            path.mkdir()
        case "a socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(os.path.relpath(path))
        case _:
            path.symlink_to(path.name)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a socket", "a link that leads nowhere"])
@pytest.mark.parametrize("name", [*READ, "annotator-features-x.npz"])
def test_what_is_no_file_is_refused_and_not_passed_over(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the paths of sockets may not be long
    folder = small_folder(tmp_path / "pets")
    put_in_place(kind, folder / name)
    with pytest.raises(DataError, match=re.escape(f"{folder / name}: expected a file, found {kind}")) as refused:
        read_folder(folder)
    assert "\n" not in str(refused.value)


def test_a_link_to_a_file_is_one(tmp_path: Path) -> None:
    folder, elsewhere = small_folder(tmp_path / "pets"), small_folder(tmp_path / "elsewhere")
    for path in folder.iterdir():
        path.unlink()
        path.symlink_to(elsewhere / path.name)
    assert replace(read_folder(folder), name="x").fingerprint == replace(read_folder(elsewhere), name="x").fingerprint


@pytest.mark.parametrize("name", ["item", "features"])
def test_objects_in_an_array_are_not_unpickled(name: str, tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "pets")
    arrays = {"item": np.array(["a", "b"]), "features": np.zeros((2, 3))}
    np.savez(folder / "features-x.npz", **{**arrays, name: arrays[name].astype(object)})
    with pytest.raises(DataError, match=rf"features-x.npz, {name}.*: expected numbers or texts, got objects"):
        read_folder(folder)
