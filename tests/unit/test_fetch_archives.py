"""Files out of archives that somebody else packed: only what was asked for, and nothing by the names they give."""

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crowdsweep.errors import DataError
from crowdsweep.fetching.archives import extract

WANTED = {"mine.csv": "data/a.csv"}


def zipped(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return path


def tarred(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return path


Pack = Callable[..., Path]
packed = pytest.mark.parametrize("pack", [zipped, tarred])


@packed
def test_what_is_asked_for_is_taken_and_nothing_else(pack: Pack, tmp_path: Path) -> None:
    files = {"release/data/a.csv": b"1,2\n", "release/b.csv": b"no", "__MACOSX/release/data/a.csv": b"a Mac's"}
    into = tmp_path / "into"
    into.mkdir()
    taken = extract(pack(tmp_path / "packed", files), WANTED, into)
    assert taken == {"mine.csv": into / "mine.csv"}
    assert [(path.name, path.read_bytes()) for path in into.iterdir()] == [("mine.csv", b"1,2\n")]
    assert {path.name for path in tmp_path.iterdir()} == {"packed", "into"}  # nor is anything left of unpacking


@packed
@pytest.mark.parametrize("name", ["../evil", "x/../../evil", "/tmp/evil", "..\\evil"])
def test_paths_that_lead_out_are_refused(pack: Pack, name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leads out of it; nothing of it was taken"):
        extract(pack(tmp_path / "packed", {"data/a.csv": b"1", name: b"2"}), WANTED, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


@packed
def test_a_link_is_no_file(pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="as a file, got a link"):
        extract(pack(tmp_path / "packed", {}, {"data/a.csv": "/etc/hostname"}), WANTED, tmp_path)


@packed
@pytest.mark.parametrize(
    ("files", "got"),
    [
        ({"data/b.csv": b"1"}, "got none"),
        ({"otherdata/a.csv": b"1"}, "got none"),
        ({"x/data/a.csv": b"1", "y/data/a.csv": b"2"}, "got 'x/data/a.csv' and 'y/data/a.csv'"),
    ],
)
def test_what_is_asked_for_has_to_be_there_once(pack: Pack, files: dict[str, bytes], got: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=got):
        extract(pack(tmp_path / "packed", files), WANTED, tmp_path)


@packed
def test_bombs_are_refused_before_they_are_unpacked(pack: Pack, tmp_path: Path) -> None:
    path = pack(tmp_path / "packed", {"data/a.csv": bytes(30_000_000)})
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"expected at most 1[67] MB|at most 16 MB"):
        extract(path, WANTED, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


def test_a_member_that_is_nearly_all_holes_is_refused(tmp_path: Path) -> None:
    """300 bytes that stand for a terabyte."""
    with tarfile.open(tmp_path / "packed", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("data/a.csv")
        info.size = 1
        info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}
        archive.addfile(info, io.BytesIO(b"1"))
    with pytest.raises(DataError, match="packed into"):
        extract(tmp_path / "packed", WANTED, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]


def test_a_zip_that_says_less_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "packed", {"data/a.csv": bytes(100_000)})
    path.write_bytes(path.read_bytes().replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match="an archive"):
        extract(path, WANTED, tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive", gzip.compress(b"no tar", mtime=0), b"\x1f\x8bno gzip"])
def test_what_is_none_is_told(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "packed").write_bytes(content)
    with pytest.raises(DataError, match=r"expected a(n| zip or tar.gz) archive"):
        extract(tmp_path / "packed", WANTED, tmp_path)
