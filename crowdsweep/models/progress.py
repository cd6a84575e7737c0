"""Whether a fit had converged when it ended; its objective may be noisy, and of any scale."""

import numpy as np
from jaxtyping import Float64

_LAST = 5  # the last of so many equal parts of the fit is held against the one before
_SHARE = 0.1  # of all that the fit gained: what the last part may gain of a fit that has ended
_SURE = 2.0  # standard errors of the difference


def still_improves(objective: Float64[np.ndarray, " steps"]) -> bool:
    """Whether an objective still clearly rose when its fit ended.

    It did if the mean of the last fifth of its steps is above that of the fifth before by more than a tenth of all that
    was gained since the first step, and by more than two standard errors, steps being compared with their neighbours.
    (An objective that nears its end exponentially, and has a tenth of its way to go, gains 8 % in the last fifth; one
    that rises evenly gains 20 %.) Of a single step nothing can be said.
    """
    if len(objective) < 2 or not np.isfinite(objective).all():
        return False
    size = max(1, len(objective) // _LAST)
    last, before = objective[-size:], objective[-2 * size : -size]
    gained = float(last.mean() - before.mean())
    noise = np.diff(objective[-2 * size :])
    error = float(noise.std() / np.sqrt(size)) if size > 1 else 0.0
    return gained > max(_SHARE * float(last.mean() - objective[0]), _SURE * error, 0.0)
