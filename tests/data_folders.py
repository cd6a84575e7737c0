"""Dataset folders that tests write."""

from pathlib import Path
from typing import Any

import numpy as np

from crowdsweep import app
from crowdsweep.sweepfile.read import parse_sweep

GOOD = "item,annotator,label\na,x,yes\nb,y,no\n"


def folder_of(path, **files):
    path.mkdir(exist_ok=True)
    for stem, text in files.items():
        (path / f"{stem}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def two_kinds(folder: Path) -> str:
    """Sixty items of two kinds that features tell apart, answered by twenty annotators."""
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    said = [(i, w, (kind[i] if rng.random() < 0.9 else rng.integers(3))) for i in range(60) for w in range(20)]
    folder.mkdir()
    lines = [f"i{i},w{w},{label}" for i, w, label in said if rng.random() < 0.5]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *lines]) + "\n")
    splits = ["train"] * 40 + ["dev"] * 10 + ["test"] * 10
    items = [f"i{i},{split}" for i, split in enumerate(splits)]
    (folder / "items.csv").write_text("\n".join(["item,split", *items]) + "\n")
    (folder / "classes.csv").write_text("label,name\n0,calm\n1,angry\n2,other\n")
    features = np.stack([kind, 1 - kind], axis=1) + rng.normal(0, 0.05, (60, 2))
    np.savez(folder / "features-x.npz", features=features, item=np.array([f"i{i}" for i in range(60)]))
    return str(folder)


def swept_two_kinds(place: Path, *models: Any, seeds: int, **more: Any) -> Path:
    """Runs models on these items and returns the sweep's store."""
    config = parse_sweep(
        {
            "name": "some",
            "datasets": [two_kinds(place / "data")],
            "models": list(models),
            "seeds": {"report": seeds},
            "engine": "inline",
            "tracking": {"enabled": False},
            **more,
        }
    )
    app.run(config, place / "store", quiet=True)
    return place / "store"
