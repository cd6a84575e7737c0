"""The model that labels, and describes annotators, where none is chosen."""

from crowdsweep.data.dataset import Scale


def default_model(scale: Scale) -> str:
    """Returns the model of labels alone that is taken: of several classes per item the vote on each of them, else
    hierarchical Dawid-Skene, on average the best on public data (`crowdsweep/models/README.md` has the table)."""
    return "majority-vote" if scale == "multilabel" else "hierarchical-dawid-skene"
