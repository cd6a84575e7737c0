"""Public datasets: what their own files say becomes the folder, checked, and nothing else does."""

import csv
import hashlib
import html
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from file_server import FileServer, file_server

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue, public
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.public import PUBLIC_DATASETS, Counts, PublicDataset
from crowdsweep.errors import DataError
from crowdsweep.fetching import download as downloads
from crowdsweep.fetching.converters import CONVERTERS
from crowdsweep.fetching.fetch import fetch


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "_PAUSE_S", 0.0)
    with file_server() as serving:
        yield serving


def served(server: FileServer, dataset: PublicDataset, files: Mapping[str, bytes]) -> PublicDataset:
    """Returns a dataset whose files lie on the server, by the paths that they have where they really are."""
    paths = {file.name: urlsplit(file.url).path for file in dataset.files}
    server.files |= {paths[name]: content for name, content in files.items()}
    moved = tuple(replace(file, url=server.url + paths[file.name]) for file in dataset.files)
    return replace(dataset, files=moved)


def as_csv(header: list[str], rows: list[list[object]], end: str = "\n") -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows([header, *rows])
    return text.getvalue().encode()


def as_matrix(data: CrowdDataset, width: int) -> bytes:
    """The matrix of the train items, as numpy's savetxt writes it."""
    found = np.full((len(data.items_of("train")), width), -1)
    for item, annotator, label in named(data):
        found[int(item), int(annotator)] = label
    return "".join(" ".join(map(str, row)) + "\n" for row in found.tolist()).encode()


def named(data: CrowdDataset) -> list[tuple[str, str, int]]:
    """Each annotation, its item and annotator by name."""
    items, annotators, rows = list(data.item_names), list(data.annotator_names), data.annotations
    return [(items[i], annotators[t], int(k)) for i, t, k in zip(rows.item, rows.annotator, rows.label, strict=True)]


def gold_of(data: CrowdDataset) -> np.ndarray:
    gold = np.full(data.items.n_items, -1)
    gold[data.gold.item] = data.gold.label
    return gold


# Each writes the files of a release, in the form that they have there, of what the same release was brought to here by
# hand: annotators and items that were numbered then keep these numbers.


def bluebirds(data: CrowdDataset) -> dict[str, bytes]:
    labels: dict[str, dict[str, int]] = {}
    for item, annotator, label in named(data):
        labels.setdefault(annotator, {})[item] = label
    gold = dict(zip(data.item_names, gold_of(data).tolist(), strict=True))
    return {
        "labels.yaml": "".join(f"{who}: {in_yaml(given)}\n" for who, given in labels.items()).encode(),
        "gt.yaml": f"{in_yaml(gold)}\n".encode(),
    }


def in_yaml(given: Mapping[str, int]) -> str:
    """A mapping in braces, six entries a line."""
    entries = [f"{name}: {str(bool(label)).lower()}" for name, label in given.items()]
    return "{" + ",\n  ".join(", ".join(entries[n : n + 6]) for n in range(0, len(entries), 6)) + "}"


def dog(data: CrowdDataset) -> dict[str, bytes]:
    answers = [[*row] for row in named(data)]
    truth = [[name, label] for name, label in zip(data.item_names, gold_of(data), strict=True)]
    return {
        "answer.csv": as_csv(["question", "worker", "answer"], answers),
        "truth.csv": as_csv(["question", "truth"], truth),
    }


def rte(data: CrowdDataset) -> dict[str, bytes]:
    items, gold = data.items, gold_of(data)
    assert items.text is not None
    assert items.text_b is not None
    about = {name: row for name, *row in zip(data.item_names, gold, items.text, items.text_b, strict=True)}
    day = "Mon Mar 25 07:39:42 PDT 2019"
    given = [
        [
            *(number, annotator, item, ("not_relevant", "relevant")[label], about[item][0], day, day),
            *(html.escape(about[item][2]), "IR", html.escape(about[item][1])),
        ]
        for number, (item, annotator, label) in enumerate(named(data), start=1)
    ]
    header = "!amt_annotation_ids,!amt_worker_ids,orig_id,response,gold,start,end,hypothesis,task,text"
    return {"rte.csv": as_csv(header.split(","), given)}


