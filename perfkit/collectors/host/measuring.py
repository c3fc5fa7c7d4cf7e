"""Time compiled kernels in processes of their own: pinned, apart from the caller, each with the code elsewhere."""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import module_path
from perfkit.collectors.host.cycle_clock import judge, link_cycles
from perfkit.collectors.tracer.copied import functions_before, load_mode
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import DataError, SettingError, UnavailableError

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

_Calls = TypeVar("_Calls", int, list[int])
CLOCK = files("perfkit.collectors.host") / "clock.h"
"""The clock for C programs: its first lines say how to use it."""
SHORTEST = 20_000
"""Cycles of a kernel below which several calls are timed as one."""
_TRIALS = 4  # at most, that say how many calls make a sample; the last has enough of them for the counter's steps
_INTEGERS, _FLOATS = 6, 8  # argument registers
_LINE = 64  # bytes
_SAID = 77  # exit status of a process that says why it ended
TOO_LONG = "takes too long: "
"""What a measuring process says, with what is behind it, that sees beforehand that it will not be done in time."""
_LIMITS = "A kernel that lowers the limits of its process (setrlimit) lowers them for what measures it, too"
_FORKS = (
    "the kernel forks and leaves its processes to themselves, which would run beside what is measured: have it wait "
    "for them"
)
_PAGES = 1 << 17  # of half a GiB, by up to which processes' memory is mapped elsewhere
_ALLOCATIONS, _ALLOCATED = 200, 2048
_STACK = 1 << 14  # times 16 bytes by which the stack lies lower, at most
_TRIES = 9  # to find the cycles of a multiplication
_PRELOAD = "LD_PRELOAD"
_FENCE_CALLS = 100  # calls that a fence is known from


@dataclass(frozen=True)
class Callee:
    """A kernel, loaded in this process, as timer.c calls it.

    Parameters
    ----------
    function, setup
        Its addresses; no setup is None.
    integers, floats
        What goes to the argument registers of either kind.
    arrays
        What the integers point to.
    """

    function: Any
    setup: Any
    integers: Any
    floats: Any
    arrays: tuple[NDArray[np.uint8], ...]


def described(kernel: "Kernel", arguments: tuple[Any, ...], folder: Path) -> list[list[Any]]:
    """Return a kernel's arguments as JSON holds them; arrays go to files in `folder`.

    Raises
    ------
    SettingError
        If there are more than fit the registers, or one does not fit the kernel's parameter.
    """
    from perfkit.collectors.tracer.arguments import described_arguments

    found = []
    for number, (kind, what) in enumerate(described_arguments(kernel, arguments)):
        if kind == "array":
            path = folder / f"argument{number}.npy"
            np.save(path, what, allow_pickle=False)
            what = str(path)
        found.append([kind, what])
    floats = sum(kind in ("double", "float") for kind, _ in found)
    if floats > _FLOATS or len(found) - floats > _INTEGERS:
        raise SettingError(
            f"a timed kernel takes at most {_INTEGERS} integers and arrays and {_FLOATS} floating-point numbers; "
            f"found {len(found) - floats} and {floats}"
        )
    return found


def build_timer(folder: Path, source: Path | None = None) -> Path:
    """Compile timer.c, or a file that includes it, in `folder`; timer.c itself once: that takes as long as a figure."""
    timer = folder / "timer.so"
    if source is not None:
        _compile_timer(timer, source)
    else:
        timer.write_bytes(_compiled_timer())
    return timer


@cache
def _compiled_timer() -> bytes:
    with tempfile.TemporaryDirectory(prefix="perfkit-timer-") as folder:
        _compile_timer(Path(folder) / "timer.so", None)
        return (Path(folder) / "timer.so").read_bytes()


