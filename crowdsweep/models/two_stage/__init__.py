"""Models that first aggregate and then train a classifier on what came out. They add no arithmetic to either."""
