"""Hyper-parameter sweeps for models that learn from crowd annotations."""
