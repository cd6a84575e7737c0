"""MMCE⋆: minimax conditional entropy, then LIA's network of items, trained on its likeliest classes.

The first stage gives annotators and items confusion matrices of their own; the second corrects its labels where the
features contradict them. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect
Annotations".

    MMCE      `mmce` with gamma 1/4            targets, its likeliest classes
    h_theta   the network of items             classifier

Deviations: MMCE is that of Zhou et al. (`mmce`), which the authors' own minibatch version (far weaker) is not; else as
`maj-star`.
"""

from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.two_stage._star import star

MODEL = star(
    __name__,
    "MMCE⋆: minimax conditional entropy, then LIA's network of items",
    Mmce(),
    space={"regularisation": {"values": [0.25, 1, 4]}},
    version=3,
)
