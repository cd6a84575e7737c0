"""One seeded mutator of files, and the child process in which a reader reads them within its limits."""

import gzip
import io
import json
import os
import random
import re
import resource
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from time_limit import TooSlow, at_most

from crowdsweep.errors import CrowdsweepError
from crowdsweep.trial.memory import peak_bytes, reset_peak

SECONDS, BYTES = 10, 2 << 30
"""What reading one file may take."""
_ADDRESSES = 6 << 30  # beyond those that are there: what protects the machine, not what is promised

ODD_VALUES = [
    *(None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**40, "", " ", "\ud800", "\x00", "a\nb", '"', "|", "=1+1"),
    *([], {}, [None], [[]], {"id": None}, {"": ""}, "x" * 5000, [1, "a", None], 2**63, "None", "nan", "-1"),
]


def walk(value: object) -> Iterator[tuple[object, object]]:
    """Yields (container, key) of every place in a document."""
    places = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in places:
        yield value, key
        yield from walk(inner)


def retyped(data: bytes, rng: random.Random) -> bytes:
    """Changes one place of a JSON document, or of a line: another value, none, twice, another order."""
    text = data.decode()
    try:
        document = json.loads(text)
    except ValueError:
        document = [json.loads(line) for line in text.splitlines()]
    place, key = rng.choice(list(walk(document)))
    what = rng.randrange(5)
    if what < 2:
        place[key] = rng.choice(ODD_VALUES)
    elif what == 2:
        del place[key]
    elif isinstance(place, list):
        rng.shuffle(place) if what == 3 else place.append(place[key])
    else:
        place[rng.choice(["id", "annotations", "x", str(key) + " "])] = place[key]
    return json.dumps(document).encode()


def recelled(data: bytes, rng: random.Random) -> bytes:
    """Changes one cell, row or column of a table."""
    rows = [line.split(",") for line in data.decode().split("\n")]
    row = rng.choice(rows)
    what = rng.randrange(6)
    if what < 2:
        row[rng.randrange(len(row))] = str(rng.choice([value for value in ODD_VALUES if value != "\ud800"]))
    elif what == 2:
        row.pop()
    elif what == 3:
        row.append("x")
    elif what == 4:
        rng.shuffle(rows)
    else:
        column = rng.randrange(len(rows[0]))
        rows = [[cell for place, cell in enumerate(line) if place != column] for line in rows]
    return "\n".join(map(",".join, rows)).encode()


def reencoded(data: bytes, rng: random.Random) -> bytes:
    how = rng.randrange(6)
    if how == 0:
        return data.decode().encode("utf-16")
    if how == 1:
        return b"\xef\xbb\xbf" + data
    if how == 2:
        return data.decode().encode("latin-1", errors="replace")
    if how == 3:
        return gzip.compress(data)
    if how == 4:
        return gzip.compress(data)[: rng.randrange(1, len(data) + 1)]
    return data.replace(b"\n", rng.choice([b"\r", b"\r\n", b"\n\n", b"\x00\n"]))


def scarred(data: bytes, rng: random.Random) -> bytes:
    """Cuts, repeats or overwrites bytes."""
    at = rng.randrange(len(data))
    how = rng.randrange(5)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if how == 2:
        return data[:at] + data[at // 2 :]
    if how == 3:
        return data[:at] + rng.choice([b'"', b"[" * 3000, b"{", b",", b";", b"\xff", b"9" * 5000]) + data[at:]
    return bytes(data[at:] + data[:at])


NUMBERS = [b"0", b"-1", b"1e999", b"nan", b"2000000000", b"9" * 40, b"0.5", b"4294967296", b"1" + b"0" * 18]
PIECES = [
    b'"',
    b"[" * 3000,
    b"{",
    b'{"a":' * 2000,
    b",",
    b";",
    b"\xff",
    b"9" * 5000,
    b"\0",
    b"\n",
    b"- ",
    b": ",
    b"&a *a ",
    b"PAR1",
]


def renumbered(data: bytes, rng: random.Random) -> bytes:
    """Puts another number in the place of one."""
    found = list(re.finditer(rb"-?[0-9]+(\.[0-9]+)?", data))
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(NUMBERS) + data[one.end() :]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Flips single bits."""
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def pieced(data: bytes, rng: random.Random) -> bytes:
    """Cuts a piece out, doubles one, moves one, or puts another in."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice([1, 4, 30, 400, 5000]))
    what, at = rng.randrange(4), rng.randrange(len(data))
    if what == 0:
        return data[:start] + data[end:]
    if what == 1:
        return data[:end] + data[start:end] * rng.choice([1, 2, 50]) + data[end:]
    if what == 2:
        return data[:at] + data[start:end] + data[at + end - start :]
    return data[:at] + rng.choice(PIECES) + data[at:]


def relined(data: bytes, rng: random.Random) -> bytes:
    """Drops, doubles, swaps or indents lines."""
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            lines[one] = b" " * rng.randint(1, 5) + lines[one]
    return b"\n".join(lines)


def unpacked(data: bytes, rng: random.Random) -> bytes:
    """Does something to what is packed: its checksums then agree."""
    if data[:2] == b"\x1f\x8b":
        return gzip.compress(mutated(gzip.decompress(data), rng))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        hurt = rng.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, mutated(content, rng) if name == hurt else content)
    return out.getvalue()


