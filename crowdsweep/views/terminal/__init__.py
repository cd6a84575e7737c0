"""Views of sweeps on a terminal."""
