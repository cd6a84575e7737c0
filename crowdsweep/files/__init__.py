"""Safe file access: atomic writes, file ownership, and paths that follow no links.

`owned` replaces crowdsweep's files in a folder and never touches other files. `drafts` holds files that are still
incomplete. `inside` opens nested folders without following links. `names` turns text into safe paths. `located` reads
YAML and `csv_files` writes CSV.
"""
