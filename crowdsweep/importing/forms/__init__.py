"""The forms that files of labels have, one per module: each reads files of another tool as plain rows."""
