"""A classifier guided by the graph model pgm-annealing: it learns what a whole crowd would say of clusters of items.

As `pgm-bp-guided`, around the graph model whose clusters are looked for by simulated annealing; its prediction for an
unseen item is projected onto the nearest cluster (`_guided.py`).

Weerasooriya, Ororbia and Homan, row PGM-A of Table 3, which prints a divergence and an accuracy that a constant beats.
"""

from crowdsweep.models.aggregate import pgm_annealing
from crowdsweep.models.two_stage._guided import guided

MODEL = guided(__name__, pgm_annealing.MODEL, version=3)