def song_of(item: str) -> str:
    return f"song.{int(item):05d}.mp3"


def music(data: CrowdDataset) -> dict[str, bytes]:
    items, gold, names = data.items, gold_of(data), data.class_names
    assert items.features is not None
    songs = [song_of(name) for name in data.item_names]
    genre = {song: names[label] for song, label in zip(songs, gold, strict=True)}
    answers = [[who, song_of(item), genre[song_of(item)], names[label]] for item, who, label in named(data)]
    header = ["id", *(f"feature{n}" for n in range(items.features.shape[1])), "class"]
    parts = {
        split: as_csv(
            header, [[songs[i], *map(float, items.features[i]), names[gold[i]]] for i in data.items_of(split)]
        )
        for split in ("train", "test")
    }
    held = {
        "mturk_answers.csv": as_csv(
            ["WorkerID", "Input.song", "Input.true_label", "Answer.pred_label"], answers, end="\r"
        ),
        "music_genre_gold.csv": parts["train"],
        "music_genre_test.csv": parts["test"],
        "music_genre_mturk.csv": b"not read",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name, content in held.items():
            info = tarfile.TarInfo(f"music_genre_classification/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return {"mturk-datasets.tar.gz": packed.getvalue()}


def labelme(data: CrowdDataset) -> dict[str, bytes]:
    assert data.items.features is not None
    answers = as_matrix(data, 77)
    assert len(answers) == 228_453  # characters of the file on GitHub
    files = {"answers.txt": answers}
    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        items = data.items_of(split)
        files[f"Z_{name}.txt"] = "".join(f"{label}\n" for label in gold_of(data)[items]).encode()
        saved = io.BytesIO()
        np.save(saved, data.items.features[items])
        files[f"VGG_avg_{name}.npy"] = saved.getvalue()
    return files


def polarity(data: CrowdDataset) -> dict[str, bytes]:
    assert data.items.text is not None
    answers = as_matrix(data, 203)
    assert len(answers) == 3_016_645  # characters of the file on GitHub
    files = {"answers.txt": answers}
    for split in ("train", "test"):
        items = data.items_of(split)
        files[f"Z_{split}.txt"] = "".join(f"{label}\n" for label in gold_of(data)[items]).encode()
        files[f"text_{split}.txt"] = "".join(f"{data.items.text[i]}\n" for i in items).encode()
    return files


RELEASES: dict[str, tuple[Callable[[CrowdDataset], dict[str, bytes]], str]] = {
    "bluebirds": (bluebirds, ""),
    "dog": (dog, ""),
    "rte": (rte, "none"),
    "music-genre": (music, "marsyas"),
    "labelme": (labelme, "vgg16"),
    "sentiment-polarity": (polarity, "none"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_becomes_the_dataset_that_it_is(
    name: str, server: FileServer, tmp_path: Path, shared_data: Path
) -> None:
    release, features = RELEASES[name]
    known = read_folder(shared_data / name, features=features or None)
    fetched = fetch(served(server, PUBLIC_DATASETS[name], release(known)), tmp_path, lambda _: None)
    assert (fetched.folder, fetched.was_there) == (tmp_path / name, False)
    data = read_folder(fetched.folder)
    for mine, theirs in (
        (data.annotations.item, known.annotations.item),
        (data.annotations.annotator, known.annotations.annotator),
        (data.annotations.label, known.annotations.label),
        (data.split, known.split),
        (gold_of(data), gold_of(known)),
    ):
        assert np.array_equal(mine, theirs)
    assert data.class_names == known.class_names
    assert (data.items.text, data.items.text_b) == (known.items.text, known.items.text_b)
    if data.items.features is not None:
        assert np.array_equal(data.items.features, known.items.features)
    assert {path.name for path in tmp_path.iterdir()} == {name}  # nothing is left of downloading


CROWD_KIT = {
    "labels.csv": as_csv(["task", "performer", "label"], [["t1", "w1", 1], ["t1", "w2", 0], ["t2", "w1", 0]]),
    "gt.csv": as_csv(["task", "label"], [["t2", 0], ["t3", 1]]),
}
SMALL = Counts(items=3, annotated=2, annotators=2, annotations=3, gold=2)


def zipped(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


PACKED = zipped({"relevance/crowd_labels.csv": CROWD_KIT["labels.csv"], "relevance/gt.csv": CROWD_KIT["gt.csv"]})


def small(server: FileServer, content: bytes = PACKED, checksum: str | None = "right") -> PublicDataset:
    """Returns the one dataset with an archive and a checksum, made small."""
    found = served(server, PUBLIC_DATASETS["relevance-2"], {"relevance-2.zip": content})
    wanted = f"md5:{hashlib.md5(content).hexdigest()}" if checksum == "right" else checksum
    return replace(found, counts=SMALL, files=(replace(found.files[0], checksum=wanted),))


def test_an_archive_with_a_checksum(server: FileServer, tmp_path: Path) -> None:
    told: list[str] = []
    fetch(small(server), tmp_path, told.append)
    assert re.search(r"its checksum is as published \(md5:[0-9a-f]{32}\)", told[0])
    data = read_folder(tmp_path / "relevance-2")
    assert (list(data.item_names), list(data.annotator_names)) == (["t1", "t2", "t3"], ["w1", "w2"])
    assert gold_of(data).tolist() == [-1, 0, 1]
    source = (tmp_path / "relevance-2/SOURCE.md").read_text()
    for part in ("Licence: none is stated", "Ustalov", server.url, "md5:"):
        assert part in source
    assert fetch(small(server), tmp_path, told.append).was_there
    assert len(server.asked) == len(told) == 1


def test_without_a_checksum_what_came_is_told(server: FileServer, tmp_path: Path) -> None:
    told: list[str] = []
    fetch(small(server, checksum=None), tmp_path, told.append)
    digest = hashlib.sha256(PACKED).hexdigest()
    assert told == [f"relevance-2.zip: {len(PACKED)} bytes; no checksum is published; received sha256:{digest}"]


@pytest.mark.parametrize(
    ("content", "checksum", "said"),
    [
        (PACKED, "md5:" + 32 * "0", r"whose md5 is 0{32}, got [0-9a-f]{32} .*was removed"),
        (b"\n<!DOCTYPE html><html><body>Sign in</body></html>", None, r"got a web page \(HTML\); it was removed"),
        (b"<HTML>", "right", r"got a web page \(HTML\)"),
        (PACKED[:100], None, "a zip or tar.gz archive"),
        (zipped({"x/crowd_labels.csv": b"a,b\n1,2\n", "x/gt.csv": CROWD_KIT["gt.csv"]}), None, "expected the columns"),
        (
            zipped({"x/crowd_labels.csv": CROWD_KIT["labels.csv"][:-8], "x/gt.csv": CROWD_KIT["gt.csv"]}),
            None,
            r"expected 2 annotated, got 1, 3 annotations, got 2; the files received are not those that the papers",
        ),
        (
            zipped(
                {"x/crowd_labels.csv": CROWD_KIT["labels.csv"].replace(b",1", b",7"), "x/gt.csv": CROWD_KIT["gt.csv"]}
            ),
            None,
            "expected one of the classes 0, 1, got '7'",
        ),
        (zipped({"../crowd_labels.csv": b"", "gt.csv": b""}), None, "leads out of it"),
    ],
    ids=["checksum", "page", "page in capitals", "cut", "columns", "fewer rows", "class", "path"],
)
def test_what_is_not_what_it_should_be_is_refused_and_removed(
    content: bytes, checksum: str | None, said: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        fetch(small(server, content, checksum), tmp_path, lambda _: None)
    assert list(tmp_path.rglob("*")) == []
    fetch(small(server), tmp_path, lambda _: None)  # the same command, once the right one is there


def test_a_fetch_that_was_cut_goes_on(server: FileServer, tmp_path: Path) -> None:
    server.fails = lambda n, _: 40 if n < 4 else None
    with pytest.raises(DataError, match="kept, and the same command continues"):
        fetch(small(server), tmp_path, lambda _: None)
    assert not (tmp_path / "relevance-2").exists()
    fetch(small(server), tmp_path, lambda _: None)
    assert server.asked[-1][1] == "bytes=160-"
    assert [path.name for path in tmp_path.iterdir()] == ["relevance-2"]


def test_what_a_person_has_is_not_written_over(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "relevance-2").mkdir()
    (tmp_path / "relevance-2/thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"one that holds files \(thesis.txt\)"):
        fetch(small(server), tmp_path, lambda _: None)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine/.crowdsweep-fetch").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        fetch(small(server), tmp_path / "mine", lambda _: None)
    assert not server.asked
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_every_public_dataset_can_be_made() -> None:
    """Nothing here reaches the places themselves: what each says is looked at."""
    for name, dataset in PUBLIC_DATASETS.items():
        assert (dataset.name, dataset.converter in {*CONVERTERS, ""}) == (name, True)
        assert dataset.licence
        assert dataset.citation
        assert dataset.home.startswith("http")
        assert dataset.counts.annotated <= dataset.counts.items
        for file in dataset.files:
            assert re.match(r"https?://[a-z0-9.]+/", file.url)
            assert file.url == quote(file.url, safe=":/%")
            if "githubusercontent" in file.url:
                assert re.search(r"/[0-9a-f]{40}/", file.url), "a branch may change"
            assert file.checksum is None or re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", file.checksum)


@pytest.fixture
def little(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody stands in an empty folder, and can fetch one little dataset."""
    monkeypatch.delenv("CROWDSWEEP_DATA", raising=False)
    monkeypatch.setitem(public.PUBLIC_DATASETS, "relevance-2", small(server))  # type: ignore[arg-type] - a dict
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_person_fetches_a_dataset_and_calls_it_by_its_name(
    little: Path, capsys: pytest.CaptureFixture[str], server: FileServer
) -> None:
    with pytest.raises(DataError, match=r"no folder of that name here .*`crowdsweep fetch relevance-2` gets it"):
        catalogue.load("relevance-2", {})
    assert run_command_line(["datasets"]) == 0
    assert "`crowdsweep fetch NAME` gets bluebirds, dog, labelme" in " ".join(capsys.readouterr().out.split())
    assert run_command_line(["fetch", "relevance-2"]) == 0
    out = capsys.readouterr().out
    for part in ("licence: none is stated", "cite: Ustalov", "3 items, 2 annotators, 3 annotations"):
        assert part in out
    assert "crowdsweep run crowdsweep-data/relevance-2" in out
    assert len(catalogue.load("relevance-2", {}).annotations) == 3
    assert catalogue.load("relevance-2", {}).folder == str(little / "crowdsweep-data/relevance-2")
    assert run_command_line(["fetch", "relevance-2"]) == 0
    assert "is here already" in capsys.readouterr().out
    assert len(server.asked) == 1
    assert run_command_line(["fetch", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed["relevance-2"]["is_here"]
    assert not listed["rte"]["is_here"]
    assert run_command_line(["fetch"]) == 0
    assert re.search(r"relevance-2\t.*\tyes", capsys.readouterr().out)


def test_where_it_goes_is_said(little: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    assert run_command_line(["fetch", "relevance-2", "--to", "my data"]) == 0
    assert f"CROWDSWEEP_DATA='{little}/my data' is set" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setenv("CROWDSWEEP_DATA", f"{little / 'first'}:{little / 'second'}")
    assert run_command_line(["fetch", "relevance-2"]) == 0
    assert (little / "first/relevance-2/annotations.csv").is_file()
    monkeypatch.setenv("CROWDSWEEP_DATA", "")
    assert run_command_line(["fetch", "relevance-2"]) == 2
    assert "names none" in capsys.readouterr().err


def test_what_cannot_be_fetched_is_told(little: Path, capsys: pytest.CaptureFixture[str], server: FileServer) -> None:
    assert run_command_line(["fetch", "relevance"]) == 2
    assert "did you mean 'relevance-2'?" in capsys.readouterr().err
    server.files.clear()
    assert run_command_line(["fetch", "relevance-2"]) == 2
    assert "the server answered 404" in capsys.readouterr().err
    assert run_command_line(["fetch", "relevance-2", "--json"]) == 2
