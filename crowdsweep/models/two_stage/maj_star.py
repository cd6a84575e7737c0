"""MAJ⋆: majority vote, then LIA's network of items, trained on the winners to predict them from the features.

All annotators count alike; labels are corrected only where the features contradict them. Baseline of Platanios,
Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    MAJ       `majority-vote`, of soft answers their mean       targets, its winners
    h_theta   the network of items                              classifier

Deviations: the network's defaults are those of every network here, the paper's stand in `lia`; the authors train their
LIA code with one pseudo-annotator, whose difficulty and competence change nothing of h's loss; ours leaves them out,
and the entropy term (.01) of their code with them.
"""

from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.two_stage._pair import Fixed
from crowdsweep.models.two_stage._star import star

MODEL = star(__name__, "MAJ⋆: majority vote, then LIA's network of items", Fixed(MajorityVote()), version=3)
