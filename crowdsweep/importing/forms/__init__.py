"""The forms that labels come in, one a file: each reads a file of another tool as plain rows."""
