"""The mirror in MLflow, rebuilt from the journal whenever it is lost. The only room that knows MLflow."""
