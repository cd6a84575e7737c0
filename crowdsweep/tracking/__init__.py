"""The MLflow mirror of sweeps, which can be rebuilt from the journal. The only subpackage that imports MLflow."""
