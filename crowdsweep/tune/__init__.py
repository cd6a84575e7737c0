"""For those who live in Ray Tune: a model on a dataset as a trainable, and its search space in Tune's terms.

    from ray import tune
    from crowdsweep.tune import param_space, trainable

    tuner = tune.Tuner(trainable("soft-mv", "digits", "dev_accuracy", seeds=3), param_space=param_space("soft-mv"))

Tune's schedulers decide by who comes first, so that what they find hangs on timing. A sweep of crowdsweep
(`early_stop: median`) does not, and keeps a record. `docs/pages/how-to/use-ray-tune.md` says more.
"""

from crowdsweep.tune.ray_space import param_space
from crowdsweep.tune.ray_trainable import trainable

__all__ = ["param_space", "trainable"]
