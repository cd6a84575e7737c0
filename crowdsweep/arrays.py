"""Array types with named axes, the floor for logarithms, and division with a fallback for zero.

Axis names used everywhere: `annotations` (A rows), `items` (N), `annotators` (T), `classes` (K; `true` and
`observed` if a matrix has two class axes; for multi-label data these are 0 not chosen, 1 chosen), `features` (D),
`groups`, `clusters`, `replicas`, `steps` (of a fit, or of a block of steps), `batch` (rows of one step), `rows` (any
number of rows), `width` (numbers per row).
"""

import mmap
import sys

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64, Num, Shaped

# Lower bound of every probability whose logarithm is taken. It is part of the definition of unsmoothed models: with
# exact zeros, a lower floor changes the accuracy of Dawid-Skene by up to two points.
LOG_FLOOR = 1e-12

ItemCodes = Int32[np.ndarray, " annotations"]
AnnotatorCodes = Int32[np.ndarray, " annotations"]
LabelCodes = Int32[np.ndarray, " annotations"]
RowWeights = Float32[np.ndarray, " annotations"]
RowProbs = Float64[np.ndarray, "annotations classes"]
Pointers = Int64[np.ndarray, " pointers"]
ItemProbs = Float64[np.ndarray, "items classes"]
ItemFeatures = Float32[np.ndarray, "items features"]
AnnotatorFeatures = Float32[np.ndarray, "annotators annotator_features"]
Confusions = Float64[np.ndarray, "annotators true observed"]
Confusion = Float64[np.ndarray, "true observed"]
ClassConfusions = Float64[np.ndarray, "annotators classes true observed"]
ClassConfusion = Float64[np.ndarray, "classes true observed"]
ClassProbs = Float64[np.ndarray, " classes"]
Objective = Float64[np.ndarray, " steps"]


_PAGE = 512  # 8-byte numbers per memory page


def sparse_zeros(shape: tuple[int, int], written: int) -> Float64[np.ndarray, "rows width"]:
    """Returns a table of zeros; if few numbers will be written, only the memory pages that are written get allocated.

    NumPy's own zeros may be allocated two megabytes at a time.

    Args:
        shape: of the table.
        written: how many of its numbers will be written, in any places.
    """
    size = shape[0] * shape[1]
    if sys.platform != "linux" or written * _PAGE >= size:
        return np.zeros(shape)
    memory = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.float64).reshape(shape)


def read_only(array: Shaped[np.ndarray, "*shape"]) -> Shaped[np.ndarray, "*shape"]:
    """Returns a C-contiguous view (or copy) that cannot be written to."""
    frozen = np.ascontiguousarray(array).view()
    frozen.flags.writeable = False
    return frozen


def floored_log(probs: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """Returns log(max(probs, LOG_FLOOR)), elementwise."""
    return np.log(np.maximum(probs, LOG_FLOOR))


def ratio(
    part: float | Num[np.ndarray, "..."], whole: Num[np.ndarray, "..."], *, at_zero: float | Float64[np.ndarray, "..."]
) -> Float64[np.ndarray, "..."]:
    """Returns part / whole, elementwise; `at_zero` where the whole is zero.

    Args:
        part: numerators; the three arguments broadcast.
        whole: denominators, at least 0.
        at_zero: result where the denominator is zero.
    """
    there = whole > 0
    if np.ndim(at_zero) == 0 and there.all():  # the usual case, in a third of the time
        return part / whole
    return np.where(there, part / np.where(there, whole, 1.0), at_zero)


def normalised_rows(
    table: Num[np.ndarray, "*rows classes"], *, at_zero: float | Float64[np.ndarray, "*rows classes"] | None = None
) -> Float64[np.ndarray, "*rows classes"]:
    """Returns each row (along the last axis) divided by its sum.

    Args:
        table: at least 0 everywhere.
        at_zero: replaces a row of zeros; None: uniform.
    """
    return ratio(
        table, table.sum(axis=-1, keepdims=True), at_zero=1.0 / table.shape[-1] if at_zero is None else at_zero
    )


def add_rows(
    table: Float64[np.ndarray, " places *shape"],
    place: Num[np.ndarray, " rows"],
    rows: Float64[np.ndarray, " rows *shape"],
) -> None:
    """Adds each row to the table row with its index, in order; repeated indices accumulate, as in `np.add.at`.

    The table is flattened first, because `np.add.at` takes ten times as long for rows as for numbers.

    Args:
        table: C-contiguous; modified in place.
        place: index of the table row for each of `rows`.
        rows: to be added.

    Raises:
        ValueError: the table is not C-contiguous; the sums would go into a copy and be lost.
    """
    if not table.flags.c_contiguous:
        raise ValueError(f"expected a C-contiguous table to add rows to, got strides {table.strides}")
    width = int(np.prod(table.shape[1:]))
    cells = place.astype(np.int64)[:, None] * width + np.arange(width)
    np.add.at(table.reshape(-1), cells.reshape(-1), rows.reshape(-1))
