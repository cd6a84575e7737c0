"""Checks whether a sweep would run here, and what is missing for what; one module for each kind of check."""
