"""A sweep as MLflow shows it."""
