"""The results of `crowdsweep label`: labels of items, a table of annotators, items to label next, a classifier."""
