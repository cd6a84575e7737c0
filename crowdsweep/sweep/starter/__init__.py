"""The sweep that somebody begins with: models that fit a dataset, each with a reason, and a file that runs them."""
