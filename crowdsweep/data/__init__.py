"""Annotations, items, gold and splits: containers, checks for oddities, simulated crowds, and files (`on_disk`).

This package does not depend on models.
"""
