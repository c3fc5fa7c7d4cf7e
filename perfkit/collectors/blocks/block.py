"""A basic block as machine code or as assembly text, whose cycles this machine can tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfkit.collectors.blocks.assembled import code_of
from perfkit.collectors.blocks.cycles import BlockCycles, measure_blocks
from perfkit.errors import DataError, SettingError, UnavailableError
from perfkit.trace.block import BasicBlock
from perfkit.trace.block_trace import TURNS, block_trace

if TYPE_CHECKING:
    from perfkit.trace.trace import Trace


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
    if TYPE_CHECKING:

        def __init__(self, code: bytes | str, syntax: str = "") -> None: ...

    def __post_init__(self) -> None:
        """Assemble what is text."""
        if self.syntax not in ("", "att", "intel"):
            raise SettingError(f"syntax is 'att', 'intel' or '' (by what the text has); found {self.syntax!r}")
        if isinstance(self.code, str):
            object.__setattr__(self, "code", code_of(self.code, self.syntax))
        super().__post_init__()

    def trace(self, turns: int = TURNS) -> Trace:
        """Return the trace of a loop around the block, generated and not recorded: `perfkit.trace.block_trace`.

        Parameters
        ----------
        turns
            How often the loop goes around.

        Examples
        --------
        >>> import perfkit as pk
        >>> pk.Block("4883c008").trace(10).instruction_count
        30
        """
        return block_trace(self, turns)

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
        found = measure_blocks([self], **options)
        row = found.table.iloc[0]
        if row["looped_reason"] and row["unrolled_reason"]:
            kind = UnavailableError if row["looped_reason"].startswith("busy") else DataError
            raise kind(f"{self!r}: {row['looped_reason']}")
        return found
