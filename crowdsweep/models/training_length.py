"""How long networks train where nobody says: numbers that training and the estimates of its cost share."""

STEPS = 2000  # the fewest in all: Adam at a rate of 1e-3 moves a weight by two at most
SEARCHED = (500, 2000, 8000)  # fewest steps that a default space has beside epochs, of which many items have enough
FEW_UNITS = 400  # items or sentences; of fewer, a tenth is not set aside, and the epochs are found by folds
FOLDS = 5
