"""The one door for writing: whose a file is, what is whole, what a name may lead to.

`owned` writes files into a folder and never touches what it did not write; `drafts` has what is not whole yet;
`inside` goes from folder to folder and through no link; `names` makes paths of text; `located` reads YAML, `csv_files`
writes CSV.
"""
