"""A classifier guided by a finite multinomial mixture: it learns the label distributions of clusters of items.

The mixture pools the few answers of each item with those of items that look alike; the classifier learns from the
pooled distributions, and its prediction for an unseen item is projected onto the nearest cluster (`_guided.py`).

Weerasooriya, Ororbia and Homan, row FMM of Table 3. The printed accuracies are reached only where an item's own labels
choose its cluster, and no model here does that.
"""

from crowdsweep.models.aggregate import fmm
from crowdsweep.models.two_stage._guided import guided

MODEL = guided(__name__, fmm.MODEL, version=4)
