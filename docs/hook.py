"""What MkDocs calls while it builds the site (`mkdocs.yml`): pages get what they include, and those that are made of
docstrings are made."""

from typing import Any

import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from rooms import NotThere, Rooms


def on_config(config: MkDocsConfig) -> None:
    """Gives each model its place in the navigation, below `Models`."""
    for part in config.nav or []:
        for entry in part.get("Reference", []):
            if isinstance(entry, dict) and "Models" in entry:
                _append(entry["Models"], reference.model_navigation())


def _append(entries: list[Any], more: list[Any]) -> None:
    entries.extend(entry for entry in more if entry not in entries)  # `mkdocs serve` asks again


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts together what stands on each page."""
    written = {file.src_uri: file.content_string for file in files.documentation_pages()}
    rooms = Rooms(root=reference.ROOT, pages=written, named=reference.explained())
    try:
        for page in written:
            _put(files, File.generated(config, page, content=reference.generated(rooms.expanded(page))))
        for address, picture in rooms.pictures().items():
            _put(files, File.generated(config, address, abs_src_path=str(picture)))
    except NotThere as error:
        raise PluginError(str(error)) from None
    for page, text in reference.model_pages().items():
        _put(files, File.generated(config, page, content=text))
    return files


def _put(files: Files, file: File) -> None:
    if (old := files.get_file_from_path(file.src_uri)) is not None:
        files.remove(old)
    files.append(file)
