"""Label, ask what next.csv puts first, add the answers, label again: that beats asking at random with one budget."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.adaptive import keep_most_informative
from crowdsweep.data.on_disk.folder import read_folder

MODEL = "hierarchical-dawid-skene"
ITEMS, PEOPLE, AT_FIRST, A_ROUND, ROUNDS = 400, 20, 2, 80, 3


@dataclass(kw_only=True)
class SimulatedCrowd:
    """People of many skills. Whoever is asked next of an item, and what they say, does not hang on when."""

    seed: int

    def __post_init__(self) -> None:
        draws = np.random.default_rng(self.seed)
        self.given = np.zeros(ITEMS, dtype=int)  # answers to each item so far
        self.truth = draws.integers(0, 2, ITEMS)
        right = draws.random((ITEMS, PEOPLE)) < draws.uniform(0.6, 0.95, PEOPLE)
        self.said = np.where(right, self.truth[:, None], 1 - self.truth[:, None])
        self.queue = draws.permuted(np.tile(np.arange(PEOPLE), (ITEMS, 1)), axis=1)

    def answers(self, items: list[int]) -> dict[str, list[str]]:
        """Returns one more answer to each of these items."""
        who = [int(self.queue[item, self.given[item]]) for item in items]
        self.given[items] += 1
        return {
            "item": [f"i{item}" for item in items],
            "annotator": [f"w{one}" for one in who],
            "label": [str(self.said[item, one]) for item, one in zip(items, who, strict=True)],
        }

    def begun(self, folder: Path, labels: int) -> Path:
        """Writes a folder with so many labels of each item."""
        rows = [zip(*self.answers([*range(ITEMS)]).values(), strict=True) for _ in range(labels)]
        folder.mkdir()
        with (folder / "annotations.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("item", "annotator", "label"), *(row for part in rows for row in part)])
        return folder

    def right(self, fit: cs.Fit) -> float:
        """Returns the share of items that are labelled right."""
        labels = dict(zip(fit.labels["item"].to_pylist(), fit.labels["label"].to_pylist(), strict=True))
        return float(np.mean([labels[f"i{item}"] == str(self.truth[item]) for item in range(ITEMS)]))


def by_next(folder: Path, _: np.random.Generator) -> list[int]:
    ranked = cs.fit(MODEL, str(folder)).next_items["item"].to_pylist()
    return [int(item[1:]) for item in ranked[:A_ROUND]]


def at_random(_: Path, draws: np.random.Generator) -> list[int]:
    return draws.permutation(ITEMS)[:A_ROUND].tolist()


def spent(folder: Path, seed: int, choose: Callable[[Path, np.random.Generator], list[int]]) -> float:
    """Begins with few labels, spends the budget, and returns the share of items that are labelled right."""
    crowd, draws = SimulatedCrowd(seed=seed), np.random.default_rng(seed)
    crowd.begun(folder, AT_FIRST)
    for _ in range(ROUNDS):
        assert cs.add(folder, crowd.answers(choose(folder, draws))).answers == A_ROUND
    assert len(read_folder(folder).annotations) == AT_FIRST * ITEMS + ROUNDS * A_ROUND
    return crowd.right(cs.fit(MODEL, str(folder)))


@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.long)])
def test_the_loop_beats_random_at_the_same_budget(seeds: int, tmp_path: Path) -> None:
    gains = []
    for seed in range(seeds):
        scores = [spent(tmp_path / f"{how.__name__}{seed}", seed, how) for how in (by_next, at_random)]
        gains.append(scores[0] - scores[1])
    assert np.mean(gains) > 0.03
    assert seeds == 1 or np.mean(gains) > 3.0 * np.std(gains, ddof=1) / np.sqrt(seeds)


@pytest.mark.long
def test_what_a_study_of_allocation_simulates_is_this_loop(tmp_path: Path) -> None:
    """With as many labels, `allocation: adaptive` reaches what the loop reaches, and labels given evenly do not."""
    found = []
    for seed in range(5):
        crowd = SimulatedCrowd(seed=seed)
        everything = read_folder(crowd.begun(tmp_path / f"all{seed}", labels=8))
        mask = keep_most_informative(everything.annotations, 3, np.random.default_rng(seed))
        kept = replace(everything, annotations=everything.annotations.take(np.flatnonzero(mask)))
        evenly = SimulatedCrowd(seed=seed).begun(tmp_path / f"even{seed}", labels=3)
        looped = SimulatedCrowd(seed=seed)
        folder = looped.begun(tmp_path / f"loop{seed}", labels=2)
        for _ in range(ITEMS // A_ROUND):
            cs.add(folder, looped.answers(by_next(folder, np.random.default_rng(seed))))
        found.append([crowd.right(cs.fit(MODEL, one)) for one in (kept, str(folder), str(evenly))])
    simulated, loop, even = np.mean(found, axis=0)
    assert loop == pytest.approx(simulated, abs=0.02)
    assert min(loop, simulated) > even + 0.02


def test_label_again_ranks_by_the_answers_that_were_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    crowd = SimulatedCrowd(seed=1)
    crowd.begun(tmp_path / "d", AT_FIRST)

    def ranked() -> dict[str, tuple[float, int, str]]:
        assert run_command_line(["label", "d", "--seeds", "1", "--out", "labels"]) == 0
        rows = csv.DictReader(Path("labels/next.csv").read_text().splitlines())
        return {row["item"]: (float(row["gain_bits"]), int(row["answers"]), row["ask"]) for row in rows}

    before = ranked()
    assert {answers for _, answers, _ in before.values()} == {AT_FIRST}
    top = [*before][:20]
    table = crowd.answers([int(item[1:]) for item in top])
    for item, who in zip(table["item"], table["annotator"], strict=True):
        assert f"{item},{who}," not in Path("d/annotations.csv").read_text()
    with Path("monday.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*table], *zip(*table.values(), strict=True)])
    assert run_command_line(["add", "d", "monday.csv"]) == 0
    after = ranked()
    assert {item for item, (_, answers, _) in after.items() if answers == AT_FIRST + 1} == set(top)
    assert np.mean([after[item][0] for item in top]) < np.mean([before[item][0] for item in top])
    asked = dict(zip(table["item"], table["annotator"], strict=True))
    assert all(asked[item] not in after[item][2].split("|") for item in top)
