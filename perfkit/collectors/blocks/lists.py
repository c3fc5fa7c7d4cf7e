"""Lists of basic blocks as tables: one row each, with its machine code in a column ``hex``."""

import csv
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

from perfkit.base.files import existing, reading
from perfkit.errors import FormatError


def read_blocks(path: str | Path) -> list[str]:
    """Return the machine code of a list of blocks (.csv, also .xz or .gz), in its order, not checked.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        It is damaged, or has no column ``hex``.
    """
    path = existing(path)
    opened: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with reading(path, "a table of blocks"), opened(path, "rb") as file:
        text = file.read().decode("utf-8")
    lines = csv.DictReader(io.StringIO("\n".join(line for line in text.splitlines() if not line.startswith("#"))))
    if "hex" not in (lines.fieldnames or ()):
        raise FormatError(f"{path}: a table with a column hex was expected; found {', '.join(lines.fieldnames or ())}")
    return [(row["hex"] or "").strip() for row in lines]
