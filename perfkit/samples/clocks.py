"""Columns and events that tell the time, or run at a fixed rate: no cause of anything, never ranked or fitted."""

import re
from dataclasses import dataclass

import numpy as np

from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

_UNITS = {
    "ns": 1e-9, "nsec": 1e-9, "nsecs": 1e-9, "nanosecond": 1e-9, "nanoseconds": 1e-9,
    "us": 1e-6, "usec": 1e-6, "usecs": 1e-6, "µs": 1e-6, "μs": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
    "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "millis": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0, "minutes": 60.0,
    "sek": 1.0, "sekunden": 1.0, "secondes": 1.0, "segundos": 1.0, "secondi": 1.0, "с": 1.0, "сек": 1.0, "мс": 1e-3,
    "мкс": 1e-6, "нс": 1e-9, "秒": 1.0, "毫秒": 1e-3, "微秒": 1e-6, "ミリ秒": 1e-3, "초": 1.0,
}  # fmt: skip
_WORDS = (
    r"(?:(?:wall|real|cpu|user|sys|system|total|run|exec|execution|start|end|begin|stop|monotonic|sample|unix|elapsed|"
    r"interval|relative|abs|absolute|kernel|gpu|time|tsc|ts|t)[ _.-]?)*"
    r"(?:time[ _.-]?stamps?|[us]time|time[ _-]?bin|time|start|begin|end|stop|datetime|date|clock[ _.-]?time|"
    r"wall[ _.-]?clock|epoch|elapsed|duration|runtime|uptime|"
    r"latency|period|interval|delta(?:[ _-]?t(?:ime)?)?|dt|ts|t|"
    # As spreadsheets in German, French, Spanish, Portuguese, Polish, Russian, Chinese, Japanese and Korean say.
    r"(?:lauf|start|end|uhr)?zeit(?:punkt|stempel)?|datum|dauer|dur[ée]e|horodatage|tiempo|duraci[oó]n|dura[cç][aã]o|durata|czas|"
    r"время|длительность|时间|時間|时长|시간)"
)
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_TEN = r"(?:[x×*·⋅]\s?)?(?:1e|10\^|10\*\*)(?P<power>-?\d\d?)\s+"  # "10^-3 s"
_RAISED = re.compile("(?<=10)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_AS_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_WITH_UNIT = r"temps|tempo|tijd|tid|zaman|s[üu]re|час"  # temperatures, a rate, a thread or an hour otherwise
_NAME = re.compile(
    rf"^(?:(?:(?P<word>{_WORDS})|(?:{_WITH_UNIT})(?=.*\W)|wall(?=[\W_]))"
    rf"(?:[ _.](?:(?P<calls>incl?(?:usive)?)|excl?(?:usive)?))?"
    rf"(?:[ _.,\-]*[\[(（]?(?:{_TEN})?(?P<unit>{_UNIT})[\])）]?)?(?:[ _.-]total)?|"
    rf"(?P<only>{_UNIT}))$",
    re.IGNORECASE,
)
# Words of a length, which is no stamp where it begins far above its steps; "interval" alone numbers the rows.
_LENGTHS = re.compile(
    r"(?:(?:real|cpu|user|exec|execution|kernel|gpu)[ _.-]?time|[us]time|duration|runtime|latency|period|interval|"
    r"delta(?:[ _-]?t(?:ime)?)?|dt|dauer|laufzeit|dur[ée]e|duraci[oó]n|dura[cç][aã]o|durata|длительность|时长)$",
    re.IGNORECASE,
)
_BEGINS, _BOUNDS = re.compile(r"start|begin", re.IGNORECASE), re.compile(r"start|begin|end|stop", re.IGNORECASE)
_FAR = 3.0
_YEARS = 1e9  # in s, since 1970
_EVEN = 1e-9
_DAY, _DAYS = 86_400.0, (36_526, 73_051)  # in s; 2000 to 2100 in days since 1900
_LONGEST_STEP, _OFF = 3600.0, 0.01  # in s
# Events of perf and others that count time or tick at a fixed rate (per second, or per cycle of the core).
_FIXED_RATE = re.compile(
    r"^(?:task-clock(?:-msecs)?|cpu-clock(?:-msecs)?|duration_time|user_time|system_time|(?:topdown\.)?slots(?:_p)?|topdown[.-]total-slots|"
    r"topdown-slots|ref-cycles|bus-cycles|(?:msr/)?(?:tsc|mperf|aperf)/?|"
    r"delta[ _.-]tsc|(?:rd)?tsc[ _.-](?:delta|diff|cycles|ticks)|rdtscp?|"
    r"cpu_clk_unhalted\.(?:ref|ref_tsc|ref_xclk|thread|thread_p|"
    r"thread_any|core|core_p|distributed|one_thread_active)(?:_any|_p)?|cpu_clk_unhalted_(?:ref|core)|uncore_clock|"
    r"elapsed-cycles|(?:real|cpu)_time|perf_cnt_clock.*|cnt_cycles|unc_.*clockticks|.*_clockticks|clks|core_cycles|"
    r"tot_cyc|papi_ref_cyc|papi_tot_cyc|cycles|cpu-cycles|cpu_cycles)(?::.*)?$"
)


@dataclass(frozen=True)
class Clock:
    """A column that tells the time: ``stamps`` that only rise, or lengths; ``seconds`` a unit (NaN: not known)."""

    stamps: bool
    seconds: float


def clock_of(name: str, values: np.ndarray, *, rises: bool | None = None) -> Clock | None:
    """Return what a column tells of time, by its name and its values; None for a column of counts.

    ``rises`` says whether its values are stamps, where that is known better than by their order in the column.

    A unit that the name does not tell is seconds where values have fractions, and told by its size for times since
    1970; else it stays unknown.
    """
    match = _named(name)
    if match is None:
        return None
    known = values[np.isfinite(values)]
    if rises is None:
        rises = bool(len(known) > 1 and (np.diff(known) >= 0).all() and known[-1] > known[0])
    word = match["word"] or ""
    if word.lower() == "interval" and not match["unit"]:
        return None
    if rises and _LENGTHS.search(word) and known[0] > _FAR * np.median(np.diff(known)[np.diff(known) > 0]):
        rises = False
    if (match["word"] or "").lower() in ("t", "ts") and not match["unit"] and not rises:
        return None  # too short a name to say more than its values do
    bound = _BOUNDS.search(word) is not None  # of rows, whether or not they are in their order
    rises = rises or (bound and len(known) == 1)
    if bound and not rises:
        return Clock(False, np.nan)
    unit = _UNITS.get((match["unit"] or match["only"] or "").lower(), np.nan) * 10.0 ** int(match["power"] or 0)
    if match["calls"]:
        return Clock(rises, np.nan)  # of a region with what it called, whose counts may not be
    if np.isnan(unit) and len(known):
        unit = _since_1970(float(np.median(known)))
        if np.isnan(unit) and np.any(known % 1):
            unit = _DAY if rises and _of_days(known) else 1.0
    named = _LENGTHS.search(word) is not None  # a length, in whatever order
    falls = (
        not (rises or named) and len(known) > 2 and np.ptp(np.diff(known)) <= _EVEN * known[0] and known[0] > known[-1]
    )
    if falls or ((not rises or len(known) == 1) and len(known) and np.median(known) * unit > _YEARS):
        unit = np.nan  # times from the last to the first, the one time of all rows, or times in no order: no lengths
    return Clock(rises, unit)


def _named(name: str) -> re.Match[str] | None:
    """Return what the name of a clock is made of: word, unit, power of ten before it; None where it is none's."""
    return _NAME.match(_RAISED.sub(lambda raised: f"^{raised[0].translate(_AS_DIGITS)}", name.strip()))


def _of_days(known: np.ndarray) -> bool:
    """Whether time stamps are days since 1900 (of this century), as spreadsheets keep dates: steps of whole seconds.

    A clock of seconds that shows such numbers has two or three decimals, or no steps of a 86,400th.
    """
    steps = np.diff(known) * _DAY
    in_century = known.min() >= _DAYS[0] and known.max() < _DAYS[1]
    thousandths = 1000 * known
    if np.abs(thousandths - np.round(thousandths)).max() < _OFF:
        return False  # an uptime in hundredths; a second is 1.16e-5 of a day
    short = np.median(steps) < _LONGEST_STEP
    return bool(
        in_century and len(steps) and short and np.abs(steps - np.round(steps)).max() < _OFF and steps.max() > 0.5
    )


def is_name_of_clock(name: str) -> bool:
    """Whether a column's name is one of a clock; "interval" alone is none."""
    match = _named(name)
    return match is not None and ((match["word"] or "").lower() != "interval" or bool(match["unit"]))


def unit_of_clock(name: str) -> str:
    """Return the unit that a clock's name tells (``ms`` of ``time_ms``); "" for none."""
    match = _named(name)
    return (match["unit"] or match["only"] or "") if match is not None else ""


def is_name_of_length(name: str) -> bool:
    """Whether a column's name says that it holds lengths of time (``duration_ms``) and no time stamps."""
    match = _named(name)
    return match is not None and _LENGTHS.search(match["word"] or "") is not None


def is_name_of_beginning(name: str) -> bool:
    """Whether a column's name is that of a clock at the beginning of each row (``start_s``)."""
    return is_name_of_clock(name) and _BEGINS.search(name) is not None


def between(begins: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """Return how long each row took, of its beginning and end in s; None where these are no beginnings of rows.

    They are none where all rows share one (a program's start), and nothing is known where some do.
    """
    shared = (np.diff(begins) == 0) & (np.diff(ends) != 0)
    if len(begins) > 1 and ((np.ptp(begins) == 0 and np.ptp(ends) > 0) or not (ends >= begins).all()):
        return None
    return np.full(len(begins), np.nan) if shared.any() else np.where(ends >= begins, ends - begins, np.nan)


def since_1970(values: np.ndarray, seconds: float) -> bool:
    """Whether stamps count from 1970 (or another far origin) rather than from the run's beginning."""
    known = values[np.isfinite(values)] * seconds
    return bool(len(known) > 1 and known[0] > 20 * (known[-1] - known[0]) and known[0] > 3600)


def _since_1970(value: float) -> float:
    for low, unit in ((1e18, 1e-9), (1e15, 1e-6), (1e12, 1e-3), (1e9, 1.0)):
        if low <= value < 5 * low:
            return unit
    return np.nan


def is_fixed_rate(event: str) -> bool:
    """Whether an event counts time, or slots and cycles that pass whatever the program does, by its name."""
    name = normalise(event.partition("#")[0]).partition(" [")[0]  # "cycles#2": counted twice
    if name in TIME_EVENTS or name in WORK_EVENTS:
        return True
    match = _NAME.match(name)
    return _FIXED_RATE.match(name) is not None or (
        match is not None and (match["word"] or "").lower() not in ("t", "ts", "interval")
    )
