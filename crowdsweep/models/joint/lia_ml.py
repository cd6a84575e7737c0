"""LIA-ML: LIA on multi-label data, every class a question of its own, answered by networks that share their trunk.

An answer says of each class whether it applies. All classes share one trunk on the item's features and one vector for
each annotator; each has its own classifier, its own difficulty and its own competence on top of them.

Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations", LIA-ML (there the classes are
14 relations between medical terms).

    the symbols are those of `lia`, each with a further axis of questions, h and Q being of two classes

An annotator who answered an item has answered every class, as everywhere here: questions that were not put to the same
annotators have to be data sets of their own. An item without answers takes part in nothing, which is the mask of the
paper.

Deviations: those of `lia`; one head for each class, as in the authors' code, where their text has embeddings of labels.
Nominal data are one question of K classes, on which this is `lia`.
"""

from dataclasses import replace

from crowdsweep.models.joint import lia
from crowdsweep.models.joint._lia import SOURCE

MODEL = replace(
    lia.MODEL,
    name="lia-ml",
    title="LIA-ML: LIA on multi-label data, a question per class, one trunk",
    source=f"{SOURCE}, LIA-ML",
    supports=frozenset({"multilabel", "soft_answers"}),
    version=3,
)
