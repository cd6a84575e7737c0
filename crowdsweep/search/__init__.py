"""Spaces of hyper-parameters, and what proposes points in them. Knows no data and runs nothing."""
