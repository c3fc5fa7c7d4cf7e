"""Make data/samples: generated training and analysed workloads for SPIRE (no machine was measured).

Run it from the repository's root: python data/make/spire_samples.py
"""

import hashlib
from pathlib import Path

from perfkit.collectors import synthetic

FOLDER = Path(__file__).parents[1] / "samples"
SEED, NOISE = 20250331, 0.01
MANIFEST = """\
# Made by data/make/spire_samples.py; do not edit by hand.
"""
ENTRY = """
["spire/{name}"]
file = "spire-{file}.parquet"
sha256 = "{sha256}"
format = "samples"
kind = "generated"
holds = "{holds}"
units = "event counts an interval of 2 s; time in cycles of a 2 GHz clock, work in instructions"
source = "perfkit.collectors.synthetic, seed {seed}, counts with {noise:.0%} relative noise; no machine was measured"
licence = "MIT"
made_by = "data/make/spire_samples.py"
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    train = synthetic.generate(intervals=60, seed=SEED, noise=NOISE).samples
    analysed = synthetic.generate(synthetic.ANALYSED, intervals=60, seed=SEED + 1, noise=NOISE).samples
    entries = [write("train", train, f"generated training samples of {len(train.runs)} workloads of the model")]
    for name in analysed.runs.index:
        what = f"a generated workload to analyse, whose true bottleneck is the area {name.replace('_', ' ')}"
        entries.append(write(name, analysed.select(runs=[name]), what))
    (FOLDER / "manifest.toml").write_text(MANIFEST + "".join(entries), encoding="utf-8")


def write(name: str, samples, holds: str) -> str:
    path = samples.to_parquet(FOLDER / f"spire-{name.replace('_', '-')}.parquet")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{path.name}: {samples!r}, {path.stat().st_size:,} bytes")
    return ENTRY.format(name=name, file=name.replace("_", "-"), sha256=sha256, holds=holds, seed=SEED, noise=NOISE)


if __name__ == "__main__":
    main()
