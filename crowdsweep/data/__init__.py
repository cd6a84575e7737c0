"""Annotations, items, gold and splits: containers, dataset folders, other formats, simulated crowds.

Knows no models.
"""
