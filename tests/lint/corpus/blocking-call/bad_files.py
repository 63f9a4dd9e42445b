"""Files are read and written by the disk's clock."""

import json
from pathlib import Path


async def load(path: Path, other):
    with open(path) as file:  # BAD
        text = file.read()
    with path.open() as file:  # BAD
        text += file.read()
    other.write_text(text)  # BAD
    return json.loads(other.read_text())  # BAD
