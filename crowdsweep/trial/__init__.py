"""Fits trials and scores them, in this process. Uses no Ray, Optuna or MLflow."""
