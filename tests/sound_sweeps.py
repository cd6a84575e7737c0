"""Sweep files that are sound, one of them with every key, and what damage or malice makes of one."""

import random
from pathlib import Path

from mutations import mutated

SPACES = Path(__file__).parents[1] / "search_spaces"
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
notify: {url: ""}
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


def sound_sweep(rng: random.Random) -> dict[str, bytes]:
    """Draws one; a short one rather than a long one."""
    known = [EVERY_KEY.encode(), *(path.read_bytes() for path in sorted(SPACES.glob("*.yaml")))]
    return {"sweep.yaml": min((rng.choice(known) for _ in range(3)), key=len)}


def hurt_sweep(data: bytes, rng: random.Random) -> bytes:
    """Changes any bytes, or puts what YAML or a reader may take for something else in the place of a word, between
    two, or of a piece; or joins two lines."""
    for _ in range(rng.choice([1, 1, 1, 2])):
        words, lines = data.split(b" "), data.split(b"\n")
        word, line, place = rng.randrange(len(words)), rng.randrange(len(lines)), rng.randrange(len(data) + 1)
        part = rng.choice(PARTS).encode("utf-8", "surrogatepass")
        match rng.randrange(6):
            case 0 | 1:
                data = b" ".join([*words[:word], part, *words[word + 1 :]])
            case 2:
                data = data[:place] + part + data[place + rng.choice([0, 0, 1, 9, 200]) :]
            case 3:
                data = b"\n".join([*lines[:line], b"".join(lines[line : line + 2]), *lines[line + 2 :]])
            case _:
                data = mutated(data, rng)
    return data
