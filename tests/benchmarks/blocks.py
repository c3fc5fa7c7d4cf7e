"""How close Gus comes to the measured cycles of basic blocks of real programs, beside llvm-mca and OSACA.

    python -m tests.benchmarks.blocks measure --blocks FILE.csv --keep cycles.csv   # resumable, a minute per thousand
    python -m tests.benchmarks.blocks measure --blocks FILE.csv --keep again.csv    # a second time: how well it repeats
    python -m tests.benchmarks.blocks score --blocks FILE.csv --keep cycles.csv --again again.csv --core zen4
    python -m tests.benchmarks.blocks score --points data/blocks/zen4.csv --blocks FILE.csv --core zen4

FILE.csv has a column ``hex`` (machine code) and may be compressed (.xz, .gz), as BHive's lists of blocks are. Half of
the blocks, drawn by the SHA-256 of their code (`half`), may be looked at while the model changes ("open"); the other
half ("closed") is only scored. Blocks that could not be measured are left out, and counted. Kendall's tau is tau-b of
cycles rounded to a hundredth; "within 5 %" is the share of blocks whose relative error is at most that. llvm-mca and
OSACA get the same instructions, the loop's decrement and jump included; OSACA, a process for each block, gets the first
``--osaca`` blocks of each half, and Gus's score on these is printed beside its own. Nothing is fitted here.
"""

import argparse
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import perfkit as pk
from perfkit.collectors.blocks.cycles import measure_blocks, read_kept
from perfkit.collectors.blocks.lists import read_blocks
from perfkit.collectors.host.osaca import osaca
from perfkit.collectors.host.toolchain import Disassembled, mca
from perfkit.errors import DataError, UnavailableError
from perfkit.trace.block import GPR, BasicBlock

MODES = ("looped", "unrolled")
HALVES = ("open", "closed")


def half(block: str) -> str:
    """Return which half a block belongs to, by its code: "open" may be looked at, "closed" is scored only."""
    return HALVES[hashlib.sha256(block.encode()).digest()[0] & 1]


def key(block: str) -> str:
    """Return a block's name in a table that does not hold its code."""
    return hashlib.sha256(block.encode()).hexdigest()[:16]


def kept_table(path: Path) -> pd.DataFrame:
    """Return what `measure` kept: one row per block with looped and unrolled cycles, NaN where there are none."""
    rows: dict[str, dict[str, Any]] = {}
    for (block, mode), found in read_kept(path).items():
        rows.setdefault(block, {"block": key(block)})[mode] = found["value"]
    return pd.DataFrame(list(rows.values()), columns=["block", *MODES])


def loop_text(block: BasicBlock, mode: str) -> list[Disassembled]:
    """Return the instructions of a turn as an assembler reads them."""
    from iced_x86 import Formatter, FormatterSyntax

    formatter = Formatter(FormatterSyntax.GAS)
    lines = [formatter.format(one) for one in block.instructions]
    if mode == "looped" and block.counter is not None:
        lines += [f"dec %{GPR[block.counter].lower()}", "jne 0"]
    return [Disassembled(k, *line.partition(" ")[::2]) for k, line in enumerate(lines)]


