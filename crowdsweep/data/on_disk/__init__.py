"""Datasets as files: bounded reading of files, tables and JSON, and the folder of a dataset."""
