"""A basic block as machine code or as assembly text, whose cycles this machine can tell."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.collectors.host.toolchain import run_tool
from perfkit.errors import DataError, SettingError, UnavailableError
from perfkit.trace.block import BasicBlock, from_hex

if TYPE_CHECKING:
    from perfkit.collectors.blocks.cycles import BlockCycles

_MESSAGE = re.compile(r"^(?:\{standard input\}|<stdin>|[^:]*):(?:\d+:)*\s*(?:Error|error):\s*(.*)$", re.M)


@dataclass(frozen=True, repr=False)
class Block(BasicBlock):
    """A basic block: machine code in hexadecimal digits, or assembly text.

    Parameters
    ----------
    code : bytes or str
        Machine code, its hexadecimal digits, or instructions separated by semicolons or on lines of their own.
    syntax : str
        Of the text: "att", "intel", or "" for AT&T where it has a ``%`` or a ``$``, and Intel elsewhere.

    Raises
    ------
    DataError
        The text does not assemble, names a symbol, or the block cannot be one: see `BasicBlock`.
    UnavailableError
        There is no assembler (Debian's package binutils).

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.Block("4883c008").text
    ('add rax,8',)
    >>> pk.Block("add $8, %rax; imul %rbx, %rax").hex  # doctest: +SKIP
    '4883c008480fafc3'
    """

    syntax: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Assemble what is text."""
        if self.syntax not in ("", "att", "intel"):
            raise SettingError(f"syntax is 'att', 'intel' or '' (by what the text has); found {self.syntax!r}")
        if isinstance(self.code, str):
            object.__setattr__(self, "code", _bytes(self.code, self.syntax))
        super().__post_init__()

    def cycles(self, **options: Any) -> BlockCycles:
        """Measure the cycles of the block's steady state on this machine, looped and unrolled.

        Parameters
        ----------
        **options
            Of `perfkit.measure_blocks`.

        Raises
        ------
        DataError
            The block cannot be measured: what it does, or that its time is not stable.
        UnavailableError
            This machine is no x86-64 Linux, has no C compiler, or no core of it was quiet for long enough.

        Examples
        --------
        >>> import perfkit as pk
        >>> pk.Block("imul rax, rbx").cycles().looped  # doctest: +SKIP
        3.0
        """
        from perfkit.collectors.blocks.cycles import measure_blocks

        found = measure_blocks([self], **options)
        row = found.table.iloc[0]
        if row["looped_reason"] and row["unrolled_reason"]:
            kind = UnavailableError if row["looped_reason"].startswith("busy") else DataError
            raise kind(f"{self!r}: {row['looped_reason']}")
        return found


def _bytes(text: str, syntax: str) -> bytes:
    """Return the machine code of hexadecimal digits or of assembly text."""
    try:
        return from_hex(text)
    except DataError:
        if not text.strip():
            raise DataError("a block is at least one instruction; found an empty text") from None
        return assembled(text, syntax or ("att" if re.search(r"[%$]", text) else "intel"))


def assembled(text: str, syntax: str) -> bytes:
    """Return the machine code of instructions in AT&T or Intel syntax."""
    lines = [line.strip() for line in text.replace(";", "\n").splitlines() if line.strip()]
    for line in lines:
        if re.match(r"\.|[\w.$]+:", line) or "#" in line:
            raise DataError(f"a block is made of instructions only; found {line!r}")
    head = [".text", ".intel_syntax noprefix" if syntax == "intel" else ".att_syntax prefix"]
    with tempfile.TemporaryDirectory(prefix="perfkit-block-") as place:
        out, flat = Path(place) / "block.o", Path(place) / "block.bin"
        done = run_tool(["as", "--64", "-o", str(out), "-"], input="\n".join([*head, *lines, ""]))
        if done.returncode:
            why = _MESSAGE.findall(done.stderr)
            raise DataError(f"this does not assemble in {syntax} syntax: {'; '.join(why[:3]) or done.stderr[-200:]}")
        relocations = run_tool(["objdump", "-r", str(out)]).stdout
        if symbols := re.findall(r"R_X86_64_\w+\s+(\S+)", relocations):
            raise DataError(
                f"the text names what it does not define: {', '.join(sorted(set(symbols))[:3])}; is it in {syntax} syntax?"
            )
        run_tool(["objcopy", "-O", "binary", "-j", ".text", str(out), str(flat)])
        return flat.read_bytes() if flat.exists() else b""

