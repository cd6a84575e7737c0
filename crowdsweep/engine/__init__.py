"""Executors, which run batches of trials (their contract, the inline one and the one on Ray), and their processes."""
