"""Where the records of sweeps go when nobody says."""

from pathlib import Path

DEFAULT_STORES = Path("crowdsweep-runs")
"""A folder for each sweep, called as the sweep; below the folder that a person stands in."""
