"""One fit and its scores, in this process: spec, runner, result, events. Knows no Ray, Optuna or MLflow."""
