"""Baselines that need no fit: reference points for divergences from label distributions.

They are scored where dev or test items are scored against the label distribution of their own annotations. Every trial
of the report keeps the scores of three predictions, made from its own training data:

    marginal     the crowd's mean distribution for every item, as the model of that name
    uniform      every class alike, as the model of that name
    histogram    each training item's own label distribution, of its training labels: what any smoothing must beat where
                 these are few; its divergence is zero by construction where they are all that is known of the item

Trials on the same data keep the same array, which is stored once. The same holds for the class names, which are the
axis labels in figures of distributions.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import TrialData
from crowdsweep.metrics.metric_table import ACCURACY, ITEM_METRICS, ScoredItems, repeats_votes
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.record.array_names import BASELINES, CLASSES, HISTOGRAM, MARGINAL, UNIFORM
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.scoring import scored_part

_METRICS = (ACCURACY, "log_loss", "brier", "kl", "kl_reverse", "js", "mae", "wasserstein")
_ROW = [("baseline", "<U9"), ("metric", "<U24"), ("value", "<f8")]


def baseline_scores(trial: TrialData) -> dict[str, np.ndarray]:
    """Returns the artifacts `BASELINES` (rows of baseline, metric and value) and `CLASSES` (the class names).

    Empty where no items are scored against label distributions.
    """
    rows = [
        (name, f"{split}_{info.name}", info.score(scored))
        for name, split, scored in _scored(trial)
        for info in ITEM_METRICS
        if info.name in _METRICS
        and info.applies(scored.scale, scored.unit, scored.class_names)
        and not repeats_votes(f"{split}_{info.name}", {"train": False})
    ]
    if not rows:
        return {}
    return {BASELINES: np.array(rows, dtype=_ROW), CLASSES: np.array(trial.class_names, dtype=np.str_)}


def _scored(trial: TrialData) -> Iterator[tuple[str, str, ScoredItems]]:
    """Yields (baseline, split, its predictions) for each split that is scored against label distributions."""
    splits = [split for split, part in trial.evaluation.items() if not part.has_gold.any()]
    if not {"dev", "test"} & set(splits):  # divergences of training items from their own votes rank no model
        return
    context = FitContext(seeds=SeedStream(0))  # neither model draws random numbers
    for name in (MARGINAL, UNIFORM):
        constant = fit_one(registered.build_model(name, {}), trial.training, context).item_probs[0]
        for split in splits:
            part = trial.evaluation[split]
            scored = scored_part(part, np.tile(constant, (part.items.n_items, 1)), trial)
            if scored is not None:
                yield name, split, scored
    if "train" in splits:
        scored = _histogram(trial)
        if scored is not None:
            yield HISTOGRAM, "train", scored


def _histogram(trial: TrialData) -> ScoredItems | None:
    """Returns the training items with at least one training label; each is predicted as the distribution of these."""
    annotations, part = trial.training.annotations, trial.evaluation["train"]
    kept = annotations.labels_per_item[part.scored] > 0
    if not kept.any():
        return None
    own: ItemProbs = (
        choices_of(annotations).shares() if trial.training.scale == "multilabel" else annotations.label_distribution()
    )
    answered = replace(
        part,
        scored=part.scored[kept],
        code=part.code[kept],
        reference=part.reference[kept],
        has_gold=part.has_gold[kept],
        known=None if part.known is None else part.known[kept],
    )
    return scored_part(answered, own, trial)
