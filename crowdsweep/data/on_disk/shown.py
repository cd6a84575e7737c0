"""Reads and writes `shown.jsonl` beside a dataset: the items as another tool showed them to annotators.

    {"item": "100", "id": 100, "data": {"review": "It broke", "image": "/data/upload/1/0.png"}}

No model reads this file. It goes back to the tool with the labels, since the tool's project shows items by these keys.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crowdsweep.data.on_disk.json_text import objects, part
from crowdsweep.data.on_disk.updates import current_path
from crowdsweep.errors import DataError
from crowdsweep.paths import is_file

SHOWN_FILE = "shown.jsonl"
_LINK = re.compile(
    r"(https?|s3|gs|azure-blob|data|file):\S*|/?\S+\.(png|jpe?g|gif|webp|bmp|tiff?|svg|mp[34]|wav|flac|ogg|pdf)"
)


def text_in(data: Mapping[str, Any]) -> str | None:
    """Returns the value of the key `text`, else the only text in the data that is no link or file name, else None."""
    if isinstance(data.get("text"), str):
        return data["text"]
    texts = [value for value in data.values() if isinstance(value, str) and not _LINK.fullmatch(value.strip().lower())]
    return texts[0] if len(texts) == 1 else None


def write_shown(path: Path, items: Iterable[str], shown: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes a line for each of the items that `shown` has data of."""
    with path.open("w", encoding="utf-8") as file:
        for item in items:
            if item in shown:
                file.write(json.dumps({"item": item, **shown[item]}) + "\n")


def read_shown(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns, by item, the `data` that `write_shown` wrote into a folder, and the `id` if the tool had one.

    Without the file, the result is empty.

    Raises:
        DataError: the file is not as `write_shown` wrote it.
    """
    path = current_path(folder, SHOWN_FILE)
    if not is_file(path):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for position, record in objects(path):
        item, where = record.get("item"), f"{path}, entry {position}"
        if not isinstance(item, str):
            raise DataError(f"{where}, item: expected an item id as a text; write it as in the other files")
        found[item] = {**record, "data": part(record.get("data"), dict, f"{where}, data")}
    return found
