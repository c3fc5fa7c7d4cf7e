"""Linkage stubs (PLT) in files: the code by which a program calls another library's functions, and who calls them."""

from collections.abc import Callable, Iterator

from iced_x86 import Decoder, FlowControl

from perfkit.collectors.tracer.elf import ElfFile, Symbol
from perfkit.trace.system import STUB

_LARGEST = 16  # bytes of a stub, which begins at a multiple of 8
_MOST = 4 << 20  # bytes of code that are searched for callers


def stub(elf: ElfFile, address: int, read: Callable[[int, int], bytes], load_address: int = 0) -> Symbol | None:
    """Return the stub that begins at an address, named ``memcpy@plt``; None where there is none.

    Parameters
    ----------
    elf : ElfFile
        The file that it lies in.
    address : int
        Where it lies, relocated by `load_address`.
    read : callable
        ``read(address, size)`` gives bytes there, or raises OSError.
    load_address : int
        What was added to the file's own addresses.
    """
    try:
        code = read(address, 2 * _LARGEST)
    except OSError:
        return None
    for i in list(Decoder(64, code, ip=address))[:2]:
        if i.flow_control == FlowControl.INDIRECT_BRANCH and i.is_ip_rel_memory_operand:
            place = i.ip_rel_memory_address - load_address
            if place in elf.imports or place in elf.relocated:
                return Symbol(f"{elf.imports.get(place, '?')}{STUB}", address, i.next_ip - address)
        if i.flow_control != FlowControl.NEXT:
            return None
    return None


def stub_at(elf: ElfFile, address: int) -> Symbol | None:
    """Return the stub in a file that an address (before relocation) lies in."""
    if elf.isa != "x86-64":
        return None
    for start in range(address & ~7, max(-1, address - _LARGEST), -8):  # code without a file is at 0
        found = stub(elf, start, elf.code)
        if found is not None and start <= address < start + found.size:
            return found
    return None


def callers(elf: ElfFile, imported: str) -> Iterator[str]:
    """Yield the symbols of a file's functions that call, or jump to, an imported function, the largest first."""
    places = {place for place, name in elf.imports.items() if name == imported}
    if elf.isa != "x86-64" or not places:
        return
    searched = 0
    for symbol in sorted({each.address: each for each in elf.functions.values()}.values(), key=lambda s: -s.size):
        searched += symbol.size
        if searched > _MOST:
            return
        for i in Decoder(64, elf.code(symbol.address, symbol.size), ip=symbol.address):
            if i.is_call_near or i.is_jmp_short_or_near:
                held = stub(elf, i.near_branch_target, elf.code)
                calls = held is not None and held.name == f"{imported}{STUB}"
            else:
                indirect = i.is_call_near_indirect or i.is_jmp_near_indirect
                calls = indirect and i.is_ip_rel_memory_operand and i.ip_rel_memory_address in places
            if calls:
                yield symbol.name
                break
