"""Whether data bring what a model needs."""

from crowdsweep.data import bounds
from crowdsweep.data.dataset import TrialData
from crowdsweep.errors import DataError
from crowdsweep.models.contract import ModelInfo, Need
from crowdsweep.units import listed


def check_needs(info: ModelInfo, needs: frozenset[Need], trial: TrialData, dataset: str) -> None:
    """Checks that the data bring what the model needs, and nothing that it cannot take.

    Args:
        needs: of the model at its hyper-parameters (`ModelInfo.needs_of`).
        dataset: what messages call them.

    Raises:
        DataError: the data do not.
    """
    training = trial.training
    lacks = {
        "features": training.items.features is None,
        "text": training.items.text is None,
        "annotators": training.annotations.anonymous,
        "gold": not len(trial.gold),
        "order": training.scale != "ordinal",
    }
    remedies = {
        "features": "put features-NAME.npz into its folder, or name computed ones (`features: {text: tfidf}`)",
        "text": "give each item a text, in the column `text` of items.csv",
        "annotators": "use the scenario `individual`, or annotations that name their annotators",
        "gold": "give its training items gold, in the column `gold` of items.csv",
        "order": "where they have one, write `scale: ordinal` into its dataset.yaml",
    }
    subjects = {"annotators": "known annotators", "order": "classes in an order"}
    if lacking := [need for need in sorted(needs) if lacks[need]]:
        wanted = listed([subjects.get(need, f"{need} of the training items") for need in lacking])
        raise DataError(
            f"model {info.name!r} needs {wanted}, which dataset {dataset!r} does not have; "
            f"{'; '.join(remedies[need] for need in lacking)}, or leave this model out"
        )
    if training.annotations.anonymous and "votes" not in info.supports:
        raise DataError(f"model {info.name!r} cannot take anonymous votes, which are all that dataset {dataset!r} has")
    if training.scale == "multilabel" and "multilabel" not in info.supports:
        raise DataError(f"model {info.name!r} cannot take multi-label data, which dataset {dataset!r} has")
    if "many_classes" not in info.supports:
        n_labels = len(training.annotations) + (0 if trial.heldout is None else len(trial.heldout))
        shape = (training.n_items, training.n_classes, n_labels)
        bounds.check_fit(*shape, f"{dataset}, model {info.name}", multilabel=training.scale == "multilabel")
