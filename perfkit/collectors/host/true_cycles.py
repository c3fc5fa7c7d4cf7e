"""True core cycles without hardware counters: a kernel timed against a chain of known length.

The clock is `perfkit.collectors.host.cycle_clock`: a chain of dependent multiplications, timed before and after the
kernel; where the two differ, the sample is rejected.
"""

import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.host.cycle_clock import QUANTILE, TOLERANCE, link_cycles, ticks_to_cycles
from perfkit.errors import DataError, PerfkitWarning, SettingError, UnavailableError

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.collectors.kernels import Kernel

_SHORTEST = 5000  # cycles of a kernel below which several calls are timed as one
_INTEGERS, _FLOATS = 6, 8  # argument registers


@dataclass(frozen=True)
class TrueCycles:
    """Core cycles of one call of a kernel, measured.

    Parameters
    ----------
    kernel : str
        Its name.
    samples : (kept,) float64
        Cycles per call, one for each repetition that was not rejected, in order.
    repetitions, rejected : int
        How many were made, and how many of them rejected.
    calls : int
        Calls timed as one.
    quantile : float
        Which quantile of the samples is quoted.
    ticks_per_cycle : float
        Ticks of the time stamp counter per cycle, the median over the repetitions kept.
    link : int
        Cycles of one dependent multiplication, as found on this machine.
    host : str
        Where this was measured.
    """

    kernel: str
    samples: NDArray[np.float64]
    repetitions: int
    rejected: int
    calls: int
    quantile: float
    ticks_per_cycle: float
    link: int
    host: str

    @property
    def cycles(self) -> float:
        """The quoted quantile of the samples: cycles per call."""
        return float(np.quantile(self.samples, self.quantile))

    @property
    def spread(self) -> float:
        """Distance from the quoted quantile to the median, relative to the quoted value."""
        return float(np.median(self.samples) / self.cycles - 1)

    def per(self, iterations: float) -> float:
        """Return cycles per iteration, for a kernel of so many."""
        return self.cycles / iterations

    def to_frame(self) -> "pd.DataFrame":
        """One row: kernel, cycles, spread, kept, rejected, calls, ticks per cycle."""
        import pandas as pd

        return pd.DataFrame(
            {
                "kernel": [self.kernel],
                "cycles": [self.cycles],
                "spread": [self.spread],
                "kept": [len(self.samples)],
                "rejected": [self.rejected],
                "calls": [self.calls],
                "ticks_per_cycle": [self.ticks_per_cycle],
            }
        )

    def save(self, path: str | Path) -> Path:
        """Write as npz."""
        described = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "samples"}
        target = Path(path)
        with target.open("wb") as file:
            np.savez_compressed(file, samples=self.samples, described=np.array(json.dumps(described)))
        return target

    @classmethod
    def load(cls, path: str | Path) -> "TrueCycles":
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            return cls(samples=data["samples"], **json.loads(str(data["described"])))


