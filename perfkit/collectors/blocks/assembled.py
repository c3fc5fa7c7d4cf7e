"""From the text of a basic block to its machine code: hexadecimal digits, or assembly in AT&T or Intel syntax."""

import re
import tempfile
from pathlib import Path

from perfkit.collectors.host.toolchain import run_tool
from perfkit.errors import DataError
from perfkit.trace.block import from_hex

_MESSAGE = re.compile(r"^(?:\{standard input\}|<stdin>|[^:]*):(?:\d+:)*\s*(?:Error|error):\s*(.*)$", re.M)


def code_of(text: str, syntax: str = "") -> bytes:
    """Return the machine code of hexadecimal digits or of assembly text.

    Parameters
    ----------
    text : str
        Digits, or instructions separated by semicolons or on lines of their own.
    syntax : str
        "att", "intel", or "" for AT&T where the text has a ``%`` or a ``$``, and Intel elsewhere.

    Raises
    ------
    DataError
        The text does not assemble, or names a symbol.
    UnavailableError
        There is no assembler (Debian's package binutils).
    """
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
                f"the text names what it does not define: {', '.join(sorted(set(symbols))[:3])}; "
                f"is it in {syntax} syntax?"
            )
        run_tool(["objcopy", "-O", "binary", "-j", ".text", str(out), str(flat)])
        return flat.read_bytes() if flat.exists() else b""
