"""Sections that only the reports of some sweeps have."""