def true_cycles(
    kernel: "Kernel",
    *arguments: Any,
    repetitions: int = 400,
    calls: int | None = None,
    quantile: float = QUANTILE,
    tolerance: float = TOLERANCE,
    processor: int | None = None,
    timeout: float = 120.0,
) -> TrueCycles:
    """Measure a kernel's core cycles with the time stamp counter.

    Parameters
    ----------
    kernel : Kernel
        From :func:`~perfkit.collectors.compile_kernel` or :func:`~perfkit.collectors.corpus_kernel`.
    *arguments
        As for :meth:`Kernel.trace <perfkit.collectors.kernels.Kernel.trace>`; at most six integers and pointers, and
        eight floating-point numbers.
    repetitions : int
        Samples to take.
    calls : int, optional
        Calls timed as one; by default as many as make 5000 cycles. The first call's data are what ``setup()`` made.
    quantile : float
        What to quote. Low, because all disturbances add; not the minimum, which a clock that rises between the
        chain and the kernel can pull too low.
    tolerance : float
        Reject a repetition whose two chains differ by more than this.
    processor : int, optional
        Which processor to pin the measuring process to; by default the first that it may use.
    timeout : float
        Seconds after which to give up.

    Raises
    ------
    UnavailableError
        When this machine is no x86-64, or so busy that nearly every repetition was rejected.
    DataError
        When the kernel crashes or does not end.

    Examples
    --------
    >>> import perfkit as pk
    >>> kernel = pk.collectors.corpus_kernel("fig1a", defines={"COUNT": 4000})  # doctest: +SKIP
    >>> round(pk.collectors.true_cycles(kernel).per(4000), 1)  # doctest: +SKIP
    8.0
    """
    _check(repetitions, calls, quantile, tolerance, kernel.isa)
    with tempfile.TemporaryDirectory(prefix="perfkit-timer-") as scratch:
        folder = Path(scratch)
        timer = _build_timer(folder)
        specification = {
            "timer": str(timer),
            "library": str(kernel.path),
            "function": kernel.function,
            "setup": kernel.has_setup,
            "arguments": _arguments(arguments, folder),
            "processor": min(os.sched_getaffinity(0)) if processor is None else processor,
            "output": str(folder / "ticks.npz"),
        }
        if calls is None:
            link, ticks = _run(specification | {"calls": 1, "repetitions": 15}, timeout)
            one = ticks_to_cycles(ticks, link, tolerance=np.inf)[0]
            calls = max(1, int(np.ceil(_SHORTEST / max(float(np.median(one)), 1.0))))
        link, ticks = _run(specification | {"calls": calls, "repetitions": repetitions}, timeout)
    samples, rates = ticks_to_cycles(ticks, link, tolerance)
    rejected = repetitions - len(samples)
    if len(samples) < max(5, repetitions // 50):
        raise UnavailableError(
            f"{rejected} of {repetitions} repetitions were rejected: this machine is too busy, or its clock changes "
            "too often, to measure; try again on a quiet one, or raise repetitions"
        )
    if rejected > repetitions / 2:
        warnings.warn(
            f"{rejected} of {repetitions} repetitions were rejected: the machine is busy, and {kernel.name}'s cycles "
            "are less certain",
            PerfkitWarning,
            stacklevel=2,
        )
    return TrueCycles(
        kernel=kernel.name,
        samples=samples / calls,
        repetitions=repetitions,
        rejected=rejected,
        calls=calls,
        quantile=quantile,
        ticks_per_cycle=float(np.median(rates)),
        link=link,
        host=_host(),
    )


def _check(repetitions: int, calls: int | None, quantile: float, tolerance: float, isa: str) -> None:
    if isa != "x86-64" or platform.machine() != "x86_64":
        raise UnavailableError(f"true cycles need an x86-64 machine and kernel (found {platform.machine()} and {isa})")
    if repetitions < 10:
        raise SettingError(f"repetitions must be 10 or more, found {repetitions}")
    if calls is not None and calls < 1:
        raise SettingError(f"calls must be 1 or more, found {calls}")
    if not 0 <= quantile <= 1:
        raise SettingError(f"quantile must lie between 0 and 1, found {quantile}")
    if not tolerance > 0:
        raise SettingError(f"tolerance must be positive, found {tolerance}")


def _arguments(arguments: tuple[Any, ...], folder: Path) -> list[list[Any]]:
    from perfkit.collectors.tracer.tracer import describe_argument

    found = []
    for number, value in enumerate(arguments):
        kind, what = describe_argument(value)
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


def _build_timer(folder: Path) -> Path:
    timer = folder / "timer.so"
    with as_file(files("perfkit.collectors.host") / "timer.c") as source:
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(timer), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UnavailableError("timing needs a C compiler (Debian's package gcc)") from None
    if done.returncode:
        raise UnavailableError(f"the timer does not compile: {done.stderr[:1000]}")
    return timer


def _run(specification: dict[str, Any], timeout: float) -> tuple[int, NDArray[np.int64]]:
    """Return a multiplication's cycles and the ticks of each repetition.

    Measure in a process of its own: it is pinned, and a crash is not ours.
    """
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", f"from {__name__} import _measure; import sys; _measure(sys.argv[1])"]
    try:
        done = subprocess.run(
            [*command, json.dumps(specification)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{specification['function']} was not done after {timeout:g} s; give it more time, less work or fewer "
            "repetitions"
        ) from None
    if done.returncode:
        raise DataError(
            f"{specification['function']} failed while it was timed (status {done.returncode}). {done.stderr[-500:]}"
        )
    with np.load(specification["output"], allow_pickle=False) as data:
        return link_cycles(data["pairs"]), data["ticks"]


def _measure(argument: str) -> None:
    """Be the measuring process."""
    spec = json.loads(argument)
    timer, library = ctypes.CDLL(spec["timer"]), ctypes.CDLL(spec["library"])
    if timer.perfkit_pin(spec["processor"]):
        raise SystemExit(f"cannot run on processor {spec['processor']}")
    integers, floats, keep = (ctypes.c_long * _INTEGERS)(), (ctypes.c_double * _FLOATS)(), []
    at_integer = at_float = 0
    for kind, value in spec["arguments"]:
        if kind in ("double", "float"):
            # A float is passed in the lower half of a vector register.
            raw = np.array([value], dtype=np.float64 if kind == "double" else np.float32).tobytes().ljust(8, b"\0")
            floats[at_float] = np.frombuffer(raw, dtype=np.float64)[0]
            at_float += 1
            continue
        if kind == "array":
            values = np.load(value, allow_pickle=False)
            room = np.zeros(values.nbytes + 64, dtype=np.uint8)
            start = -room.ctypes.data % 64
            room[start : start + values.nbytes] = np.frombuffer(values.tobytes(order="A"), dtype=np.uint8)
            keep.append(room)
            value = room.ctypes.data + start
        integers[at_integer] = value
        at_integer += 1
    pairs = np.zeros((100, 2), dtype=np.int64)
    timer.perfkit_compare(ctypes.c_long(len(pairs)), ctypes.c_void_p(pairs.ctypes.data))
    ticks = np.zeros((spec["repetitions"], 3), dtype=np.int64)
    timer.perfkit_time(
        getattr(library, spec["function"]),
        integers,
        floats,
        ctypes.c_long(spec["calls"]),
        ctypes.c_long(spec["repetitions"]),
        ctypes.c_void_p(ticks.ctypes.data),
        library.setup if spec["setup"] else None,
    )
    np.savez(spec["output"], pairs=pairs, ticks=ticks)


def _host() -> str:
    from perfkit.collectors.tracer.tracer import processor_name

    return f"{platform.machine()} {processor_name()}"
