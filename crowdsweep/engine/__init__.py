"""What runs batches of trials: the contract of executors, inline, and Ray; and what looks after their processes."""
