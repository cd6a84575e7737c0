"""Checks and generators for tests, also those of plugins; needs the `dev` extra."""
