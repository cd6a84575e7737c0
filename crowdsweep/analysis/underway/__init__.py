"""What a sweep that runs is at: how far, how long it still takes, and the best so far. Decides nothing."""
