"""Sweep files that somebody made to do harm: each ends in one named error, soon and in bounds.

Those that are only damaged are among the inputs of `test_mutated_inputs.py`.
"""

import os
import resource
from pathlib import Path

import pytest
from time_limit import at_most

from crowdsweep.errors import CrowdsweepError
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep


def try_one(path: Path) -> str:
    """Reads one file, and says how that ended. What was read can be written out and read again."""
    try:
        with at_most(10):
            config = load_sweep(path)
            assert parse_sweep(config_to_mapping(config), str(path)) == config
    except CrowdsweepError as error:
        return "named error" if len(str(error)) < 5000 else "a file in place of a message"
    return "result"


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
