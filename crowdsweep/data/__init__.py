"""Annotations, items, gold and splits: containers, what is odd about them, simulated crowds; `on_disk`, their files.

Knows no models.
"""
