"""Compile the simulators for any processor of x86-64-v3, for a wheel to bring them: ``./kit wheel`` calls this."""

import os
import tempfile
from pathlib import Path

LEVEL = "x86-64-v3"


def main() -> None:
    """Compile each part that an answer needs, and write it beside the sources."""
    from perfkit.diagnosis.compiling import parts
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.compiled import SHIPPED, ship
    from perfkit.simulators.dag import engine, reuse
    from perfkit.simulators.gus.recurrence import simulate
    from perfkit.simulators.memory.memory import go_through

    SHIPPED.mkdir(exist_ok=True)
    for make in parts(Microarchitecture.load("zen4")).values():
        make()
    scheduling = (engine.run, engine.drain, engine.warm_up, reuse.locate, reuse._use_all)
    n = sum(ship(function) for function in (simulate, go_through, *scheduling))
    size = sum(file.stat().st_size for file in Path(SHIPPED).iterdir())
    print(f"{n} specialisations, {size / 1e6:.1f} MB in {SHIPPED}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        # numba reads these when it is imported.
        os.environ |= {"NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": folder}
        main()
