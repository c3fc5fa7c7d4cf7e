"""Where a study's rows come from: the metadata of its folder, and what must not change while it is gone on with."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit.base.files import WRITER
from perfkit.collectors.host import toolchain
from perfkit.collectors.host.machine_state import MachineState, now
from perfkit.collectors.microbenchmark.files_read import ENVIRONMENT, hash_of
from perfkit.errors import FormatError, PerfkitWarning, SettingError, UnavailableError
from perfkit.study.study import Study, split_compiler

_MISSING = "missing: "


def metadata_of(study: Study, state: MachineState) -> dict[str, Any]:
    """Describe a study that is measured on this machine."""
    versions = {}
    for text in study.compilers:
        name = split_compiler(text, study.folder)[0]
        try:
            versions[name] = toolchain.version(name) + _edition(name)
        except UnavailableError as error:
            versions[name] = f"{_MISSING}{error}"
    return {
        "study": study.name, "fingerprint": study.fingerprint(), "kind": "measured", "date": now(),
        "perfkit": WRITER, "compilers": versions, "machine": json.loads(json.dumps(state.to_dict())),
        "policy": study.policy.model_dump(), "cache": study.cache, "files": {}, "own": {}, "written": [],
        "host": dict(study.host), "executions": study.executions,
        "environment": {name: os.environ.get(name, "") for name in ENVIRONMENT},
    }  # fmt: skip


def _edition(compiler: str) -> str:
    """Return a hash of a compiler that is named by its path: a script around another has that one's version."""
    return f" ({hash_of(compiler)[:12]})" if "/" in compiler else ""


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read a study folder's metadata; {} if there is none.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    path = folder / "metadata.json"
    if not path.exists():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _ = (found["machine"]["processor"], found["compilers"].keys())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{path} is damaged ({type(error).__name__}: {error}): it says which machine and compilers the rows come "
            "from; put it back from a copy, or name another folder"
        ) from None
    return found


def check_origin(folder: Path, metadata: dict[str, Any], here: bool = True) -> None:
    """Refuse to go on with a study of another kind of machine, compiler or header; say what else has changed.

    On a cluster (not `here`) the machine that asks is not the one that measures: every row names its own.

    Raises
    ------
    SettingError
        If the rows would not compare.
    """
    before = read_metadata(folder)
    if not before:
        return
    machine, now_on = before["machine"], metadata["machine"]
    for name in ("processor", "family", "model", "stepping") if here else ():
        if machine.get(name) != now_on[name]:
            raise SettingError(
                f"{folder} was measured on {machine['processor']!r}, this is {now_on['processor']!r}: name another "
                "folder"
            )
    for name in set(before["compilers"]) & set(metadata["compilers"]):
        was = before["compilers"][name]
        if was != metadata["compilers"][name] and not was.startswith(_MISSING):
            raise SettingError(f"{folder} was measured with {was!r}: name another folder")
    if before.get("host") and metadata["host"] and before["host"] != metadata["host"]:
        raise SettingError(
            f"{folder} was measured where {before['host']} held, here {metadata['host']} does: name another folder"
        )
    for name, value in metadata["environment"].items() if here else ():
        if before.get("environment", {}).get(name, value) != value:
            raise SettingError(
                f"{folder} was measured where {name} was {before['environment'][name]!r}, here it is {value!r}: "
                "compilers look for headers or libraries there; set it as it was, or name another folder"
            )
    files = before.get("files", {})  # of a cluster they may lie where the workers are
    own = before.get("own", {})  # of a cluster they are the workers'
    check_files(folder, files | own if here else {path: known for path, known in files.items() if Path(path).exists()})
    metadata["files"], metadata["own"], metadata["written"] = files, own, before.get("written", [])
    for name in ("host", "kernel", "hypervisor", "governors", "turbo", "smt") if here else ():
        if machine.get(name) != now_on[name]:
            warnings.warn(
                f"the machine's {name} was {machine.get(name)!r} when {folder} was begun and is {now_on[name]!r} now: "
                "rows of before and after stand in one table",
                PerfkitWarning,
                stacklevel=4,
            )


def check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Refuse to mix rows of before and after a change of a header, source file, library or a program's input."""
    for path, known in files.items():
        if hash_of(path) != known:
            if not known:
                raise SettingError(
                    f"{path} was not there when rows of {folder} were measured, and comes before the file of that name "
                    "that they were made of: take it away, or name another folder"
                )
            gone = "" if Path(path).is_file() else " (it is gone)"
            raise SettingError(
                f"the header, source, library or input {path} has changed{gone} since rows of {folder} were measured: "
                "put it back, or name another folder"
            )
