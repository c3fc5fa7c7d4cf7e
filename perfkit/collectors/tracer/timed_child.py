"""The process that times a function's calls: ``python -m perfkit.collectors.tracer.timed_child FILE``.

Nothing of the function is recorded: its first bytes become a jump to a stub that reads the time stamp counter, runs
the function, and reads it again. Calls within a call are left alone; those in other threads than the first that comes
are left alone, too, and counted.
"""

import ctypes
import mmap
import os
import resource
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

from perfkit.collectors.tracer.child import RWX, Session, say, specified, start_session, unwinds

# Offsets in the context page.
ACTIVE, RETURN, CALLS, POINTER, LIMIT, OTHERS, FS_BASE, SAVED_RAX, SAVED_RDX, SAVED_RCX, SAVED_R11 = range(0, 88, 8)
# Of MXCSR: at the beginning and at the end of the last call, and which flags were set within calls.
ENTERED, MXCSR, MET = range(88, 112, 8)
SAVED_RSP = 112  # of the call that is timed
USAGE, USAGE_SIZE = 128, 144  # struct rusage as the first and as the second call began
FAULTS = 64  # in struct rusage: ru_minflt
_SYS_GETRUSAGE = 98
_NEAR = 8 << 20  # bytes: as large as a stack is
_FLAGS = 0x3F  # of MXCSR: what arithmetic met since they were last cleared
LINKS = 4096  # links of each chain
_ADD, _MULTIPLY = b"\x48\x01\xc8", b"\x48\x0f\xaf\xc1"  # add rax, rcx; imul rax, rcx


def main(argument: str) -> None:
    """Do what the specification says in the file that an argument names; never returns."""
    specification = specified(argument)
    channel = specification["channel"]
    session = start_session(TimedSession, specification, __spec__.name)
    before = session.stamp(), time.perf_counter()
    say(channel, b"C", session.chains())
    ticks, seconds = session.stamp() - before[0], time.perf_counter() - before[1]
    say(channel, b"H", struct.pack("<d", ticks / seconds))
    used = resource.getrusage(resource.RUSAGE_SELF)
    ran, waited = ran_and_waited()
    had = struct.pack("<q2d", used.ru_minflt, used.ru_utime, used.ru_stime)
    say(channel, b"P", had + struct.pack("<2qQd", ran, waited, threading.get_ident(), time.monotonic()))
    session.forget()
    session.run()
    say(channel, b"M", Path("/proc/self/maps").read_bytes())
    say(channel, b"C", session.chains())
    sys.stdout.flush()
    say(channel, b"D")
    os._exit(0)


