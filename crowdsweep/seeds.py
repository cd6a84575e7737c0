"""Named, independent random streams from one integer.

Randomness is an argument here: whoever needs it is handed a `SeedStream` and asks for a generator by name. The name
is hashed into the seed, so a new consumer never shifts the numbers of an old one.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class SeedStream:
    """A place in the tree of random streams: a root seed and the names that led here."""

    seed: int
    path: tuple[str, ...] = ()

    def child(self, name: str | int) -> "SeedStream":
        """Returns the stream below this one with that name."""
        return SeedStream(self.seed, (*self.path, str(name)))

    def numpy(self, name: str | int) -> np.random.Generator:
        """Returns a fresh numpy generator; the same name gives the same numbers."""
        return np.random.default_rng(self._sequence(name))

    def integer(self, name: str | int) -> int:
        """Returns a seed below 2**63, for libraries that take an integer."""
        return int(self._sequence(name).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def torch(self, name: str | int, device: str = "cpu") -> "torch.Generator":
        """Returns a fresh torch generator on that device."""
        import torch

        return torch.Generator(device=device).manual_seed(self.integer(name))

    def _sequence(self, name: str | int) -> np.random.SeedSequence:
        digest = blake2b("\0".join((*self.path, str(name))).encode(), digest_size=16).digest()
        return np.random.SeedSequence([self.seed, *np.frombuffer(digest, np.uint32).tolist()])
