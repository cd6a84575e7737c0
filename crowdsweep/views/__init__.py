"""What people see of a sweep: page, tables, figures, terminal, MLflow.

Each view renders the records of `analysis`. It computes no statistics and reads no other view's files.
"""
