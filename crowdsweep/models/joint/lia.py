"""LIA: an item's class, its difficulty and an annotator's competence are functions, learned together by EM.

A network of the item's features gives its class and its difficulty, a linear map of an annotator's vector gives the
annotator's competence, and the two say together how this annotator errs on this item. EM alternates between the classes
and the functions; then the likelihood of the answers, the classes summed out, is maximised directly.

Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    h_theta(x_i)   classes, softmax                network, hidden, dropout
    D_i = d(x_i)   difficulty [true, observed, L]  the same network's further outputs (`shared_trunk`)
    C_t            competence [true, observed, L]  linear in a vector, annotator_embedding
    Q_it           confusions of t on i            log Q[k, :] = log_softmax over l of logsumexp over L of D + C
    lambda_i       posterior                       proportional to h prod over t of Q_it[:, y_it]
    E-step, M-step                                 a round: the posterior, then `epochs` passes
    Eq. 9          marginal fine-tuning            finetune: composite (each answer by itself), joint (an item's)

The first posterior is the vote, which names the classes. The item term of the M-step counts once per item, the other
once per answer (`item_weighting: paper`). Predictions are h's (`predict: h`), or the posterior's.

Annotators' features, where there are any, make their vectors, together with a part of each annotator's own that begins
at zero: one who was never seen is known by the features. Without features vectors are learned, and who was never seen
is predicted as the crowd is.

Besides labels (`extras`): `item_difficulty`, `annotator_competence`, `annotator_errors`, `annotator_embeddings` and the
confusions of each answered pair, `pair_confusions` (`FittedLia.extras`).

Deviations: Adam in place of AMSGrad; batches are of items with all their answers, of which a joint likelihood needs
all; Q as in the authors' code, always positive and a distribution (the paper normalises an inner product of any sign);
gamma times (log Q)² over the answers per item, as there, holds confusions near uniform, but their entropy term is left
out; difficulties begin at zero and competences at four answers in five right.

The network's defaults are those of every network here. The paper's (`hidden: [16, 16, 16, 16]`, `dropout: 0`,
`learning_rate: 0.003`, in the sweep files of its tables) overfits where items are few: see `models/README.md`. The
other defaults are the paper's. With the paper's network, on rte (800 items, ten labels each; the vote has 89.7 %), h
has 90.5 % after composite fine-tuning, the posterior without it (`finetune: none`) 92.2. Of thirteen settings tried
there, held-out answers choose the posterior after five rounds of five passes: 92.6 (five seeds; with a tenth held out,
-0.457 per answer, against -0.480 for the paper's). Passes, gamma, size and early stopping by held-out answers
(`patience`) are therefore in the space. A first round of few steps (less than fifty or so) leaves h near chance, and
the next E-step takes that for the prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint import _lia_replicas
from crowdsweep.models.joint._lia import LIA_SPACE, SOURCE, LiaTraining, lia_cost, reading_items


@final
@dataclass(frozen=True, kw_only=True)
class Lia:
    """Hyper-parameters of LIA.

    Attributes:
        training: all of them.
    """

    training: LiaTraining = LiaTraining()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        return _lia_replicas.fit(self.training, data, contexts, reading_items(data[0]))


MODEL = ModelInfo(
    name="lia",
    title="LIA: classes, difficulties and competences as functions, by EM",
    model=Lia,
    steps="iterations",
    predicts_labels=True,
    checkpoints=True,
    source=f"{SOURCE}, LIA",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    space=LIA_SPACE,
    cost=lia_cost,
    label_symmetric=False,
    version=3,
)
