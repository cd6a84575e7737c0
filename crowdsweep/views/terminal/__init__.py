"""A sweep on a terminal."""
