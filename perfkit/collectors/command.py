"""Running a user's command under a tool that counts: what the collectors that do so share."""

import shlex
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfkit.errors import PerfkitWarning, SettingError


def words_of(command: Sequence[str]) -> list[str]:
    """Return a command as a list of words; a text, which a shell would have to take apart, is refused."""
    if isinstance(command, str) or not command:
        raise SettingError("command is a list: the program and its arguments, as ['./stencil', '1000']")
    return [str(word) for word in command]


def run_quietly(
    words: Sequence[str], cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command whose output is discarded; what it says of errors is kept."""
    return subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        check=False,
    )  # fmt: skip


def warn_of_status(command: Sequence[str], status: int) -> None:
    """Warn of a command that ended with an error but was counted; the warning points at the caller's caller."""
    if status:
        warnings.warn(
            f"{shlex.join(command)} ended with status {status}; its counts are kept", PerfkitWarning, stacklevel=4
        )
