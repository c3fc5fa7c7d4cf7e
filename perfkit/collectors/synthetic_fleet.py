"""A generated fleet: machines that differ, two versions of a service, and a regression that is known."""

from pathlib import Path

import numpy as np

from perfkit.base.files import a_path
from perfkit.collectors.synthetic_cpi import synthetic_cpi
from perfkit.errors import SettingError
from perfkit.samples.parts import write_part

PENALTIES = {"branch-misses": 15.0, "LLC-load-misses": 80.0, "dTLB-load-misses": 25.0}


def generate_fleet(
    folder: str | Path,
    *,
    machines: int = 40,
    intervals: int = 150,
    regression: float = 2.0,
    seed: int = 0,
) -> Path:
    """Write the samples of a generated fleet, ``machine/version-processor.parquet``, and return the folder.

    Every machine runs v1 and v2 and has a base of its own (10 % of spread); every other one is of the processor type
    ``small``. Nothing was measured: the samples are of kind ``generated``.

    Parameters
    ----------
    folder : path
        Where to write; made if it is not there.
    machines, intervals : int
        How many machines, at least 2, and intervals of each run.
    regression : float
        How many times its penalty a branch miss costs in v2 on ``small``; 1 plants nothing.
    seed : int
        Of everything that is drawn.

    Raises
    ------
    SettingError
        Fewer than 2 machines or 10 intervals, or a `regression` that is not above 0.
    """
    folder = a_path(folder, "generate_fleet")
    if machines < 2 or intervals < 10 or regression <= 0:
        raise SettingError(
            f"expected machines >= 2, intervals >= 10, regression > 0; found {machines}, {intervals}, {regression}"
        )
    rng = np.random.default_rng(seed)
    for i in range(machines):
        processor = ("large", "small")[i % 2]
        base = 0.3 * float(np.clip(1.0 + 0.1 * rng.standard_normal(), 0.7, 1.3))
        for k, version in enumerate(("v1", "v2")):
            worse = regression if (version, processor) == ("v2", "small") else 1.0
            penalties = {**PENALTIES, "branch-misses": worse * PENALTIES["branch-misses"]}
            place = folder / f"m{i:02d}"
            place.mkdir(parents=True, exist_ok=True)
            samples, _ = synthetic_cpi(
                base=base,
                penalties=penalties,
                intervals=intervals,
                seed=seed * 100_000 + 2 * i + k,
                workload=f"m{i:02d}-{version}",
            )
            write_part(samples, place / f"{version}-{processor}.parquet")
    return Path(folder)
