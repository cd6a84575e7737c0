"""The tables of page sections that only some sweeps have."""

from collections.abc import Sequence

from crowdsweep.analysis.paired import SideBySide
from crowdsweep.analysis.sections.baselines import Baselines
from crowdsweep.analysis.sections.guidance import Guidance
from crowdsweep.analysis.sections.soft_labels import SoftLabels
from crowdsweep.analysis.sections.unseen_annotators import UnseenAnnotators
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.metrics.shown import show_interval, show_number, show_probability
from crowdsweep.metrics.wording import readable
from crowdsweep.units import show_p
from crowdsweep.views.page.table import PageTable, table_of

_PAIR = ("difference", "95 % interval", "p")
_GUIDANCE_NOTE = (
    "difference: the first minus the second, with its 95 % interval and the p of a paired test, uncorrected. As it is: "
    "the classifier's own prediction; soft: all clusters in proportion; hard: the best one. Each model has its own "
    "point: where points were searched, the plain classifier may differ in more than what it learns."
)
_SOFT_NOTE = (
    "difference: mtl minus stl, with its 95 % interval and the p of our paired test, uncorrected; bootstrap p: of "
    "1,000 samples of a third of all runs' pooled predictions, the share whose difference exceeds twice the observed "
    "one (Fornaciari et al. 2021), which takes runs on the same items for independent."
)
_KURTOSIS_NOTE = (
    "mean excess kurtosis of the votes' soft labels (softmax of counts), and the number of predictions: the higher, "
    "the more one class stands out."
)
_UNSEEN_NOTE = (
    "first seed; the share is the probability, as a geometric mean, that an answer was given. gain: in nats per "
    "answer, a mean over the annotators, with its 95 % interval."
)
_BASELINES_NOTE = (
    "Computed from the training answers, without a fit. marginal: the crowd's mean distribution for every item; "
    "uniform: every class alike; histogram: each training item's own answers, of those that trained, of which dev and "
    "test items have none (0 by construction where all that is known of an item trained)."
)


def guidance_tables(guidance: Sequence[Guidance]) -> list[PageTable]:
    """Returns what guidance by clusters adds or costs, in a table per dataset."""
    tables: list[PageTable] = []
    for found in guidance:
        rows = [
            (
                one.model,
                "as it is" if one.use == "none" else f"projected, {one.use}",
                one.plain or "as it is",
                *_pair(one.scores),
                show_p(one.scores.test.p).removeprefix("= "),
            )
            for one in found.predictions
        ]
        columns = ("model", "prediction", "beside", readable(found.metric), "other's", *_PAIR)
        tables.append(table_of(columns, rows, found.dataset, _GUIDANCE_NOTE))
    return tables


def soft_label_tables(soft_labels: Sequence[SoftLabels]) -> list[PageTable]:
    """Returns whether soft labels help and, where it is known, how peaked the votes are."""
    tables: list[PageTable] = []
    for found in soft_labels:
        rows = [
            (
                one.multi,
                one.single,
                one.labels,
                *_pair(one.scores),
                show_p(one.scores.test.p),
                "" if one.bootstrap_p is None else show_p(one.bootstrap_p),
            )
            for one in found.pairs
        ]
        columns = ("mtl", "stl", "labels", readable(found.metric), "stl's", *_PAIR, "bootstrap p")
        tables.append(table_of(columns, rows, f"Soft labels on {found.dataset}", _SOFT_NOTE))
        peaked = [
            (one.multi, one.single, *(f"{mean:.3f} ({count:,})" for mean, count in one.kurtosis))
            for one in found.pairs
            if one.kurtosis
        ]
        if peaked:
            columns = ("mtl", "stl", "both right", "mtl only", "stl only", "both wrong")
            tables.append(table_of(columns, peaked, f"How peaked the votes are, {found.dataset}", _KURTOSIS_NOTE))
    return tables


def unseen_table(models: Sequence[UnseenAnnotators]) -> PageTable:
    """Returns how well models predict the answers of annotators that they were not trained on."""
    rows = [
        (
            one.model,
            str(one.n_annotators),
            show_probability(one.as_mean, HELDOUT),
            show_probability(one.inferred, HELDOUT),
            show_number(one.gain.mean, HELDOUT, one.gain),
            show_interval(one.gain, HELDOUT),
        )
        for one in models
    ]
    columns = ("model", "annotators", "as the mean annotator", "inferred from other answers", "gain", "95 % interval")
    return table_of(columns, rows, note=_UNSEEN_NOTE)


def baseline_table(found: Baselines) -> PageTable:
    """Returns the scores of predictions that need no fit."""
    rows = [
        (name, *(show_number(value, metric) or "–" for value, metric in zip(values, found.metrics, strict=True)))
        for name, values in found.values.items()
    ]
    return table_of(("without a fit", *map(readable, found.metrics)), rows, note=_BASELINES_NOTE)


def _pair(scores: SideBySide) -> list[str]:
    """Returns both means, their difference and its interval."""
    difference, metric = scores.test.difference, scores.metric
    means = [show_number(mean, metric, difference) for mean in (scores.first, scores.second)]
    if difference is None:
        return [*means, "", ""]
    return [*means, show_number(difference.mean, metric, difference), show_interval(difference, metric)]
