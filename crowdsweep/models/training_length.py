"""Default lengths of training, which training and the estimates of its cost share."""

STEPS = 2000  # the fewest in all: Adam at a rate of 1e-3 moves a weight by two at most
# Of networks with hidden units that nothing stops: learned on 60 to 300 items of wine, breast cancer or digits, three
# answers per item, cmm, dl-em, speelfc and crowd-layer are 2.2 points below that on unseen items after 2,000 steps (24
# comparisons of four seeds; 6.7 at most).
UNSTOPPED_STEPS = 500
# The fewest that default spaces have beside epochs, of which many items have enough; where nothing stops, the second.
SEARCHED, SEARCHED_UNSTOPPED = (500, 2000, 8000), (250, 500, 2000)
FEW_UNITS = 400  # items or sentences; of fewer, a tenth is not kept for validation, and the epochs are found by folds
FOLDS = 5
