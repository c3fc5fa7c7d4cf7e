"""Write data/events/published.csv: the events of each processor's core that perf knows, with their encodings.

Run from the repository's root where perf has its lists of events compiled in (Debian's linux-perf 6.1 has):
``python data/make/event_lists.py [/usr/bin/perf]``. The lists are the vendors', as Linux carries them; only names and
encodings are taken, no descriptions, and no events outside of cores (memory controllers, offcore responses).

perf keeps every event as an offset into one string; where that string begins is found by trying where each name stands.
"""

import re
import struct
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
from manifest import describe

HERE = Path(__file__).resolve().parents[1] / "events"
# perf's patterns of family, model and stepping -> what these processors are called, by unit where there are several.
PROCESSORS = {
    "GenuineIntel-6-(1C|26|27|35|36)": "Bonnell", "GenuineIntel-6-1[AEF]": "Nehalem-EP",
    "GenuineIntel-6-2E": "Nehalem-EX", "GenuineIntel-6-25": "Westmere", "GenuineIntel-6-2C": "Westmere-EP",
    "GenuineIntel-6-2F": "Westmere-EX", "GenuineIntel-6-2A": "Sandy Bridge", "GenuineIntel-6-2D": "Sandy Bridge-EP",
    "GenuineIntel-6-3A": "Ivy Bridge", "GenuineIntel-6-3E": "Ivy Bridge-EP", "GenuineIntel-6-(3C|45|46)": "Haswell",
    "GenuineIntel-6-3F": "Haswell-EP", "GenuineIntel-6-(3D|47)": "Broadwell", "GenuineIntel-6-56": "Broadwell-DE",
    "GenuineIntel-6-4F": "Broadwell-EP", "GenuineIntel-6-(37|4A|4C|4D|5A)": "Silvermont",
    "GenuineIntel-6-5[CF]": "Goldmont", "GenuineIntel-6-7A": "Goldmont Plus", "GenuineIntel-6-9[6C]": "Elkhart Lake",
    "GenuineIntel-6-86": "Snow Ridge", "GenuineIntel-6-(57|85)": "Knights Landing",
    "GenuineIntel-6-(4E|5E|8E|9E|A5|A6)": "Skylake", "GenuineIntel-6-55-[01234]": "Skylake-X",
    "GenuineIntel-6-55-[56789ABCDEF]": "Cascade Lake", "GenuineIntel-6-(7D|7E|A7)": "Ice Lake",
    "GenuineIntel-6-6[AC]": "Ice Lake-SP", "GenuineIntel-6-8[CD]": "Tiger Lake",
    "GenuineIntel-6-8F": "Sapphire Rapids", "GenuineIntel-6-(97|9A|B7|BA|BE|BF) cpu_core": "Alder Lake P-core",
    "GenuineIntel-6-(97|9A|B7|BA|BE|BF) cpu_atom": "Alder Lake E-core",
    "AuthenticAMD-23-([12][0-9A-F]|[0-9A-F])": "Zen 1", "AuthenticAMD-23-[[:xdigit:]]+": "Zen 2",
    "AuthenticAMD-25-[[:xdigit:]]+": "Zen 3",
}  # fmt: skip
_OUTSIDE = ("offcore_response", "ocr.", "unc_")
_KEPT = ("ocr.demand_data_rd.l3_miss",)  # that perfkit's map names
_NAME = re.compile(rb"[a-z][a-z0-9_.]+\0[a-z_0-9]*\0[a-z ]+\0")
_RELATIVE = 8  # R_X86_64_RELATIVE


