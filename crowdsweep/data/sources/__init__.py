"""Datasets that need no folder: made or loaded by code, one a file. They know no models."""
