"""Labels of very many classes: without matrices of classes × classes, and what is said instead."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

from crowdsweep.arrays import normalised_rows
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling import many_classes
from crowdsweep.labelling.many_classes import gains_of_one_coin, likeliest, one_coins
from crowdsweep.labelling.next_items import gains
from crowdsweep.models import _votes
from crowdsweep.models._votes import agreement, permuted_classes, surely_in_order

N_ITEMS, N_PEOPLE, N_CLASSES, PER_ITEM = 3_000, 60, 2_000, 7


def crowd(n_classes: int = N_CLASSES, n_items: int = N_ITEMS) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Returns answers, the truth, and how often each annotator is right."""
    random = np.random.default_rng(1)
    truth, skill = random.integers(n_classes, size=n_items), random.uniform(0.4, 0.95, N_PEOPLE)
    item = np.repeat(np.arange(n_items), PER_ITEM)
    annotator = random.permuted(np.tile(np.arange(N_PEOPLE), (n_items, 1)), axis=1)[:, :PER_ITEM].ravel()
    right = random.random(len(item)) < skill[annotator]
    label = np.where(right, truth[item], random.integers(n_classes, size=len(item)))
    rows = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=N_PEOPLE, n_classes=n_classes
    )
    return rows, truth, skill


def test_accuracies_are_those_that_people_have() -> None:
    rows, _, skill = crowd()
    found = one_coins(rows)
    assert found.code.tolist() == list(range(N_PEOPLE))
    np.testing.assert_array_equal(found.answers, rows.labels_per_annotator)
    # Others' shares of votes are no certain truth, so that all look a little worse or better than they are.
    assert np.corrcoef(found.accuracy, skill)[0, 1] > 0.98
    assert np.abs(found.accuracy - skill).mean() < 0.06


@pytest.mark.parametrize("weighted", [False, True])
def test_what_others_say_is_counted_as_loops_count(weighted: bool) -> None:
    random = np.random.default_rng(0)
    item, annotator, label = random.integers(6, size=70), random.integers(5, size=70), random.integers(3, size=70)
    rows = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        weight=random.random(70) + 0.5 if weighted else None,
        n_items=7,
        n_annotators=5,
        n_classes=3,
    )
    weight = np.ones(70) if rows.weight is None else rows.weight.astype(float)
    found = many_classes._share_of_others(rows, weight)
    for row in range(70):
        others = [r for r in range(70) if rows.item[r] == rows.item[row] and rows.annotator[r] != rows.annotator[row]]
        same = sum(weight[r] for r in others if rows.label[r] == rows.label[row])
        whole = sum(weight[r] for r in others)
        assert found[row] == pytest.approx(same / whole if others else 1 / 3, abs=1e-9)


def test_gain_of_one_coin_is_that_of_its_matrix() -> None:
    posterior = normalised_rows(np.random.default_rng(0).random((9, 4)) ** 3)
    matrix = np.full((4, 4), 0.3 / 3) + np.eye(4) * (0.7 - 0.3 / 3)
    np.testing.assert_allclose(gains_of_one_coin(posterior, 0.7), gains(posterior, matrix), atol=1e-12)


def test_the_likeliest_are_written_first() -> None:
    probs = normalised_rows(np.random.default_rng(0).random((5, 60)) ** 30)
    probs[2] = np.nan
    row, label = likeliest(probs)
    assert set(row.tolist()) == {0, 1, 3, 4}
    for one in (0, 1, 3, 4):
        own = probs[one, label[row == one]]
        expected = np.sort(probs[one][probs[one] >= many_classes.LEAST])[::-1][: many_classes.LIKELIEST]
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("exchange", [False, True])
def test_classes_are_in_order_only_where_no_other_order_agrees(exchange: bool) -> None:
    rows, truth, _ = crowd(n_classes=30, n_items=400)
    order = np.roll(np.arange(30), 1) if exchange else np.arange(30)
    said = np.eye(30)[order[truth]]
    surely = surely_in_order(rows, said)
    assert surely is not exchange
    dense = permuted_classes(agreement(rows.label_distribution(), said), rows.n_items)
    assert (dense is None) is surely
    assert _votes._chance(400) == 0.1


@pytest.mark.long
def test_label_says_what_it_can_in_little_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, truth, _ = crowd()
    lines = [f"i{i},a{a},c{k}" for i, a, k in zip(rows.item, rows.annotator, rows.label, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["item,annotator,label", *lines]) + "\n")
    peaks: list[int] = []
    for arguments in (["init", "a.csv", "data"], ["label", "data", "--model", "majority-vote", "--out", "out"]):
        command = [sys.executable, "-m", "crowdsweep", *arguments]
        code = f"import os, json; _, s, u = os.wait4(os.posix_spawn({command[0]!r}, {command!r}, os.environ), 0);"
        code += "print(); print(json.dumps([s, u.ru_maxrss]))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        status, peak = json.loads(done.stdout.splitlines()[-1])
        assert status == 0, done.stderr
        peaks.append(peak)
    table = 8 * N_ITEMS * N_CLASSES / 1024  # kB of one table of items × classes
    assert peaks[0] < 350_000 + table
    assert peaks[1] < 350_000 + 2 * table
    out = tmp_path / "out"
    labels = pa_csv.read_csv(out / "labels.csv")
    said = dict(zip(labels["item"].to_pylist(), labels["label"].to_pylist(), strict=True))
    assert np.mean([said[f"i{item}"] == f"c{one}" for item, one in enumerate(truth)]) > 0.9
    probabilities = pq.read_table(out / "probabilities.parquet")
    assert probabilities.column_names == ["item", "label", "probability"]
    assert len(labels) <= len(probabilities) <= many_classes.LIKELIEST * len(labels)
    pairs = zip(probabilities["item"].to_pylist(), probabilities["label"].to_pylist(), strict=True)
    assert dict(reversed(list(pairs))) == said  # of each item the first row is its label
    annotators = pa_csv.read_csv(out / "annotators.csv")
    assert annotators.column_names == ["annotator", "answers", "accuracy", "accuracy_low", "accuracy_high"]
    assert not (out / "confusion.parquet").exists()
    gains_told = pa_csv.read_csv(out / "next.csv")["gain_bits"].to_pylist()
    assert all(one >= other for one, other in pairwise(gains_told))
    assert many_classes.NOTE in yaml.safe_load((out / "label.yaml").read_text())["notes"]
    wide = ["label", str(tmp_path / "data"), "--model", "majority-vote", "--export", "crowd-kit", "--out"]
    assert run_command_line([*wide, str(tmp_path / "more")]) == 2
    assert "it needs a column for each of 1,990 classes" in " ".join(capsys.readouterr().err.split())
