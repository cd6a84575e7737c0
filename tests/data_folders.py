"""Dataset folders that tests write."""

GOOD = "item,annotator,label\na,x,yes\nb,y,no\n"


def folder_of(path, **files):
    path.mkdir(exist_ok=True)
    for stem, text in files.items():
        (path / f"{stem}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
