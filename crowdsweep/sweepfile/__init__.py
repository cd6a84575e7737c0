"""A sweep file, read and checked, and the records that it becomes. Loads no data, runs nothing."""
