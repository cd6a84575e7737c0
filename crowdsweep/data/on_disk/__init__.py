"""Datasets as files: the doors that files come in through, tables and JSON, and the folder of a dataset."""
