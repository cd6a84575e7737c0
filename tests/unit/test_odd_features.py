"""What `data check` says of features."""

from pathlib import Path

import numpy as np

from crowdsweep.data import catalogue
from crowdsweep.data.feature_oddities import odd_features
from crowdsweep.data.oddities import find_oddities


def kinds(features: np.ndarray) -> dict[str, list[str]]:
    return {kind: examples for kind, examples, _ in odd_features(features.astype(np.float32))}


def test_ordinary_features_are_not_odd() -> None:
    random = np.random.default_rng(0)
    assert kinds(random.normal(size=(50, 8))) == {}
    assert kinds(random.normal(size=(50, 400)) * 0.05) == {}  # an embedding
    assert kinds((random.random((50, 6)) < 0.3) * 1.0) == {}
    assert kinds(np.zeros((0, 3))) == kinds(np.zeros((1, 3))) == {}


def test_each_kind_is_told_with_its_features() -> None:
    features = np.random.default_rng(0).normal(size=(50, 5))
    features[:, 1] = 1e6  # constant, however large
    features[:, 3] = 5 - 100 * features[:, 2]
    found = kinds(features)
    assert found["features that are the same for every item"] == ["1"]
    assert found["features that repeat another feature"] == ["2 = 3"]
    assert kinds(features[:, [0, 3]]) == {}
    scales = kinds(features[:, [0, 2]] * [1e-3, 10])["features on very different scales"]
    assert [example.split()[0] for example in scales] == ["0", "1"]
    features[3, 4] = np.nan
    assert kinds(features)["features that are not finite"] == ["4"]


def test_data_check_tells_it(tmp_path: Path) -> None:
    rows = "\n".join(f"i{item},{who},{item % 2}" for item in range(6) for who in "ab")
    (tmp_path / "annotations.csv").write_text(f"item,annotator,label\n{rows}\n")
    values = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32) * np.array([1, 0], np.float32)
    np.savez(tmp_path / "features-plain.npz", features=values, item=np.array([f"i{item}" for item in range(6)]))
    told = [str(oddity) for oddity in find_oddities(catalogue.load(str(tmp_path), {}))]
    assert "features that are the same for every item: 1; models learn nothing from them" in told
