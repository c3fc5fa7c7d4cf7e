"""Write the figures of each form that a calibration of this host kept: data/make/measured/CORE.csv.

    .venv/bin/perfkit calibrate --full -o host.toml      # keeps host.toml.partial
    .venv/bin/python data/make/measured_figures.py raptor_cove host.toml.partial

Per form, in cycles: latency (the longest over the operands that the result can be chained through) and throughput
(cycles per instruction, of independent ones), each the middle of three passes of which two agree. Left out are the
throughputs of forms with memory operands: their loads are of one address, which is one bank and no plain number.
"""

import argparse
import csv
import json
import re
from collections import defaultdict
from pathlib import Path

from perfkit.collectors.whole_core.figures import Timing
from perfkit.collectors.whole_core.settled import Settled, passes, settled

FOLDER = Path(__file__).parent / "measured"
KEY = re.compile(r"1 (?P<form>[^ +]+)(?: through operand (?P<operand>\d+))? #0")


def figures(known: dict[str, float]) -> dict[str, dict[str, float]]:
    """Return form -> latency and throughput of a checkpoint's figures."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for key in known:
        match = KEY.fullmatch(key)
        if match is None or "/m" in match["form"]:
            continue
        operand = None if match["operand"] is None else int(match["operand"])
        group = passes([(match["form"], 1)], operand)
        values: dict[Timing, float] = {one: known[one.key] for one in group if known.get(one.key) is not None}
        value = settled(group, values)
        if isinstance(value, Settled):
            name = "throughput" if operand is None else "latency"
            found[match["form"]][name] = max(value.value, found[match["form"]].get(name, 0.0))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("core")
    parser.add_argument("kept", type=Path)
    options = parser.parse_args()
    first, *lines = options.kept.read_text().splitlines()
    host = json.loads(first)["host"]
    rows = figures(dict(json.loads(line) for line in lines))
    with (FOLDER / f"{options.core}.csv").open("w", newline="") as file:
        about = f"{host['processor']} family {host['family']} model {host['model']}"
        file.write(f"# measured with the time stamp counter on {about}; data/make/measured_figures.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("form", "latency", "throughput"))
        for form, row in sorted(rows.items()):
            writer.writerow([form, *(f"{row[name]:.3f}" if name in row else "" for name in ("latency", "throughput"))])
    print(f"{options.core}: {len(rows)} forms")


if __name__ == "__main__":
    main()
