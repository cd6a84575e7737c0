"""Sweep files that somebody damaged, or made to do harm: each ends in a sweep or one named error, soon and in bounds.

`CROWDSWEEP_MUTATIONS` sets how many are tried.
"""

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crowdsweep.errors import CrowdsweepError
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep
from crowdsweep.testing.time_limit import TooSlow, at_most

MUTATIONS = int(os.environ.get("CROWDSWEEP_MUTATIONS", "80"))
SPACES = Path(__file__).parents[2] / "search_spaces"
EVERY_KEY = """\
name: full-sweep
datasets:
  - anesthesia
  - {name: gaussians, annotators: [100, 1000], scenario: [individual, global]}
models:
  - majority-vote
  - &model {name: dawid-skene, label: ds-fixed, params: {smoothing: 1e-2}}
  - name: dawid-skene
    search: {smoothing: {distribution: log_uniform_values, min: 1e-4, max: 1}}
metric: {name: heldout_loglik, goal: maximize}
budget: {points: 7, hours: 2, failed_trials: 0.2}
seeds: {search: 4, report: 10, rescored: 2}
sampler: {kind: random, seed: 5}
early_stop: {kind: none}
resources: {cpu: 2, gpu: 0.5}
engine: inline
tracking: {experiment: other, enabled: false, uri: "http://host:5000"}
protocol: equal_budget
heldout: {fraction: 0.2}
pack: 5
report_every: 3
published:
  table: "a table"
  values:
    - {model: ds-fixed, dataset: anesthesia, metric: train_accuracy, value: 0.9, dataset_params: {scenario: global}}
"""
PARTS = [
    *(
        "{",
        "}",
        "[",
        "]",
        ": ",
        ", ",
        "- ",
        "&a ",
        "*a",
        "*model",
        "<<: *model",
        "!!python/name:os.system ",
        "!!binary ",
    ),
    *(
        "!!timestamp ",
        "!!int ",
        "? ",
        "|",
        ">",
        "'",
        '"',
        "#",
        "\t",
        "\r\n",
        "\x00",
        "\x1b[31m",
        "\ufeff",
        "\u202e",
        "é",
    ),
    *("~", "~nobody/x", "/dev/zero", "../../etc/passwd", "${HOME}", "null", "true", ".nan", ".inf", "-1", "0", "1e999"),
    *("9" * 5000, "2001-99-99", "0x", "1:60:60", "x" * 5000, "[" * 200, "{a: " * 200, "a/" * 400, "=1+1", "-0.0"),
]


def reworded(text: str, rng: random.Random) -> str:
    """Puts something else in the place of one word."""
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(PARTS)
    return " ".join(words)


def relined(text: str, rng: random.Random) -> str:
    """Drops, doubles, swaps, indents or joins lines."""
    lines = text.split("\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            lines[one] = " " * rng.randint(1, 5) + lines[one]
        case _:
            lines[one : one + 2] = ["".join(lines[one : one + 2])]
    return "\n".join(lines)


def scarred(text: str, rng: random.Random) -> str:
    """Cuts a piece out, or puts one in."""
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(["", *PARTS]) + text[place + rng.choice([0, 0, 1, 9, 200]) :]


def bitten(text: str, rng: random.Random) -> bytes:
    """Changes single bytes, of which some are no UTF-8 any more."""
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice([0, 0, 0, 1, 4])):
        if content:
            content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


def damaged(seed: int) -> bytes:
    rng = random.Random(seed)
    sound = [EVERY_KEY, EVERY_KEY, *(path.read_text() for path in sorted(SPACES.glob("*.yaml")))]
    text = rng.choice(sound)
    for _ in range(rng.choice([1, 1, 2, 3])):
        how: Callable[[str, random.Random], str] = rng.choice([reworded, relined, scarred])
        text = how(text, rng)
    return bitten(text, rng)


def try_one(path: Path) -> str:
    """Reads one file, and says how that ended. What was read can be written out and read again."""
    try:
        with at_most(10):
            config = load_sweep(path)
            assert parse_sweep(config_to_mapping(config), str(path)) == config
    except CrowdsweepError as error:
        return "named error" if len(str(error)) < 5000 else "a file in place of a message"
    return "result"


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="hangs are told by an alarm")
def test_damaged_sweep_files_end_in_sweeps_or_named_errors(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(EVERY_KEY)
    for sound in (path, *SPACES.glob("*.yaml")):  # what is imported for them takes its time once
        load_sweep(sound)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, slowest, ended = time.perf_counter(), 0.0, {"result": 0, "named error": 0}
    for seed in range(MUTATIONS):
        one = time.perf_counter()
        path.write_bytes(damaged(seed))
        try:
            ended[try_one(path)] += 1
        except (Exception, TooSlow) as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {str(error)[:500]}") from error
        slowest = max(slowest, time.perf_counter() - one)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{ended} in {time.perf_counter() - started:.0f} s, slowest {slowest:.2f} s, {grown:.0f} MB more")
    assert grown < 2048
    assert min(ended.values()) > MUTATIONS / 20, "the files are all sound, or all hopeless"


HARMFUL = {
    "aliases": "\n".join([f"a0: &a0 [{'x, ' * 9}x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}x]" for n in range(1, 12))]),
    "merges": "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12))]
    ),
    "merge of itself": "a: &a {<<: *a}",
    "key that is a bomb": "? [[[[x]]]]\n: 1",
    "lists in lists": "[" * 100_000,
    "mappings in mappings": "{a: " * 100_000,
    "indented": "\n".join(" " * n + "a:" for n in range(1000)),
    "axes": "name: a\ndatasets: [{name: gaussians, annotators: &v ["
    + ",".join(map(str, range(1, 301)))
    + "], scenario: *v, training: *v, seed: *v}]\nmodels: [majority-vote]",
    "large": "# " + "x" * (2 << 20),
    "digits": f"name: {'9' * 100_000}",
    "escapes": 'name: a\ndatasets: [anesthesia]\nmodels: [{name: majority-vote, label: "\\e]0;owned\\a"}]',
    "python": "name: !!python/object/apply:os.system ['echo owned']",
    "long name": f"name: {'n' * 1000}\ndatasets: [anesthesia]\nmodels: [majority-vote]",
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_what_is_made_to_do_harm_is_one_named_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(HARMFUL[kind])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert try_one(path) == "named error"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert try_one(path) == "named error"


def test_a_file_that_search_names_is_not_cited(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    path = tmp_path / "sweep.yaml"
    path.write_text(f"name: a\ndatasets: [anesthesia]\nmodels: [{{name: dawid-skene, search: {secret}}}]")
    for content in (
        "hunter2",
        "password: hunter2",
        "- hunter2",
        "*hunter2",
        "a: !hunter2 b",
        "@hunter2",
        "a: [hunter2",
    ):
        secret.write_text(content)
        with pytest.raises(CrowdsweepError) as refused:
            load_sweep(path)
        assert "hunter2" not in str(refused.value)
        assert str(secret) in str(refused.value)
