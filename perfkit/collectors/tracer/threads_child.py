"""The process that runs code of which every thread is recorded: ``... .threads_child FILE``."""

import ctypes
import mmap
import sys
from typing import Any

from perfkit.collectors.tracer import child

_SYS_ARCH_PRCTL, _ARCH_SET_GS = 158, 0x1001


class ThreadsSession(child.Session):
    """What the child holds: the loaded code, one clone of it, and buffers for each thread that may come."""

    def __init__(self, libc: Any, specification: dict[str, Any]) -> None:
        super().__init__(libc, specification)
        self.pages = 1 + len(specification["buffers"])

    def bodies(self, entry: Any) -> list[Any]:
        """Return the bodies of the entry's parallel loops: what its code names, and what theirs does.

        Where the function itself is gone, inlined into another, these are what was asked for.
        """
        from perfkit.collectors.tracer.clone import Function, Region
        from perfkit.collectors.tracer.elf import is_loop

        if self.spec["loops"]:
            symbols = [self.home.functions[name] for name in self.spec["loops"]]
            return [Function(s.name, s.address + self.home_address, s.size) for s in symbols]
        named = {
            symbol.address + self.home_address: symbol
            for symbol in self.home.functions.values()
            if is_loop(symbol.name)
        }
        found: list[Any] = []
        pending = [entry]
        while pending and named:
            function = pending.pop()
            for i in Region(function, self.read, lambda _: None).instructions(function):
                symbol = named.get(i.ip_rel_memory_address) if i.is_ip_rel_memory_operand else None
                if symbol is not None:
                    body = Function(symbol.name, symbol.address + self.home_address, symbol.size)
                    if body not in (entry, *found):
                        found.append(body)
                        pending.append(body)
        return found

    def describe(self) -> dict[str, Any]:
        """Everything static that the parent needs."""
        more = {"bodies": [each.name for each in self.region.bodies]}
        return super().describe() | more | {"call_buffers": [each["calls"][0] for each in self.buffers]}

    def _set_context(self) -> None:
        from perfkit.collectors.tracer import emit

        for number, (buffers, handles) in enumerate(zip(self.buffers, self.spec["buffers"], strict=True)):
            page = self.context + 4096 * (number + 1)
            size = self.spec["calls_size"]
            calls = self.libc.mmap(None, size, 3, mmap.MAP_SHARED, handles["calls"], 0)
            if calls in (None, 2**64 - 1):
                raise OSError(f"cannot map the log of calls (errno {ctypes.get_errno()})")
            more = {emit.SELF: page, emit.CALL_POINTER: calls, emit.CALL_END: calls + size}
            buffers["calls"] = [calls, size]
            self._fill_page(page, buffers, more)
        # Until they come to the region all threads are at the shared page, which is nobody's.
        if self.libc.syscall(_SYS_ARCH_PRCTL, _ARCH_SET_GS, ctypes.c_void_p(self.context)):
            raise OSError(f"this system does not let a program set its gs register (errno {ctypes.get_errno()})")


if __name__ == "__main__":
    child.main(sys.argv[1], ThreadsSession, __spec__.name)
