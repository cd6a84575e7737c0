"""Ray Tune: a model on a dataset as a trainable, and the model's search space as a `param_space`.

    from ray import tune
    from crowdsweep.tune import param_space, trainable

    tuner = tune.Tuner(trainable("soft-mv", "digits", "dev_accuracy", seeds=3), param_space=param_space("soft-mv"))

Tune's schedulers decide by the order in which reports arrive, so their results depend on timing. Those of a crowdsweep
sweep (`early_stop: median`) do not, and it keeps a record. See `docs/pages/how-to/use-ray-tune.md`.
"""

from crowdsweep.tune.ray_space import param_space
from crowdsweep.tune.ray_trainable import trainable

__all__ = ["param_space", "trainable"]