def ran_and_waited() -> tuple[int, int]:
    """Return for how many nanoseconds this process's first thread ran, and waited for a processor; zeros if unknown."""
    try:
        ran, waited, _ = map(int, Path("/proc/self/schedstat").read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return ran, waited


class TimedSession(Session):
    """What the child holds: the loaded code, and a stub before the function."""

    def build(self) -> None:
        """Make the stub, and patch the function's entry."""
        from iced_x86 import Decoder

        from perfkit.collectors.tracer.accesses import Refused
        from perfkit.collectors.tracer.clone import Region, beginning

        entry = self.entry()
        if entry.size < 5:
            raise Refused(f"{entry.name} is too short to be timed ({entry.size} bytes)")
        region = Region(entry, self.read, lambda _: None)
        code = region.instructions(entry)
        # Populated: a page that the stub touched first would be a fault within the time of a call.
        self.buffer = self.libc.mmap(
            None, self.spec["room"], 3, mmap.MAP_SHARED | mmap.MAP_POPULATE, self.spec["ticks"], 0
        )
        if self.buffer in (None, 2**64 - 1):
            raise OSError(f"cannot map the buffer of times (errno {ctypes.get_errno()})")
        base = self._near(entry.start, 20 * entry.size + 5 * 4096)
        mapped = self.libc.mmap(base, 4096, 3, mmap.MAP_SHARED | 0x10, self.spec["context"], 0)
        if mapped != base:
            raise OSError(f"cannot map the context page (errno {ctypes.get_errno()})")
        # The function itself, at the same place in a page: where code lies changes how fast it is.
        plain = base + 8192 + entry.start % 4096
        stub = base + 4096
        may_unwind = unwinds(self.elf, self.home)
        copied = [] if may_unwind else _to_itself(entry, code, plain)
        self.place(copied or beginning(entry, code), plain)
        self.place(_stub(base, plain), stub)
        if may_unwind:
            self._register(stub, base + RETURN)
        self._set(base)
        list(Decoder(64, self.read(stub, 64), ip=stub))
        self._patch(entry, stub)
        for call in _inner(entry, code):  # where a jump through a table leads from the copy, or none is made
            if call.len != 5 or call.ip < entry.start + 5:
                continue
            if self.libc.mprotect(call.ip & ~0xFFF, 8192, RWX):
                raise OSError(f"cannot make the function's code writable (errno {ctypes.get_errno()})")
            ctypes.memmove(call.ip + 1, struct.pack("<i", plain - call.next_ip), 4)

    def _register(self, stub: int, returns: int) -> None:
        """Tell the unwinder that the stub's caller is at the address that lies in a place: exceptions pass through it.

        It has no frame of its own: the stack pointer is its caller's. But frames are told apart by where they end, so
        that it is said to have eight bytes.
        """
        cie = b"\0\0\0\0\x01\0\x01\x78\x10" + b"\x0c\x07\x08" + bytes(4)  # DW_CFA_def_cfa rsp, 8; nops
        cie = struct.pack("<I", len(cie)) + cie
        fde = struct.pack("<IQQ", len(cie) + 4, stub, 4096)
        fde += b"\x10\x10\x09\x0e" + struct.pack("<Q", returns)  # DW_CFA_expression rip, DW_OP_const8u
        fde += b"\x16\x07\x02\x38\x1c" + bytes(7)  # DW_CFA_val_expression rsp, DW_OP_lit8, DW_OP_minus; nops
        whole = cie + struct.pack("<I", len(fde)) + fde + bytes(4)
        self._frames = ctypes.create_string_buffer(whole)
        try:
            register = getattr(ctypes.CDLL("libgcc_s.so.1"), "__register_frame")
        except (OSError, AttributeError):
            return  # then a call that throws ends the run, and the calls before it are timed
        register.argtypes = [ctypes.c_void_p]
        register(ctypes.addressof(self._frames))

    def _set(self, base: int) -> None:
        values = {POINTER: self.buffer, LIMIT: self.buffer + self.spec["room"] - 8}
        for offset, value in values.items():
            ctypes.c_uint64.from_address(base + offset).value = value

    def run(self) -> None:
        """Run the program or script, without the handlers that recording needs."""
        if self.spec["script"]:
            self._run_script()
        else:
            self._run_program()

    def forget(self) -> None:
        """Clear what arithmetic has met so far, so that the flags after a call are of the program."""
        kept = ctypes.c_uint32()
        store, load = (self._callable(code) for code in (b"\x0f\xae\x1f\xc3", b"\x0f\xae\x17\xc3"))
        store(ctypes.addressof(kept), 0)
        kept.value &= ~_FLAGS
        load(ctypes.addressof(kept), 0)

    def chains(self) -> bytes:
        """Return the ticks of a chain of additions and of one of multiplications, and of two readings in a row."""
        if not hasattr(self, "_chains"):
            self._chains = [self._timed_code(body * LINKS) for body in (_ADD, _MULTIPLY, b"")]
        for _ in range(300):  # the clock rate rises first
            self._chains[1](1, 3)
        least = [min(chain(1, 3) for _ in range(40)) for chain in self._chains]
        return struct.pack("<3q", *least)

    def stamp(self) -> int:
        """Return the time stamp counter."""
        if not hasattr(self, "_stamp"):
            self._stamp = self._callable(b"\x0f\xae\xe8\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")
        return int(self._stamp(0, 0))

    def _timed_code(self, body: bytes) -> Any:
        """Return a function of two numbers that runs some code and returns the ticks that it took."""
        start = b"\x48\x89\xf8\x48\x89\xf1\x0f\xae\xe8\x0f\x31\x0f\xae\xe8\x48\xc1\xe2\x20\x48\x09\xd0\x49\x89\xc0"
        end = b"\x0f\x01\xf9\x0f\xae\xe8\x48\xc1\xe2\x20\x48\x09\xd0\x4c\x29\xc0\xc3"
        return self._callable(start + b"\x48\x89\xf1" + body + end)

    def _callable(self, code: bytes) -> Any:
        """Return a function of two numbers that is this code."""
        size = -(-len(code) // 4096) * 4096
        at = self.libc.mmap(None, size, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        ctypes.memmove(at, code, len(code))
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(at)


def _inner(entry: Any, code: list[Any]) -> list[Any]:
    """Return the calls of a function to itself."""
    return [i for i in code if i.is_call_near and i.near_branch_target == entry.start]


def _to_itself(entry: Any, code: list[Any], plain: int) -> list[Any]:
    """Return a copy of a recursive function that calls itself without the stub; nothing of one that is not.

    The stub would be passed by every inner call, in the time of the outermost one: of a short function, half of it.
    """
    if not _inner(entry, code):
        return []
    copies = [i.copy() for i in code]
    for call in _inner(entry, copies):
        call.near_branch64 = plain
    return copies


def _stub(context: int, plain: int) -> list[Any]:
    """Read the clock, run the function, read the clock again; the return address is exchanged in place.

    All registers are left as they are, also those that a call may change: a compiler that sees the function knows which
    ones it does not, and keeps values in them (gcc's -fipa-ra).
    """
    from iced_x86 import Code, Instruction, MemoryOperand, Register

    from perfkit.collectors.tracer.emit import R11, RAX, RCX, RDX, RIP, RSP, Emitter

    e = Emitter(context)
    untimed, other, back, mine, active, fresh, early, noted = (e.new_label() for _ in range(8))
    own_thread = MemoryOperand(displ=0, displ_size=8, seg=Register.FS)
    e.code(Code.PUSH_R64, R11)
    e.code(Code.MOV_R64_RM64, R11, own_thread)
    e.code(Code.CMP_R64_RM64, R11, e.slot(FS_BASE))
    e.code(Code.POP_R64, R11)
    e.branch(Code.JNE_REL32_64, other)
    e.label(mine)
    e.store(SAVED_R11, R11)
    e.load(R11, ACTIVE)
    e.code(Code.TEST_RM64_R64, R11, R11)
    e.branch(Code.JNE_REL32_64, active)
    e.label(fresh)
    e.load(R11, CALLS)
    e.lea(R11, MemoryOperand(R11, displ=1, displ_size=1))
    e.store(CALLS, R11)
    e.add(Instruction.create_reg_i32(Code.CMP_RM64_IMM8, R11, 2))
    e.branch(Code.JBE_REL32_64, early)
    e.label(noted)
    e.load(R11, POINTER)
    e.code(Code.CMP_R64_RM64, R11, e.slot(LIMIT))
    e.branch(Code.JAE_REL32_64, untimed)
    e.add(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, e.slot(ACTIVE), 1))
    e.store(SAVED_RSP, RSP)
    e.code(Code.MOV_R64_RM64, R11, MemoryOperand(RSP))
    e.store(RETURN, R11)
    e.lea(R11, MemoryOperand(RIP, displ=back, displ_size=8))
    e.code(Code.MOV_RM64_R64, MemoryOperand(RSP), R11)
    e.store(SAVED_RAX, RAX)
    e.store(SAVED_RDX, RDX)
    e.code(Code.STMXCSR_M32, e.slot(ENTERED))
    e.code(Code.LFENCE)
    e.code(Code.RDTSC)
    e.code(Code.LFENCE)
    _combine(e)
    e.load(R11, POINTER)
    e.code(Code.MOV_RM64_R64, MemoryOperand(R11), RAX)
    e.load(RAX, SAVED_RAX)
    e.load(RDX, SAVED_RDX)
    e.load(R11, SAVED_R11)
    e.branch(Code.JMP_REL32_64, plain)
    e.label(back)
    e.store(SAVED_R11, R11)
    _take_time(e)
    e.code(Code.STMXCSR_M32, e.slot(MXCSR))
    e.code(Code.MOV_R32_RM32, Register.EAX, e.slot(ENTERED))
    e.code(Code.NOT_RM32, Register.EAX)
    e.code(Code.AND_R32_RM32, Register.EAX, e.slot(MXCSR))
    e.code(Code.OR_RM32_R32, e.slot(MET), Register.EAX)
    e.add(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, e.slot(ACTIVE), 0))
    e.load(RAX, SAVED_RAX)
    e.load(RDX, SAVED_RDX)
    e.load(RCX, SAVED_RCX)
    e.load(R11, SAVED_R11)
    e.code(Code.JMP_RM64, e.slot(RETURN))
    e.label(other)
    # The first thread that comes is the one whose calls are timed.
    e.code(Code.PUSH_R64, R11)
    e.code(Code.PUSH_R64, RAX)
    e.code(Code.MOV_R64_RM64, R11, own_thread)
    e.code(Code.XOR_R32_RM32, Register.EAX, Register.EAX)
    e.locked(Code.CMPXCHG_RM64_R64, e.slot(FS_BASE), R11)
    e.code(Code.POP_R64, RAX)
    e.code(Code.POP_R64, R11)
    e.branch(Code.JE_REL32_64, mine)
    e.locked(Code.INC_RM64, e.slot(OTHERS))
    e.branch(Code.JMP_REL32_64, plain)
    # Within a timed call, also one that waits on another stack, our return address still stands where it was put. Where
    # an exception or longjmp left the call, something else does as soon as that place is used: by the next call from
    # there, at the latest. Of a stack far from this one nothing is read: it may be gone.
    e.label(active)
    e.code(Code.MOV_R64_RM64, R11, RSP)
    e.code(Code.SUB_R64_RM64, R11, e.slot(SAVED_RSP))
    e.add(Instruction.create_reg_i32(Code.ADD_RM64_IMM32, R11, _NEAR))
    e.add(Instruction.create_reg_i32(Code.CMP_RM64_IMM32, R11, 2 * _NEAR))
    e.branch(Code.JAE_REL32_64, untimed)
    e.store(SAVED_RAX, RAX)
    e.load(RAX, SAVED_RSP)
    e.lea(R11, MemoryOperand(RIP, displ=back, displ_size=8))
    e.code(Code.CMP_RM64_R64, MemoryOperand(RAX), R11)
    e.load(RAX, SAVED_RAX)
    e.branch(Code.JE_REL32_64, untimed)
    _take_time(e)
    e.add(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, e.slot(ACTIVE), 0))
    e.load(RAX, SAVED_RAX)
    e.load(RDX, SAVED_RDX)
    e.load(RCX, SAVED_RCX)
    e.branch(Code.JMP_REL32_64, fresh)
    e.label(untimed)
    e.load(R11, SAVED_R11)
    e.branch(Code.JMP_REL32_64, plain)
    e.label(early)
    _note_usage(e, context)
    e.branch(Code.JMP_REL32_64, noted)
    return e.out


