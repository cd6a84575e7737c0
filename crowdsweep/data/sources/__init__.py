"""Datasets that need no folder: made or loaded by code, one per file. They do not depend on models."""
