"""Tables whose columns were divided before they came here: per instruction, per cycle, or scaled to one.

Methods need counts. Rates weight a short interval like a long one, and the CPI of a mean of ratios is wrong by as much
as the intervals differ. Where the table still tells the instructions of each interval, counts are restored exactly;
else it is refused.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

_BASES = (1.0, 10.0, 100.0, 1e3, 1e6, 1e9)
_TOTAL = re.compile(
    r"^(?:(?:total|raw|num|n|abs|absolute|all)[ _.-]?(?:instructions|instrs?|insns?|inst|cycles|cyc)"
    r"|(?:instructions|instrs?|insns?|inst|cycles|cyc)[ _.-]?(?:total|raw|count|abs|absolute|retired))$"
)
_UNIT_OF_WORK = (
    r"k?ins(?:n|t|tr|truction|truktion(?:en)?)?s?|ki|befehle?|cycles?|cyc|zykl(?:us|en)|op|operation|iter|iteration|call|"
    r"item|elem|element|byte|miss(?:es)?|hits?|faults?|branch(?:es)?|loads?|accesse?s?|ref(?:erence)?s?"
)
_MANY = r"(?:(?:10(?:\^|\*\*)?[36³⁶]|1?k(?:ilo)?|1?m|1[,.']?000(?:[,.']?000)?|thousand|million|tausend)[ _.-]?)?"
_PER = re.compile(
    rf"(?:^|[ _.\-(\[])(?:[a-z]{{0,3}}pki|(?:per[ _.-]?|pro[ -]){_MANY}(?:{_UNIT_OF_WORK}))[)\]]?$|"
    r"^[a-z]{0,2}pki[ _.\-]|^(?:ipc|cpi|upc)[ _.\-]*[(\[]?(?:in[ _])?[x×*]?[ _]?(?:10+|1e\d|10\^\d)[)\]]?$|"
    r"[a-z]/(?:op|iter|iteration|call|item|elem|element|byte)[)\]]?$|^(?:b/f|f/b)$|[ _.-]intensity$|^ed2?p$|"
    # What is divided sounds like an event: a unit of counters (cpu/cycles, offcore/loads) is no dividend.
    rf"(?:miss(?:es)?|stalls?|hits?|uops?|branches|inst(?:ructions|s)?|loads|stores|accesses|fills|faults|walks|cycles)"
    rf"[)\]]?\s*/\s*{_MANY}(?:{_UNIT_OF_WORK})[)\]]?$|"
    r"(?:miss(?:es)?|stalls?|hits?|faults|walks)\s*/\s*(?:1?k|1[,.]?000)$",
    re.IGNORECASE,
)
# Shares, rates per second and frequencies. "rate" and the like stand at the end: br_rate is one, rate_matched is none.
_SHARE = re.compile(
    r"(?:%\s*(?:(?:of|von)\b.*|[)\]])?|[ _.\-(\[](?:pct|per[ _-]?cent(?:age)?)(?:[ _-](?:of|von)[ _-].*)?[)\]]?|"
    # Counts are whole: what is written in thousandths is none.
    r"(?:[x×*·⋅]\s*|[(\[]\s*)(?:10(?:\^|\*\*)-|1e-|10⁻)[\d⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2}\s*[)\]]?|"
    r"[ (\[](?:‰|ppm|per[ _-]?mille)[)\]]?|[ _.\-(\[](?:ratio|rate|fraction|share|"
    r"utili[sz]ation|efficiency|frequency|freq|[kmg]?hz|gflops?|mflops?|mips|"
    r"per[ _.-]?(?:s|sec|second|ms|us|cycle))[)\]]?|(?:/|[ _]p)(?:s|sec|second)[)\]]?|"
    r"(?:hit|miss)[ _-]?(?:rate|ratio)s?)$|^(?:utili[sz]ation|efficiency|gflops?|mflops?|mips|pct|"
    r"\w*anteil|\w*quote|\w*(?:fehler|treffer)rate|prozent|pourcentage|porcentaje|percentuale|procent|"
    r"percent(?:age)?|%|ratio|rate|"
    r"speed[ _-]?ups?|slow[ _-]?downs?)$|"
    r"^(?:pct|percent(?:age)?)[ _.-]|"
    r"^(?:(?:avg|mean|max|min|read|write)[ _.-])?(?:[bfpqrt]ps|iops)$|"
    r"^(?:cpu|avg|mean|core|clock|bzy|tsc|cur)?[ _.-]?(?:freq(?:uency)?|[kmg]hz)(?:[ _.\-(\[]?[kmg]?hz[)\]]?)?$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"[a-z](?:Rate|Ratio|Percent|Percentage|Pct|Frequency|Utilization)$")
_SMALL = 1000.0
_SCALE = "scale"
_BASELINE = "one row"
_PER_CENT = 100.0
_MOST_PER_CENT = 1_000.0  # ten times the baseline
_FEWEST_ALIKE, _MOST_COMPARED = 3, 100_000
_PIECE = 1 << 20
_KEY = ["run", "place", "interval"]


@dataclass(frozen=True)
class Divided:
    """What was found: every interval has ``value`` of ``base``; ``total`` is the event that undoes it."""

    base: str
    value: float
    total: str = ""

    def reason(self) -> str:
        """Say why the table cannot be used."""
        if self.base == _SCALE:
            return (
                f"the counts were divided by the column {_SCALE} ({self.value:g}) and rounded before they were "
                "written, and the seconds were not. The methods need counts: print them with a scale of 1"
            )
        if self.base == _BASELINE:
            return (
                f"all columns are {self.value:g} in one row: the table tells per cent of that row and no counts. "
                "The methods need counts: give the table as it was counted"
            )
        if not self.value:
            return (
                f"the values of {self.base} are fractions below {_SMALL:g}, so the columns were divided or scaled "
                "before they were written. The methods need counts: give the undivided table"
            )
        return (
            f"{self.base} is {self.value:g} in every row, so the columns were divided by it before they were written. "
            "Rates cannot be undone without the counts they were divided by: give the undivided table, or add a column "
            f"total_{self.base} with the count of each row"
        )


def find_divided(counts: pd.DataFrame) -> Divided | None:
    """Return how a long table of counts (event, count, run, place, interval) was divided; None for counts."""
    events = counts["event"].astype("category")
    names = [str(e) for e in events.cat.categories]
    values = counts["count"].to_numpy(dtype="float64")
    fractional = _fractional(values, events.cat.codes.to_numpy(), names)
    if _of_baseline(counts):
        return Divided(_BASELINE, _PER_CENT)
    fractional = {e for e in fractional if not is_fixed_rate(e) or normalise(e) in (*WORK_EVENTS, *TIME_EVENTS)}
    if not fractional:
        return None
    scales = values[(events == _SCALE).to_numpy()]
    if len(scales) and any(normalise(e) in (*WORK_EVENTS, *TIME_EVENTS) for e in fractional):
        return Divided(_SCALE, float(scales[0]))  # as perfevent prints them
    for axis in (WORK_EVENTS, TIME_EVENTS):
        for name in (n for n in names if normalise(n) in axis):
            own = values[(events == name).to_numpy()]
            own = own[np.isfinite(own)]
            same = len(own) > 0 and own.min() == own.max() and own[0] in _BASES
            if same and (len(own) > 1 or own[0] == 1.0) and fractional - {name}:
                total = next((n for n in names if n != name and _TOTAL.match(n.lower()) and n not in fractional), "")
                of_axis = total and ("cyc" in total.lower()) == (axis is TIME_EVENTS)
                return Divided(name, float(own[0]), total if of_axis else "")
            if name in fractional and len(own) and np.median(own) < _SMALL:
                return Divided(name, 0.0)
    return None


def _of_baseline(counts: pd.DataFrame) -> bool:
    """Whether a row without a time has exactly 100 of each event, three at least: per cent of a baseline."""
    hundred = (counts["count"] == _PER_CENT).to_numpy()
    alike = {normalise(str(e)) for e in counts["event"][hundred].unique()} if len(counts) <= _MOST_COMPARED else set()
    timed = any(counts[column].notna().any() for column in ("at", "seconds") if column in counts)
    if timed or not (alike & set(TIME_EVENTS) and alike & set(WORK_EVENTS)):
        return False
    keys = [counts[column] for column in ("run", "place") if column in counts]
    number = counts["interval"] if "interval" in counts else counts.groupby([*keys, counts["event"]]).cumcount()
    if not counts["count"].max() <= _MOST_PER_CENT:
        return False
    rows = pd.Series(hundred).groupby([*(k.to_numpy() for k in keys), number.to_numpy()]).agg(["all", "size"])
    return bool((rows["all"] & (rows["size"] >= _FEWEST_ALIKE)).any())


def _fractional(values: np.ndarray, codes: np.ndarray, names: list[str]) -> set[str]:
    """Return the events of which at least half of the counts have fractions; in pieces, since tables are large."""
    rows, whole = np.zeros(len(names)), np.zeros(len(names))
    for start in range(0, len(values), _PIECE):
        part, of = values[start : start + _PIECE], codes[start : start + _PIECE]
        rows += np.bincount(of, minlength=len(names))
        whole += np.bincount(of[np.isnan(part) | (part % 1 == 0)], minlength=len(names))
    return {name for name, n, w in zip(names, rows, whole, strict=True) if n and w < 0.5 * n}


def restore(counts: pd.DataFrame, divided: Divided) -> pd.DataFrame:
    """Return counts from rates, by the column of totals of the same table; the column itself is left out."""
    is_total = (counts["event"] == divided.total).to_numpy()
    totals = counts[is_total].set_index(_KEY)["count"]
    rows = counts[~is_total].reset_index(drop=True)
    factor = totals.reindex(pd.MultiIndex.from_frame(rows[_KEY])).to_numpy() / divided.value
    return rows.assign(count=rows["count"].to_numpy() * factor)


def is_rate(name: str) -> bool:
    """Whether a column's name says that it was divided (``branch-mpki``, ``loads per cycle``, ``LLC miss (%)``)."""
    return any(p.search(name) is not None for p in (_PER, _SHARE, _CAMEL))
