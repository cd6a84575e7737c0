"""A dataset's folder about pets, and answers that may be added to it."""

from pathlib import Path

from data_folders import folder_of

FIRST = "item,annotator,label\np1,ann,cat\np1,bob,dog\np2,ann,dog\np2,bob,dog\n"
MORE = "item,annotator,label,gold\np2,cleo,cat,dog\np1,ann,cat,\np3,ann,dog,\n"


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def pets_folder(place: Path) -> Path:
    """Makes the folder, with gold, names of classes and a file of a person's own."""
    folder = folder_of(
        place, annotations=FIRST, items="item,gold\np1,cat\np2,\n", classes="label,name\ncat,Cat\ndog,Dog\n"
    )
    (folder / "notes.txt").write_text("mine")
    return folder