def scores(measured: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Return mean and median relative error, Kendall's tau, the share within 5 %, and of how many blocks."""
    m, p = np.asarray(measured), np.asarray(predicted)
    known = np.isfinite(m) & np.isfinite(p)
    error = np.abs(p[known] / m[known] - 1)
    # To a hundredth of a cycle, as BHive's figures are: 0.998 and 1.003 cycles are no order.
    tau = float(kendalltau(m[known].round(2), p[known].round(2)).statistic) if known.sum() > 1 else np.nan
    return {
        "blocks": int(known.sum()),
        "MAPE": float(error.mean()),
        "median": float(np.median(error)),
        "tau": tau,
        "within 5 %": float((error <= 0.05).mean()),
    }


def predictions(core: str, codes: Sequence[str], rivals: bool) -> dict[str, dict[str, np.ndarray]]:
    """Return tool -> mode -> cycles of each block."""
    began = time.process_time()
    gus = pk.Gus(core).blocks(codes).table
    spent = time.process_time() - began
    print(f"Gus: {2 * len(codes) / spent:,.0f} predictions a second of processor time (looped and unrolled)")
    found = {"Gus": {mode: gus[mode].to_numpy() for mode in MODES}}
    if not rivals:
        return found
    cpu = pk.Microarchitecture.load(core).llvm_cpu
    found["llvm-mca"] = {}
    for mode in MODES:
        texts = {code: loop_text(BasicBlock(code), mode) for code in codes if known(code)}
        answers = mca(texts, cpu)
        found["llvm-mca"][mode] = np.array([answers[c]["mca_cycles"] if c in answers else np.nan for c in codes])
    return found


def shown(name: str, part: str, mode: str, found: dict[str, float]) -> None:
    print(
        f"{part:<7} {mode:<9} {name:<20} {found['blocks']:>5} blocks  MAPE {found['MAPE']:.1%}  median "
        f"{found['median']:.2%}  tau {found['tau']:.3f}  within 5 % {found['within 5 %']:.1%}",
        flush=True,
    )


def score(given: argparse.Namespace) -> None:
    codes = read_blocks(given.blocks)
    points = kept_table(given.keep) if given.keep else pd.read_csv(given.points, comment="#")
    points = points.set_index("block").reindex([key(code) for code in codes])
    for mode in MODES:
        print(f"{points[mode].notna().mean():.1%} of {len(codes):,} blocks measured {mode}")
    if given.again:
        again = kept_table(given.again).set_index("block").reindex(points.index)
        for mode in MODES:
            ratio = (points[mode] / again[mode] - 1).abs()
            both = ratio.notna()
            print(
                f"{mode}: two measurements within 2 % in {(ratio <= 0.02).mean():.1%} of all blocks, "
                f"{(ratio[both] <= 0.02).mean():.1%} of the {int(both.sum()):,} measured twice"
            )
    halves = np.array([half(code) for code in codes])
    usable = np.array([known(code) for code in codes])
    cores = {name: predictions(name, codes, given.rivals) for name in given.core}
    for part in HALVES:
        for mode in MODES:
            here = (halves == part) & usable & points[mode].notna().to_numpy()
            for core, tools in cores.items():
                for tool, found in tools.items():
                    shown(f"{tool} {core}", part, mode, scores(points[mode].to_numpy()[here], found[mode][here]))
    if given.osaca:
        by_osaca(given.osaca, codes, points, halves, cores)


def known(code: str) -> bool:
    try:
        return bool(BasicBlock(code))
    except DataError:
        return False


def osaca_cycles(text: list[Disassembled], core: str) -> float:
    """Return what OSACA predicts for a loop; NaN where it cannot read it, or takes more than a minute."""
    try:
        return osaca({"loop": text}, {"zen4": "ZEN4", "zen3": "ZEN3"}.get(core))["loop"]["osaca_cycles"]
    except UnavailableError:
        return float("nan")


def by_osaca(count: int, codes: Sequence[str], points: pd.DataFrame, halves: np.ndarray, cores: Any) -> None:
    """Score OSACA on the first blocks of each half, and the others on the same."""
    for part in HALVES:
        here = [k for k in np.flatnonzero(halves == part) if np.isfinite(points["looped"].iloc[k])][:count]
        texts = {str(k): loop_text(BasicBlock(codes[k]), "looped") for k in here}
        for core, tools in cores.items():
            cycles = points["looped"].to_numpy()[here]
            told = np.array([osaca_cycles(text, core) for text in texts.values()])
            shown(f"OSACA {core}", part, "looped", scores(cycles, told))
            for tool, found in tools.items():
                shown(f"{tool} {core}, these", part, "looped", scores(cycles, found["looped"][here]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("measure", "score"))
    options.add_argument("--blocks", type=Path, required=True)
    options.add_argument("--keep", type=Path)
    options.add_argument("--again", type=Path)
    options.add_argument("--points", type=Path)
    options.add_argument("--core", nargs="+", default=["host"])
    options.add_argument("--patience", type=float, default=900.0)
    options.add_argument("--rivals", action=argparse.BooleanOptionalAction, default=True)
    options.add_argument("--osaca", type=int, default=0)
    given = options.parse_args()
    if given.what == "score":
        return score(given)
    began = time.monotonic()
    found = measure_blocks(read_blocks(given.blocks), keep=given.keep, patience=given.patience)
    print(f"{found.summary()}\nin {time.monotonic() - began:.0f} s")
    return None


if __name__ == "__main__":
    main()
