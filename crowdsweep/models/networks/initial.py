"""Initial values of a network's parameters, drawn from each replica's own stream."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32

Start = Float32[np.ndarray, "..."]  # of whatever shape was asked for
Initialiser = Callable[[np.random.Generator, tuple[int, ...]], Start]
"""Draws values of a shape."""


def glorot_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:
    """Draws from U(±sqrt(6 / (fan in + fan out))), the fans being the last two axes."""
    limit = np.sqrt(6.0 / (shape[-2] + shape[-1]))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:  # noqa: ARG001 - an Initialiser
    """Returns zeros; draws nothing."""
    return np.zeros(shape, np.float32)


def constant(value: float) -> Initialiser:
    """Returns an initialiser that fills with `value` and draws nothing."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:  # noqa: ARG001 - an Initialiser
        return np.full(shape, value, np.float32)

    return fill


def repeated(row: Start) -> Initialiser:
    """Returns an initialiser whose rows are all this one; it draws nothing."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:  # noqa: ARG001 - an Initialiser
        return np.broadcast_to(row.astype(np.float32), shape)

    return fill


def normal(scale: float) -> Initialiser:
    """Returns an initialiser that draws from N(0, scale^2)."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:
        return rng.normal(0.0, scale, shape).astype(np.float32)

    return draw


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:
    """Draws a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al. 2014)."""
    tall = max(shape), min(shape)
    basis, triangle = np.linalg.qr(rng.standard_normal(tall))
    # QR fixes the signs of its columns by convention; with those of R's diagonal the draw is uniform over orthogonal
    # matrices.
    basis *= np.sign(np.diag(triangle))
    return np.ascontiguousarray(basis if shape == tall else basis.T, np.float32)
