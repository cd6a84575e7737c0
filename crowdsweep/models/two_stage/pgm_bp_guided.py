"""A classifier guided by the graph model pgm-bp: it learns the label distribution of each item's cluster.

The graph model corrects an item's label distribution for which annotators happened to answer; the classifier is trained
on the result, and its prediction for an unseen item is projected onto the nearest cluster (`_guided.py`).

Weerasooriya, Ororbia and Homan, row PGM-BP of Table 3, whose published accuracies are those of the most frequent class.
"""

from crowdsweep.models.aggregate import pgm_bp
from crowdsweep.models.two_stage._guided import guided

MODEL = guided(__name__, pgm_bp.MODEL, version=5)
