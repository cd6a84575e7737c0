"""Optional sections of a report, which only some sweeps have."""