class Binary:
    """An ELF file of 64 bits: its bytes, and the pointers that are written when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.raw = path.read_bytes()
        (start,) = struct.unpack_from("<Q", self.raw, 0x28)
        size, count = struct.unpack_from("<HH", self.raw, 0x3A)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.raw, start + i * size) for i in range(count)]
        self.pointers: dict[int, int] = {}
        for _, kind, _, _, offset, length, *_ in self.sections:
            for at in range(offset, offset + length, 24) if kind == 4 else ():
                where, info, value = struct.unpack_from("<QQq", self.raw, at)
                if info & 0xFFFFFFFF == _RELATIVE:
                    self.pointers[where] = value

    def offset(self, address: int) -> int:
        """Return where an address stands in the file; -1 for nowhere."""
        for _, kind, _, begin, offset, length, *_ in self.sections:
            if begin and kind != 8 and begin <= address < begin + length:
                return int(address - begin + offset)
        return -1

    def text(self, at: int) -> str:
        """Return the text that begins somewhere in the file."""
        return self.raw[at : self.raw.index(b"\0", at)].decode("utf-8", "replace")


def tables(perf: Binary) -> dict[str, tuple[int, ...]]:
    """Return, for each pattern of processors, the offsets of its events."""
    found = {}
    for address, target in sorted(perf.pointers.items()):
        at = perf.offset(target)
        if at >= 0 and perf.raw[at : at + 13] in (b"GenuineIntel-", b"AuthenticAMD-"):
            (count,) = struct.unpack_from("<Q", perf.raw, perf.offset(address + 16))
            found[perf.text(at)] = struct.unpack_from(f"<{count}i", perf.raw, perf.offset(perf.pointers[address + 8]))
    return found


def beginning(perf: Binary, offsets: tuple[int, ...]) -> int:
    """Return where the one string begins: where most offsets are names."""
    places = [m.start() for m in re.finditer(rb"arith\.divider_active\0", perf.raw)]
    tried = Counter[int]()
    for base in {place - offset for place in places for offset in offsets}:
        tried[base] = sum(bool(_NAME.match(perf.raw, base + offset)) for offset in offsets[:60] if base + offset > 0)
    base, hits = tried.most_common(1)[0]
    if hits < 50:
        raise SystemExit(f"no list of events was found: {hits} of 60 names at the best place")
    return base


def events(perf: Binary) -> pd.DataFrame:
    """Return event, encoding and processors, one row per name and encoding."""
    lists = tables(perf)
    base = beginning(perf, lists["GenuineIntel-6-55-[01234]"])
    rows: dict[tuple[str, str], set[str]] = {}
    for pattern, offsets in lists.items():
        for offset in offsets:
            at, parts = base + offset, []
            for _ in range(8):
                parts.append(perf.text(at))
                at += len(parts[-1].encode()) + 1
            name, unit = parts[:2]
            encoding = next((part for part in parts[2:] if re.match(r"(event|config|umask)=", part)), "")
            processor = PROCESSORS.get(f"{pattern} {unit}" if unit.startswith("cpu_") else pattern, "")
            of_core = unit in ("", "cpu_core", "cpu_atom") and (name in _KEPT or not name.startswith(_OUTSIDE))
            if name and encoding and processor and of_core:
                short = ",".join(part for part in encoding.split(",") if not part.startswith("period="))
                rows.setdefault((name, short), set()).add(processor)
    table = [(name, encoding, "; ".join(sorted(of))) for (name, encoding), of in sorted(rows.items())]
    return pd.DataFrame(table, columns=["event", "encoding", "processors"])


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/perf")
    HERE.mkdir(exist_ok=True)
    events(Binary(path)).to_csv(HERE / "published.csv", index=False)
    about = {
        "file": "published.csv", "format": "csv", "kind": "published",
        "holds": "events of processors' cores, by name, with encoding and the processors that have them",
        "units": "none",
        "source": "Intel's and AMD's lists of events, as Linux's perf 6.1 carries them (tools/perf/pmu-events)",
        "licence": "names and encodings: facts; the selection is MIT",
    }  # fmt: skip
    describe(HERE, {"events/published": about}, "data/make/event_lists.py")


if __name__ == "__main__":
    main()