def _note_usage(e: Any, context: int) -> None:
    """Ask the system what the process has used so far; r11, the number of the call, is free behind it."""
    from iced_x86 import Code, Instruction, Register

    from perfkit.collectors.tracer.emit import R11, RAX, RCX, Immediate

    saved = (RAX, RCX, Register.RDI, Register.RSI)
    for register in saved:
        e.code(Code.PUSH_R64, register)
    e.constant(RAX, context + USAGE - USAGE_SIZE)
    e.add(Instruction.create_reg_reg_i32(Code.IMUL_R64_RM64_IMM32, Register.RSI, R11, USAGE_SIZE))
    e.code(Code.ADD_R64_RM64, Register.RSI, RAX)
    e.code(Code.XOR_R32_RM32, Register.EDI, Register.EDI)  # of the whole process
    e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(_SYS_GETRUSAGE))
    e.code(Code.SYSCALL)
    for register in reversed(saved):
        e.code(Code.POP_R64, register)


def _take_time(e: Any) -> None:
    """Read the clock and note what has passed since the call began; what this changes is saved before."""
    from iced_x86 import Code, MemoryOperand

    from perfkit.collectors.tracer.emit import R11, RAX, RCX, RDX

    e.store(SAVED_RAX, RAX)
    e.store(SAVED_RDX, RDX)
    e.store(SAVED_RCX, RCX)
    e.code(Code.RDTSCP)
    e.code(Code.LFENCE)
    _combine(e)
    e.load(R11, POINTER)
    e.code(Code.SUB_R64_RM64, RAX, MemoryOperand(R11))
    e.code(Code.MOV_RM64_R64, MemoryOperand(R11), RAX)
    e.lea(R11, MemoryOperand(R11, displ=8, displ_size=1))
    e.store(POINTER, R11)


def _combine(e: Any) -> None:
    """Put the two halves of the time stamp counter into rax."""
    from iced_x86 import Code, Instruction

    from perfkit.collectors.tracer.emit import RAX, RDX

    e.add(Instruction.create_reg_i32(Code.SHL_RM64_IMM8, RDX, 32))
    e.code(Code.OR_RM64_R64, RAX, RDX)


if __name__ == "__main__":
    main(sys.argv[1])
