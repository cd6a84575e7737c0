"""Switches the run-time checks of the shapes and types of arrays.

pytest's option `--jaxtyping-packages=crowdsweep,late_beartype.checked_when_called` has every function of the package
compare its arguments with their annotations, which multiplies what small fits cost; so a suite turns the comparison on
where it pays. Without that option nothing here has an effect.
"""

from collections.abc import Generator
from contextlib import contextmanager

import jaxtyping


def check_shapes(wanted: bool) -> None:
    """Turns the comparison on or off, for the whole process."""
    jaxtyping.config.update("jaxtyping_disable", not wanted)


@contextmanager
def checked_shapes() -> Generator[None]:
    """Turns the comparison on inside a block, and afterwards back to what it was."""
    disabled = jaxtyping.config.jaxtyping_disable
    check_shapes(True)
    try:
        yield
    finally:
        check_shapes(not disabled)