def _compile_timer(timer: Path, source: Path | None) -> None:
    with as_file(files("perfkit.collectors.host") / "timer.c") as own, as_file(CLOCK) as header:
        include = [f"-I{own.parent}", f"-I{header.parent}"]
        # What is injected into programs leaves their functions alone.
        preloaded = [] if source else ["-DPERFKIT_PRELOADED"]
        command = ["gcc", "-O2", "-shared", "-fPIC", *preloaded, *include, "-o", str(timer), str(source or own)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UnavailableError("timing needs a C compiler (Debian's package gcc)") from None
    if done.returncode:
        raise UnavailableError(f"the timer does not compile: {done.stderr[:1000]}")


def in_measuring_process(task: str, specification: dict[str, Any], timeout: float) -> dict[str, NDArray[Any]]:
    """Run `task` (module:function) in a process of its own, and return the arrays that it saved in its "output".

    A process of its own, because it is pinned, and a crash of the kernel is not the caller's. The timer is loaded
    before all else in it, and keeps numpy's libraries from making `printf` slower.

    Raises
    ------
    DataError
        If the kernel crashed or did not end in time.
    """
    module, _, function = task.partition(":")
    command = [sys.executable, "-P", "-c", f"from {module} import {function}; import sys; {function}(sys.argv[1])"]
    # By its descriptor, as the dynamic linker takes a space or a colon in a path for the end of it.
    timer = os.open(specification["timer"], os.O_RDONLY)
    preloaded = [f"/proc/self/fd/{timer}", *filter(None, [os.environ.get(_PRELOAD)])]
    try:
        done = subprocess.run(
            [*command, json.dumps(specification)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
            pass_fds=[timer],
            env=os.environ | {"PYTHONPATH": module_path(), "OMP_NUM_THREADS": "1", _PRELOAD: ":".join(preloaded)},
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{_whose_turn(specification)} was not done after {timeout:g} s; give it more time (a longer timeout), "
            "less work or fewer repetitions"
        ) from None
    finally:
        os.close(timer)
    if done.returncode and TOO_LONG in done.stderr:
        told = done.stderr.partition(TOO_LONG)[2].strip()
        raise DataError(f"{_whose_turn(specification)} {TOO_LONG}{told}")
    if done.returncode:
        raise DataError(
            f"{_whose_turn(specification)} failed while it was timed (status {done.returncode}). {done.stderr[-500:]}"
        )
    if not Path(specification["output"]).exists():
        raise DataError(f"{_whose_turn(specification)} ended the measuring process (exit status 0) while it was timed")
    with np.load(specification["output"], allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def _whose_turn(specification: dict[str, Any]) -> str:
    """Return the name of what is timed; of several kernels in turns, that of the one that ran last and did not end."""
    turn = Path(specification["turn"]).read_bytes()[0] if "turn" in specification else 0
    return str(specification["names"][turn - 1] if turn else specification["name"])


def started(spec: dict[str, Any]) -> tuple[ctypes.CDLL, NDArray[np.int64], int]:
    """Load the timer into this process and pin it; return it, pairs for `link_cycles`, and the link (0: unknown)."""
    timer = ctypes.CDLL(spec["timer"])
    if hasattr(timer, "perfkit_registering"):  # `in_measuring_process`, and numpy is loaded
        timer.perfkit_registering()
        _, _, others = os.environ.pop(_PRELOAD).partition(":")
        if others:  # for processes that the kernel starts
            os.environ[_PRELOAD] = others
    functions_before()  # once, and not in each process that is forked
    if timer.perfkit_pin(spec["processor"]):
        raise SystemExit(f"cannot run on processor {spec['processor']}")
    pairs = np.zeros((100, 2), dtype=np.int64)
    for _ in range(_TRIES):
        timer.perfkit_compare(ctypes.c_long(len(pairs)), pointer(pairs))
        try:
            return timer, pairs, link_cycles(pairs)
        except UnavailableError:
            continue
    return timer, pairs, 0


def _move_on(timer: ctypes.CDLL, random: np.random.Generator) -> None:
    """Take memory, so that libraries, what a kernel allocates and its stack lie elsewhere than in other processes."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    timer.perfkit_fill_holes(ctypes.c_long(mmap.PAGESIZE * int(random.integers(1, _PAGES))))
    for size in random.integers(1, _ALLOCATED, _ALLOCATIONS):  # holes that freed memory has left, and then what follows
        libc.malloc(ctypes.c_size_t(int(size)))
    timer.perfkit_move_stack(ctypes.c_long(16 * int(random.integers(_STACK))))


def in_own_place(timer: ctypes.CDLL, number: int, work: Callable[[], NDArray[Any]], part: str) -> NDArray[Any]:
    """Do `work` in a forked process that maps its memory elsewhere than the others do, and return its result."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if not timer.perfkit_end_with(parent):
                os._exit(status)
            itself = os.getpid()
            _move_on(timer, np.random.default_rng(number))
            found = work()
            if os.getpid() != itself:  # a process that the kernel made, and that went on behind it
                os._exit(status)
            if _has_children():
                _end_children()  # whoever reads what this process prints would wait for them
                raise SystemExit(_FORKS)
            _keep(found, part)
            status = 0
        except SystemExit as why:
            Path(part).write_text(str(why.code), encoding="utf-8")
            status = _SAID
        except BaseException:  # noqa: BLE001 - this process must end here
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SAID:
        raise SystemExit(Path(part).read_text(encoding="utf-8"))
    if status or not Path(part).exists():  # an exit of status 0 in the kernel is one, too
        raise SystemExit(f"the kernel ended the measuring process: {_ending(os.waitstatus_to_exitcode(status))}")
    return np.asarray(np.load(part, allow_pickle=False))


def _keep(found: NDArray[Any], part: str) -> None:
    try:
        np.save(part, found)
    except OSError as error:
        sys.stderr.write(f"What was measured cannot be written: {error.strerror}. {_LIMITS}\n")
        sys.stderr.flush()
        os._exit(1)


def _end_children() -> None:
    """Kill the processes that this one began and has not waited for."""
    with contextlib.suppress(OSError):  # not every kernel lists them
        for task in Path("/proc/self/task").iterdir():
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


def _has_children() -> bool:
    """Whether this process has children, ended or not, that it has not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"


def calls_per_sample(cycles: float) -> int:
    """Return how many calls that take this long are timed as one sample (`SHORTEST`)."""
    return max(1, int(np.ceil(SHORTEST / max(cycles, 1.0))))


def expect_time(what: str, needed: float, timeout: float, how: str) -> None:
    """End a measuring process that sees beforehand that what it measures takes more seconds than it is given."""
    if needed > timeout:
        raise SystemExit(f"{TOO_LONG}{what} would take some {needed:,.0f} s, and may take {timeout:g}: {how}")


def enough_calls(tried: Callable[[int], float]) -> int:
    """Return how many calls are timed as one sample, from a call's cycles in trials with so many calls."""
    return until_enough(1, lambda calls: calls_per_sample(tried(calls)))


def until_enough(calls: _Calls, wanted: Callable[[_Calls], _Calls]) -> _Calls:
    """Return how many calls are timed as one sample, from how many a trial with so many calls asks for.

    A reading of a few cycles is one of the counter's steps (26 ticks in a guest of a Zen 5: 42 cycles of a call of 7),
    so trials go on until as many calls as they asked for are in them. Comparing one build with itself after one trial
    of one call, 12,548 calls of one side made a sample and 484 of the other: a fifth as long as meant, and 2 % of it
    the reading itself.
    """
    for _ in range(_TRIALS):
        before, calls = calls, wanted(calls)
        if calls == before:
            break
    return calls


def fenced_calls(timer: ctypes.CDLL) -> dict[str, Any]:
    """Return samples of calls that fences keep apart, and the multiplications in each call, for `fence_cycles`."""
    fences = np.zeros((15, 7), dtype=np.int64)
    known = timer.perfkit_fence(ctypes.c_long(_FENCE_CALLS), ctypes.c_long(len(fences)), pointer(fences))
    return {"fences": fences, "known": known}


def fence_cycles(found: dict[str, NDArray[Any]], link: int) -> float:
    """Return what a fence and a call add to the latency of a function, from `fenced_calls`."""
    cycles = judge(found["fences"].reshape(-1, 7), link, tolerance=np.inf).cycles / _FENCE_CALLS
    known = int(found["known"]) * link
    return max(float(np.nanmedian(cycles)) - known, 0.0) if np.isfinite(cycles).any() else 0.0


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    """Return an array's address."""
    return ctypes.c_void_p(array.ctypes.data)


def loaded(library_path: str, function: str, setup: bool, arguments: list[list[Any]], seed: Sequence[int]) -> Callee:
    """Load a kernel and its `described` arguments into this process.

    Where arrays lie within their pages decides which loads seem to alias which stores, and so some kernels' cycles.
    Processes that are forked of one would all have the same places, and those of the next run others: so each array
    begins at a line of its page that `seed` draws.
    """
    random = np.random.default_rng(seed)
    library = ctypes.CDLL(library_path, mode=load_mode(ElfFile(library_path)))
    integers, floats, keep = (ctypes.c_long * _INTEGERS)(), (ctypes.c_double * _FLOATS)(), []
    at_integer = at_float = 0
    for kind, value in arguments:
        if kind in ("double", "float"):
            # A float is passed in the lower half of a vector register.
            raw = np.array([value], dtype=np.float64 if kind == "double" else np.float32).tobytes().ljust(8, b"\0")
            floats[at_float] = np.frombuffer(raw, dtype=np.float64)[0]
            at_float += 1
            continue
        if kind == "array":
            values = np.load(value, allow_pickle=False)
            room = np.zeros(values.nbytes + 2 * mmap.PAGESIZE, dtype=np.uint8)
            start = -room.ctypes.data % mmap.PAGESIZE + _LINE * int(random.integers(mmap.PAGESIZE // _LINE))
            room[start : start + values.nbytes] = np.frombuffer(values.tobytes(order="A"), dtype=np.uint8)
            keep.append(room)
            value = room.ctypes.data + start
        integers[at_integer] = value
        at_integer += 1
    return Callee(getattr(library, function), library.setup if setup else None, integers, floats, tuple(keep))
