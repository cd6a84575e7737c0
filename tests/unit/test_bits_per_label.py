"""What one label of an annotator tells: bits, and how many labels of others that is worth."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from data_folders import folder_of
from jaxtyping import Float64

import crowdsweep as cs
from crowdsweep.labelling.next_items import gains


def mutual_information(shares: Float64[np.ndarray, " classes"], matrices: list[np.ndarray]) -> float:
    """Returns how many bits one answer by each of these annotators tell together: a sum over all that they may say."""
    size, told = len(shares), 0.0
    for said in product(range(size), repeat=len(matrices)):
        joint = [
            shares[k] * np.prod([matrix[k, y] for matrix, y in zip(matrices, said, strict=True)]) for k in range(size)
        ]
        whole = sum(joint)
        told += sum(one * np.log2(one / whole / share) for one, share in zip(joint, shares, strict=True) if one > 0)
    return told


@pytest.mark.parametrize("seed", range(5))
def test_a_label_is_worth_at_least_as_many_as_its_bits_say(seed: int) -> None:
    draws = np.random.default_rng(seed)
    size = 2 + seed % 2
    shares = draws.dirichlet(np.full(size, 5.0))
    judge, person = (draws.dirichlet(np.ones(size), size) + weight * np.eye(size) for weight in (4.0, 2.0))
    judge, person = (matrix / matrix.sum(axis=1, keepdims=True) for matrix in (judge, person))
    bits = gains(shares[None], np.stack([judge, person]))[:, 0]
    assert bits == pytest.approx([mutual_information(shares, [matrix]) for matrix in (judge, person)])
    together = [mutual_information(shares, [person] * n) for n in range(1, 6)]
    assert all(told <= n * bits[1] + 1e-12 for n, told in enumerate(together, start=1))
    enough = next(n for n, told in enumerate(together, start=1) if told >= bits[0])
    assert enough >= bits[0] / bits[1]


def judged(seed: int) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
    """Answers of forty people and three judges to 500 items of three classes, and the matrix of each annotator."""
    draws = np.random.default_rng(seed)
    truth = draws.choice(3, 500, p=[0.5, 0.3, 0.2])

    def even(accuracy: float) -> np.ndarray:
        return accuracy * np.eye(3) + (1.0 - accuracy) / 2 * (1.0 - np.eye(3))

    known = {f"person{n}": even(draws.uniform(0.55, 0.85)) for n in range(40)}
    asked = {who: draws.permutation(500)[:60] for who in known}  # each: some five an item
    known |= {"good": even(0.92), "lopsided": np.array([[0.98, 0.01, 0.01], [0.4, 0.55, 0.05], [0.1, 0.1, 0.8]])}
    known["always"] = np.tile([0.94, 0.03, 0.03], (3, 1))
    rows = [(i, who) for who in known for i in asked.get(who, range(500))]
    said = [str(draws.choice(3, p=known[who][truth[i]])) for i, who in rows]
    return {"item": [f"i{i}" for i, _ in rows], "annotator": [who for _, who in rows], "label": said}, known


def test_bits_and_what_a_judge_is_worth_are_those_of_the_true_matrices() -> None:
    shares, worth = np.array([0.5, 0.3, 0.2]), []
    for seed in range(2):
        table, known = judged(seed)
        found = cs.fit("hierarchical-dawid-skene", table).annotators
        assert found is not None
        bits = dict(zip(found["annotator"].to_pylist(), found["bits_per_label"].to_pylist(), strict=True))
        true = {who: mutual_information(shares, [matrix]) for who, matrix in known.items()}
        for who in ("good", "lopsided"):
            assert bits[who] == pytest.approx(true[who], rel=0.15)
        assert bits["always"] < 0.04
        people = [who for who in known if who.startswith("person")]
        each, truly = (np.mean([told[who] for who in people]) for told in (bits, true))
        assert np.corrcoef([bits[who] for who in people], [true[who] for who in people])[0, 1] > 0.7
        worth.append([bits["good"] / each, true["good"] / truly])
    mean, true_mean = np.mean(worth, axis=0)
    assert true_mean > 2.0
    assert mean == pytest.approx(true_mean, rel=0.15)


def test_of_several_classes_a_label_tells_of_each(tmp_path: Path) -> None:
    chosen = ["|".join(["red"] * (n % 2 == 0) + ["blue"] * (n % 4 == 0)) for n in range(80)]
    rows = [f"i{n},{who},{labels}" for n, labels in enumerate(chosen) for who in "abc"]
    folder = folder_of(tmp_path / "d", annotations="\n".join(["item,annotator,label", *rows]) + "\n")
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    found = cs.fit("majority-vote", str(folder)).annotators
    assert found is not None
    half, quarter = 1.0, -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert found["bits_per_label"].to_pylist() == pytest.approx([half + quarter] * 3, rel=0.15)
