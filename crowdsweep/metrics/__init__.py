"""Metrics and statistics of results: functions of arrays, and the table of their names. Know no models."""
