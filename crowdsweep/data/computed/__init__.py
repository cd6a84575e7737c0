"""Computes features of items from their texts (`tfidf`, `sentences`) or images (`images`) in a dataset's folder."""
