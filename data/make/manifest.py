"""Describe data sets in the manifest of their folder; the scripts beside this one call it."""

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def describe(
    folder: Path, entries: Mapping[str, Mapping[str, str]], script: str, order: Callable[[str], Any] | None = None
) -> None:
    """Put entries into a folder's manifest, with their files' hashes; those of other data sets stay as they are.

    ``order`` sorts the names of the data sets; by default they are sorted by name.
    """
    manifest = folder / "manifest.toml"
    known = tomllib.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    for name, about in entries.items():
        first = {"file": about["file"], "sha256": hashlib.sha256((folder / about["file"]).read_bytes()).hexdigest()}
        known[name] = {**first, **about, "made_by": script}
    text = f"# Made by {script}; do not edit by hand.\n"
    for name in sorted(known, key=order):
        about = known[name].items()
        text += f'\n["{name}"]\n' + "".join(f"{k} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in about)
    manifest.write_text(text, encoding="utf-8")
