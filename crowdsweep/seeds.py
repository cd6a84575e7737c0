"""Named, independent random streams from one integer seed.

Code that needs randomness takes a `SeedStream` as an argument and requests a generator by name. The name is hashed into
the seed, so a new consumer never changes the numbers of an existing one.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class SeedStream:
    """A node in the tree of random streams: the root seed and the path of names from the root."""

    seed: int
    path: tuple[str, ...] = ()

    def child(self, name: str | int) -> "SeedStream":
        """Returns the child stream of that name."""
        return SeedStream(self.seed, (*self.path, str(name)))

    def numpy(self, name: str | int) -> np.random.Generator:
        """Returns a new NumPy generator; the same name gives the same numbers."""
        return np.random.default_rng(self._sequence(name))

    def integer(self, name: str | int) -> int:
        """Returns a seed below 2**63, for libraries that take an integer."""
        return int(self._sequence(name).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def torch(self, name: str | int, device: str = "cpu") -> "torch.Generator":
        """Returns a new torch generator on a device; the same name gives the same seed."""
        import torch

        return torch.Generator(device=device).manual_seed(self.integer(name))

    def _sequence(self, name: str | int) -> np.random.SeedSequence:
        # Joined by a character that no name has, so that ("ab", "c") and ("a", "bc") are different streams.
        digest = blake2b("\0".join((*self.path, str(name))).encode(), digest_size=16).digest()
        return np.random.SeedSequence([self.seed, *np.frombuffer(digest, np.uint32).tolist()])
