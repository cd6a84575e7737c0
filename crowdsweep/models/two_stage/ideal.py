"""Ideal: the classifier trained on gold, which no crowd model may see: a bound, marked in every report.

Items without gold are left out; annotations are not looked at. Mena and Nanculef (CIARP 2019): targets z_i (gold).
"""

from crowdsweep.models.two_stage._pair import pair
from crowdsweep.models.two_stage._targets import Gold
from crowdsweep.models.two_stage._training import Training

MODEL = pair(
    __name__,
    title="Ideal: a classifier trained on gold, an upper bound",
    source="Mena and Nanculef 2019, section 4 (Ideal)",
    targets=Gold(),
    training=Training(),
    needs=frozenset({"features", "gold"}),
    predicts_labels=False,
    version=3,
)
