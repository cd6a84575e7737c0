"""The model that labels, and describes annotators, where none is chosen."""

from crowdsweep.data.dataset import CrowdDataset, Scale

_ENOUGH = 500  # items with several labels


def default_model(scale: Scale) -> str:
    """Returns the model of labels alone that is taken: of several classes per item the vote on each of them, else
    hierarchical Dawid-Skene, on average the best on public data (`crowdsweep/models/README.md` has the table)."""
    return "majority-vote" if scale == "multilabel" else "hierarchical-dawid-skene"


def default_for(dataset: CrowdDataset) -> tuple[str, str]:
    """Returns the model of labels alone that labels a dataset, and why it is that one.

    How annotators err shows where they label the same items. Where few have a second label and most have none, what
    these few tell of the others is mostly luck (measured: `docs/pages/how-to/choose-a-model.md`).
    """
    model, n = default_model(dataset.scale), dataset.annotations.labels_per_item
    if model != "majority-vote" and (n > 1).sum() < min((n == 1).sum(), _ENOUGH):
        return "majority-vote", "most items have one label, which says little about how annotators err"
    return model, "the default for labels alone"
