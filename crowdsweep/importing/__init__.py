"""Imports labels from other people's files: finds a file's form and the roles of its columns, writes a dataset folder.

`forms` reads each form as plain rows (`rows`), `registry` lists the forms, `guess` guesses the form of a file, and
`write` writes the dataset folder. Nothing here depends on how a dataset is coded.
"""
