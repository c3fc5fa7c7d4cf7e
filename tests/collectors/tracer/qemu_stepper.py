"""Single-stepping under QEMU by gdb's remote protocol: what a function must have executed and touched.

This shares nothing with the plugin: registers come from QEMU's gdb server, addresses are computed here, from decoded
AArch64 instructions, or from objdump's text of RISC-V loads and stores.
"""

import re
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.trace.aarch64 import decode_one

_RISCV_NAMES = ["zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{k}" for k in range(8)),
                *(f"s{k}" for k in range(2, 12)), "t3", "t4", "t5", "t6"]  # fmt: skip
_RISCV_SIZES = {"b": 1, "h": 2, "w": 4, "d": 8}
# An operand: address, bytes, whether it is loaded, whether it is stored.
Access = tuple[int, int, bool, bool]


@dataclass
class Truth:
    """What single-stepping saw in the function itself (not in what it calls), and what changed meanwhile.

    `bias` is where the program was loaded, less where its file says. `changed` has, for every program counter, the
    integer registers (and 64, the flags) that ever changed.
    """

    pcs: list[int]
    accesses: list[Access]
    changed: dict[int, set[int]]
    bias: int


class Server:
    """QEMU waiting for a debugger, on a socket in a folder."""

    def __init__(self, command: list[str], folder: Path) -> None:
        place = folder / "gdb"
        self.process = subprocess.Popen([command[0], "-g", str(place), *command[1:]], stdout=subprocess.DEVNULL)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        deadline = time.monotonic() + 20
        while True:
            try:
                self.socket.connect(str(place))
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
        self.buffer = b""

    def ask(self, text: str) -> str:
        data = text.encode()
        self.socket.sendall(b"$" + data + b"#%02x" % (sum(data) & 255))
        while True:
            start, end = self.buffer.find(b"$"), self.buffer.find(b"#")
            if 0 <= start < end and len(self.buffer) >= end + 3:
                answer, self.buffer = self.buffer[start + 1 : end], self.buffer[end + 3 :]
                self.socket.sendall(b"+")
                return answer.decode()
            more = self.socket.recv(65536)
            if not more:
                raise EOFError(f"QEMU ended after {text!r}")
            self.buffer += more

    def registers(self, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{count}Q", bytes.fromhex(self.ask("g")[: 16 * count + 8]))

    def close(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


def single_step(command: list[str], program: Path, function: str, folder: Path, limit: int = 100_000) -> Truth:
    """Run the first call of a function of a program, instruction by instruction."""
    elf = ElfFile(program)
    symbol = elf.function(function)
    arm = elf.isa == "aarch64"
    back, stack, at = (30, 31, 32) if arm else (1, 2, 32)
    server = Server(command, folder)
    try:
        bias = int(re.match(r"Text=([0-9a-f]+)", server.ask("qOffsets"))[1], 16) if elf.is_dynamic else 0
        start = symbol.address + bias
        inside = range(start, start + symbol.size)
        operands = _Aarch64(elf, bias) if arm else _RiscV(program, function, bias)
        assert server.ask(f"Z0,{start:x},{4 if arm else 2}") == "OK"
        server.ask("c")
        assert server.ask(f"z0,{start:x},{4 if arm else 2}") == "OK"
        values = server.registers(33)
        home, top = values[back], values[stack]
        truth = Truth([], [], {}, bias)
        flags = 0
        for _ in range(limit):
            pc = values[at]
            if pc == home and values[stack] >= top:
                return truth
            if pc in inside:
                truth.pcs.append(pc)
                truth.accesses += operands.accesses(pc, values)
            server.ask("s")
            text = server.ask("g")
            before, values = values, struct.unpack_from("<33Q", bytes.fromhex(text[: 16 * 33]))
            old, flags = flags, int.from_bytes(bytes.fromhex(text[16 * 33 : 16 * 33 + 8]), "little") >> 28
            if pc in inside:
                changed = truth.changed.setdefault(pc, set())
                changed |= {r for r in range(32) if before[r] != values[r]}
                if arm and old != flags and len(truth.pcs) > 1:
                    changed.add(64)
        raise AssertionError(f"{function} ran for more than {limit} instructions")
    finally:
        server.close()


class _Aarch64:
    def __init__(self, elf: ElfFile, bias: int) -> None:
        self.elf, self.bias = elf, bias
        self.known: dict[int, object] = {}

    def accesses(self, pc: int, values: tuple[int, ...]) -> list[Access]:
        if pc not in self.known:
            at = pc - self.bias
            segment = next(s for s in self.elf.segments if s.kind == 1 and s.address <= at < s.address + s.file_size)
            place = at - segment.address + segment.offset
            self.known[pc] = decode_one(self.elf.data[place : place + 4], pc)
        return [(m.address(values), m.size, m.read, m.write) for m in self.known[pc].memory]


class _RiscV:
    """Loads and stores have one address form: a register and a displacement; objdump knows the instructions."""

    def __init__(self, program: Path, function: str, bias: int) -> None:
        command = ["riscv64-linux-gnu-objdump", f"--disassemble={function}", "-Mno-aliases", program]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.known: dict[int, tuple[int, int, int, bool, bool]] = {}
        for line in text.splitlines():
            match = re.match(r"\s*([0-9a-f]+):\s+[0-9a-f]+\s+(\S+)\s+.*?(-?\d+)?\((\w+)\)", line)
            if match is None or "jalr" in match[2]:
                continue
            name = match[2].removeprefix("c.")
            plain = re.fullmatch(r"(l|s|fl|fs)([bhwd])u?(sp)?", name)
            atomic = re.fullmatch(r"(lr|sc|amo\w+)\.([wd])(\.\w+)?", name)
            assert plain or atomic, line
            loads = plain[1] in ("l", "fl") if plain else atomic[1] != "sc"
            stores = plain[1] in ("s", "fs") if plain else atomic[1] != "lr"
            size = _RISCV_SIZES[(plain or atomic)[2]]
            self.known[int(match[1], 16) + bias] = (
                _RISCV_NAMES.index(match[4]),
                int(match[3] or 0),
                size,
                loads,
                stores,
            )

    def accesses(self, pc: int, values: tuple[int, ...]) -> list[Access]:
        if pc not in self.known:
            return []
        base, displacement, size, loads, stores = self.known[pc]
        return [((values[base] + displacement) % 2**64, size, loads, stores)]
