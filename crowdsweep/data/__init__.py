"""Annotations, items, gold and splits: containers, checks for oddities, simulated crowds; `on_disk`, their files.

Knows no models.
"""
