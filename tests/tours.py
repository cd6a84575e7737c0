"""Documents as tours: the files of their blocks are written, their commands run in order."""

import os
import re
import subprocess
from pathlib import Path

from warm import WarmServer

BLOCK = re.compile(r"^```(\w+)?(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_tour(document: str, folder: Path, warm: WarmServer) -> str:
    """Writes the files of a document's blocks and runs its commands, all in one folder; returns what was printed."""
    commands: list[str] = []
    for language, name, text in BLOCK.findall(document):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        elif language == "sh":
            commands.append(text)
    programs = folder.with_name(f"{folder.name}-programs")
    programs.mkdir()
    environment = {**os.environ, "PATH": warm.on_path(programs)}
    environment.pop("CROWDSWEEP_DATA", None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
