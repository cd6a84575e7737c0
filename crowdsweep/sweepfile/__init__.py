"""Reads and checks sweep files, and defines the records that they become. Loads no data, runs nothing."""
