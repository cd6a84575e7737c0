"""A classifier guided by the graph model pgm-bp: it learns what a whole crowd would say of each cluster of items.

The graph model takes the accident of who happened to answer out of an item's labels; the classifier learns from what is
left, and its prediction for an unseen item is projected onto the nearest cluster (`_guided.py`).

Weerasooriya, Ororbia and Homan, row PGM-BP of Table 3, whose printed accuracies are those of the most frequent class.
"""

from crowdsweep.models.aggregate import pgm_bp
from crowdsweep.models.two_stage._guided import guided

MODEL = guided(__name__, pgm_bp.MODEL, version=5)
