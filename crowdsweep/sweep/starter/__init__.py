"""The sweep that a newcomer starts with: models that fit a dataset, each with a reason, and a file that runs them."""
