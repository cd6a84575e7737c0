"""Other people's formats, one file a form, read as plain rows; nothing here knows how a dataset is coded.

`registry` lists the forms, `rows` is what they come in as, `write` makes a dataset folder of it, `spelling` joins what
was meant to be one class or one annotator.
"""
