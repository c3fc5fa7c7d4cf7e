"""Measure the studies of data/studies on this machine and describe them in its manifest.

Run it from the repository's root: python data/make/studies.py [NAME...]
It takes minutes, resumes where it stopped (perfkit-out/), and without names measures all. With --describe it only
writes the manifest anew, from the tables that are there.
"""

import hashlib
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.study.runs import StudyRuns
from perfkit.study.study import Study

FOLDER = Path(__file__).parents[1] / "studies"
KEPT = Path("perfkit-out")
HEAD = "# Made by data/make/studies.py; do not edit by hand.\n"
UNITS = "TSC ticks, nanoseconds and core cycles for one execution of the region (columns tsc, ns, cycles)"


def main() -> None:
    words = sys.argv[1:]
    names = [word for word in words if not word.startswith("-")] or sorted(p.stem for p in FOLDER.glob("*.yaml"))
    if "--describe" not in words:
        for name in names:
            measure(name)
    entries = [describe(path) for path in sorted(FOLDER.iterdir()) if path.suffix in {".yaml", ".c", ".parquet"}]
    (FOLDER / "manifest.toml").write_text(HEAD + "".join(entries), encoding="utf-8")


def measure(name: str) -> None:
    study = Study.from_yaml(FOLDER / f"{name}.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        runs = Microbenchmark(folder=KEPT / name, progress=show).collect(study)
    keep(runs, name)


def keep(runs: StudyRuns, name: str) -> None:
    machine = {**runs.metadata["machine"], "host": ""}  # the machine's name means nothing to a reader
    replace(runs, metadata={**runs.metadata, "machine": machine}).to_parquet(FOLDER / f"{name}.parquet")
    print(f"\n{name}: {runs.counts()}")


def show(done: int, total: int, what: str) -> None:
    print(f"\r{what}: {done} of {total}   ", end="", flush=True)


def describe(path: Path) -> str:
    made_by, kind, shape, units = "by hand; described by data/make/studies.py", "generated", "text", "text"
    source, name = "own work, from the description in MARTA (Horro et al.), section IV", path.name
    if path.suffix == ".parquet":
        runs = StudyRuns.from_parquet(path)
        about, count = runs.metadata, runs.counts()
        machine = about["machine"]
        virtual = " under a hypervisor" if machine["hypervisor"] else ""
        flags = ", ".join(sorted(set(runs.table["flags"])))
        holds = f"the study {path.stem}, measured: {count['settled']} settled, {count['unsettled']} unsettled rows, "
        holds += f"{count['failed']} failed"
        source = (
            f"measured on {machine['processor']}, family {machine['family']} model {machine['model']}{virtual}, Linux "
            f"{machine['kernel']}, {'; '.join(about['compilers'].values())}, flags {flags}, {about['date']}"
        )
        made_by, kind, shape, units, name = "data/make/studies.py", "measured", "study", UNITS, path.stem
    elif path.suffix == ".yaml":
        holds = f"study file: {Study.from_yaml(path).description}"
    else:
        holds = f"the kernel of the study {path.stem}, in C"
    entry = {
        "file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "format": shape, "kind": kind,
        "holds": holds, "units": units, "source": source, "licence": "MIT", "made_by": made_by,
    }  # fmt: skip
    return f'\n["studies/{name}"]\n' + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())


if __name__ == "__main__":
    main()
