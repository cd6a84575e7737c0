"""Labels from other people's files: which form a file has, which column is what, and a dataset folder made of them.

`forms` reads each form as plain rows (`rows`), `registry` lists them, `guess` tells which one a file is, and `write`
makes a folder. Nothing here knows how a dataset is coded.
"""
