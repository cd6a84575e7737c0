"""A stand-in for timm, with the names that are used of it: of an image its network says the mean colour."""

import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image


class MeanColour(torch.nn.Module):
    scale = 1.0

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.mean(dim=(2, 3)) * self.scale


class Timm:
    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.seen = 0

    def create_model(self, name: str, *, pretrained: bool, num_classes: int) -> torch.nn.Module:
        assert (pretrained, num_classes) == (True, 0)
        self.loaded.append(name)
        return MeanColour()

    def create_transform(self, *, side: int, is_training: bool) -> Callable[[Image.Image], torch.Tensor]:
        assert not is_training

        def transform(image: Image.Image) -> torch.Tensor:
            self.seen += 1
            return torch.tensor(np.asarray(image.resize((side, side)), dtype=np.float32)).permute(2, 0, 1)

        return transform


def stand_in_for_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Timm:
    """Puts it in timm's place, with a model's folder `model` and an empty cache; to be made a fixture."""
    module, stand_in = types.ModuleType("timm"), Timm()
    module.create_model = stand_in.create_model  # type: ignore[attr-defined]
    module.data = types.SimpleNamespace(  # type: ignore[attr-defined]
        resolve_model_data_config=lambda _: {"side": 4}, create_transform=stand_in.create_transform
    )
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_bytes(b"1")
    return stand_in
