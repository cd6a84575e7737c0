"""What stands in the report for some sweeps only."""