WAYS = [retyped, retyped, recelled, reencoded, scarred, renumbered, flipped, pieced, relined]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Does one to three things to a file, of those that its content allows."""
    for _ in range(rng.randint(1, 3)):
        packed = data[:2] in (b"\x1f\x8b", b"PK") and rng.random() < 0.5
        how = unpacked if packed else rng.choice(WAYS)
        try:
            data = how(data, rng) or b"\n"
        except Exception:  # noqa: BLE001 - what cannot be taken apart any more
            data = flipped(data, rng)
    return data


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader of files that come from somebody else.

    Attributes:
        make: draws a sound input: contents by name.
        read: reads what was written to a folder; raises `CrowdsweepError` where it refuses it.
        ways: to change one of its files.
        first: done once before: what is imported takes its time, and is no reader's fault.
    """

    make: Callable[[random.Random], Mapping[str, bytes]]
    read: Callable[[Path, random.Random], object]
    ways: Callable[[bytes, random.Random], bytes] = mutated
    first: Callable[[], object] = lambda: None


@dataclass(kw_only=True)
class Ended:
    """How a campaign ended.

    Attributes:
        ends: how many ended in what.
        slowest_s, largest_bytes: of one input; the bytes are those by which the process grew.
        wrong: `seed N: what`, of the inputs that broke a promise.
    """

    ends: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    largest_bytes: int = 0
    wrong: list[str] = field(default_factory=list)


A_CHILD = 1000  # inputs: what a library keeps of each place that it has seen adds up


def campaign(reader: Reader, seeds: range) -> Ended:
    """Reads one mutated input for each seed, in child processes whose memory is limited and measured."""
    ended = Ended()
    for first in range(0, len(seeds), A_CHILD):
        _in_a_child(reader, seeds[first : first + A_CHILD], ended)
    return ended


def _in_a_child(reader: Reader, seeds: range, ended: Ended) -> None:
    receives, sends = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(receives)
        try:
            with os.fdopen(sends, "w", buffering=1) as tell:
                _read_all(reader, seeds, tell)
        except BaseException:  # noqa: BLE001 - of what makes inputs
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(sends)
    before, last = sum(ended.ends.values()), -1
    with os.fdopen(receives) as told:
        for line in told:
            one = json.loads(line)
            last = one["seed"]
            if "end" not in one:
                continue
            ended.ends[one["end"]] += 1
            ended.slowest_s = max(ended.slowest_s, one["s"])
            ended.largest_bytes = max(ended.largest_bytes, one["bytes"])
            if one["end"] not in ("result", "named error") or one["bytes"] > BYTES:
                ended.wrong.append(
                    f"seed {last}: {one['end']}, {one['bytes'] >> 20} MB, {one['s']:.1f} s: {one['told']}"
                )
    status = os.waitpid(child, 0)[1]
    if status or sum(ended.ends.values()) - before < len(seeds):
        ended.wrong.append(f"seed {last}: the process ended ({status})")


def _read_all(reader: Reader, seeds: range, tell: Any) -> None:
    reader.first()
    here = Path(mkdtemp(prefix="mutated-"))
    limit = _ADDRESSES + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        for seed in seeds:
            tell.write(json.dumps({"seed": seed}) + "\n")
            tell.write(json.dumps({"seed": seed, **_read_one(reader, seed, here / "one")}) + "\n")
    finally:
        rmtree(here, ignore_errors=True)


def _read_one(reader: Reader, seed: int, place: Path) -> dict[str, Any]:
    rng = random.Random(seed)
    files = dict(reader.make(rng))
    hurt = rng.choice(sorted(files))
    files[hurt] = reader.ways(files[hurt], rng)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    reset_peak()
    before, started, told = peak_bytes(), time.perf_counter(), ""
    try:
        with at_most(SECONDS):
            reader.read(place, rng)
        end = "result"
    except CrowdsweepError as error:
        told = str(error)
        end = "named error" if str(place) in told and len(told) < 5000 else "an error that names no file, or is one"
    except TooSlow:
        end = "too slow"
    except BaseException:  # noqa: BLE001 - that is what is looked for
        end, told = "an error of a library", traceback.format_exc()[-600:]
    took = time.perf_counter() - started
    grown = peak_bytes() - before
    rmtree(place)
    return {"end": end, "s": took, "bytes": grown, "told": told[-600:]}
