"""Scales that people write beside counts (``cycles (M)``, a column ``unit``), and names of what is no count."""

import re
from collections.abc import Iterable

import numpy as np

from perfkit.samples.divided import is_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

_FACTORS = {
    **dict.fromkeys(
        ("k", "K", "thousand", "thousands", "Tsd", "Tsd.", "tausend", "1e3", "x1000", "x1e3", "×1000"), 1e3
    ),
    **dict.fromkeys(("M", "Mio", "mio", "Mio.", "million", "millions", "mln", "1e6", "x1e6", "×1e6"), 1e6),
    **dict.fromkeys(("G", "B", "Mrd", "Mrd.", "billion", "billions", "bn", "1e9", "x1e9", "×1e9"), 1e9),
    "×1e3": 1e3,
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_TEN = r"10(?:\^\d\d?|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})"
_POWER = re.compile(rf"(?:[x×*·⋅]\s?)?{_TEN}")
_IN_NAME = re.compile(
    rf"^(?P<name>.*[^\s(\[])\s*(?:[(\[]\s*(?:in\s+)?(?P<unit>(?:[*·⋅x×]\s)?[^)\]\s]+)\s*[)\]]|\s+in\s+(?P<words>\w+)|"
    rf"\s*/\s*(?P<over>1e[369]|{_TEN})|\s+(?P<times>[x×*·⋅]\s?{_TEN}))$"
)
# Of time and work only, and with capitals: kernel and user cycles may end in _k and _u, and RISC-V counts mcycle.
_AXIS_SCALED = re.compile(
    r"^(?:(?P<before>[MG])(?P<of>cycles|instructions|insns?|instr?s?)|(?P<name>cycles|instructions|insns?|instr?s?)"
    r"(?:[ _.](?P<behind>[MG]|[Mm]io|mln|millions?|bn|billions?)|[ _]x?(?P<power>1e[369]|10\^[369])))$"
)
# Of the other columns where time or work are scaled in the same manner.
_SCALED_BESIDE = re.compile(
    r"^(?P<name>.*[^\s_.])(?:[ _.](?P<unit>[kKMG]|[Mm]io|Tsd|mln|millions?|bn|billions?|thousands?)|"
    r"[ _]x?(?P<power>1e[369]|10\^[369]))$"
)
# "all counts in thousands", "unit: M", "x1000"; not "10 million rows".
_SAID = re.compile(
    r"(?<!\d)(?<!\d[ _])\b(?:thousands|millions|billions|tausend(?:er)?|millionen|milliers)\b|"
    r"\bin\s+(?:1[,. ]?000|1e[369]|10\^[369]|10[³⁶⁹])|"
    r"[x×*]\s?(?:1000|10\^[369]|1e[369])\b|\b(?:units?|scaled?|factor|multiplier)\b\W{0,4}(?:by\s+)?"
    r"(?:[kKMG]|Mio|mln|thousand|million|billion|1[,.]?000(?:[,.]?000)*|10\^[369]|1e[369])(?:\.0)?\b"
)
_SPREAD = re.compile(
    r"^(?P<of>.+?)[ _.\-(\[]+(?:std(?:[ _.-]?dev(?:iation)?)?|stdev|sd|std[ _.-]?err(?:or)?|stderr|sem|error|err|"
    r"var(?:iance)?|cv|ci|ci[ _]?(?:95|99)|\+-|±|min(?:imum)?|max(?:imum)?|median|p\d\d)[)\]]*$",
    re.IGNORECASE,
)
_DERIVED = (
    r"(?:cum(?:ulated|ulative|sum)?|acc(?:um(?:ulated)?)?|prev(?:ious)?|lag\d*|[se]?ma\d*|norm(?:ali[sz]ed)?|"
    r"(?:moving|rolling)(?:[ _.-]?(?:avg|average|mean))?)"
)
# Bounds of a column, another run's word for it, and what was made of it, beside it.
_BOUND_OF = re.compile(
    r"^(?P<of>.+?)[ _.\-(\[]+(?:q\d\d|ci[ _.-]?(?:95|99)?[ _.-]?(?:lo|low|lower|hi|high|upper)|"
    r"(?:lower|upper)[ _.-]?bound|diff(?:erence)?|delta|change|old|before|base(?:line)?|children|callees|"
    rf"{_DERIVED})[)\]]*$",
    re.IGNORECASE,
)
_DERIVED_OF = re.compile(rf"^{_DERIVED}[ _.\-(\[]+(?P<of>.+?)[)\]]*$", re.IGNORECASE)
# What a region of a call tree and those that it calls did, beside what it did itself; the latter's name.
_INCLUSIVE = re.compile(
    r"^(?:(?P<of>.+?)(?P<behind>[ _.\-(\[]+)inc(?:l(?:usive)?)?(?P<end>[)\]]*)|inc(?:l(?:usive)?)?[ _.](?P<rest>.+))$",
    re.IGNORECASE,
)
_INCLUSIVE_SIGN = re.compile(r"^(?P<of>.+?)[ ]?\(I\)$")  # HPCToolkit's, beside (E)
_MEAN = r"(?:avg|average|mean|median|min(?:imum)?|max(?:imum)?|std(?:[ _.-]?dev(?:iation)?)?|stdev)"
# Beside the column that it is of: "avg cycles", "mean(cycles)", "cycles avg".
_MEAN_OF = re.compile(
    rf"^(?:{_MEAN}[ _.\-(\[]+(?P<of>.+?)[)\]]*|(?P<before>.+?)[ _.\-(\[]+{_MEAN}[)\]]*)$", re.IGNORECASE
)
# Of time and work alone: queues have low and high priorities, links ends.
_END_OF = re.compile(r"^(?P<of>.+?)[ _.\-(\[]+(?:lo|low|lower|hi|high|upper)[)\]]*$", re.IGNORECASE)
# Another's words for time or work beside the counted ones ("predicted_cycles"); predicted branches are counted.
_MODELLED = r"(?:pred(?:icted)?|expected|est(?:imated)?|sim(?:ulated)?|modell?ed|model)"
_MODELLED_OF = re.compile(
    rf"^(?:{_MODELLED}[ _.\-(\[]+(?P<of>.+?)[)\]]*|(?P<before>.+?)[ _.\-(\[]+{_MODELLED}[)\]]*)$", re.IGNORECASE
)
_BESIDE_SUM = re.compile(r"^(?P<of>.+):(?:avg|average|mean|median|min|max|std(?:dev)?)$", re.IGNORECASE)
_RATIOS = re.compile(
    r"^(?:ipc|cpi|upc|mpki|(?:insn|ins(?:tructions?)?)[ _]per[ _]cycle|cycles?[ _]per[ _]ins(?:n|truction))(?::\w+)?$",
    re.IGNORECASE,
)
# Columns of a table of events that sum up its runs or compare them.
_STATISTIC = re.compile(
    r"^(?:speed[ _-]?ups?|gains?|improvements?|changes?|deltas?|diff(?:erence)?s?|ratios?|factors?|relative|"
    r"min(?:imum)?|max(?:imum)?|means?|avg|averages?|medians?|(?:grand[ _-]?)?totals?|sums?|overall|range|"
    r"iqr|mad|shares?|differenz|abweichung|[äa]nderung|verh[äa]ltnis|diff[ée]rence|rapport|diferencia|"
    r"geo[ _-]?mean|gmean|p\d\d|q[123]|n|(?:n[ _-]?)?(?:runs|samples|reps|iters|iterations)|repeats?|repetitions?)$",
    re.IGNORECASE,
)
# Bounds of each event's mean or median, in a column beside those.
_BOUND = re.compile(
    r"^(?:(?:9\d ?%? ?)?ci(?:[ _.-]?9\d)?[ _.-]?(?:lo|low|lower|hi|high|upper)?|lo|low|lower|hi|high|upper|p\d\d)"
    r"(?:[ _.-]?bound)?$",
    re.IGNORECASE,
)
_EXTREMES = ("min", "max", "minimum", "maximum", "median")  # one of them is the counts where nothing else is
_MIDDLE = re.compile(r"^(?:means?|avg|averages?|medians?)$", re.IGNORECASE)
# Readings of a moment that monitors write beside counts. Some words of other languages (temps, tempo) are temperatures,
# rates or, beside a unit, the time: they count nothing either way.
_GAUGE = re.compile(
    r"^(?:(?:cpu|gpu|pkg|package|core|dram|mem(?:ory)?|socket|board|avg|mean|max|peak|cur(?:rent)?|read|write|total)"
    r"[ _.-]?\d*[ _.-]?)*"
    r"(?:temp(?:erature)?|power|watts?|volt(?:age|s)?|util(?:i[sz]ation)?|usage|rss|vsz|heap|bandwidth|bw|throughput|fan|"
    r"load[ _.-]?(?:av(?:g|erage)|1|5|15)|fan[ _.-]?speed|"
    r"temp[eé]ratur[ea]?|leistung|spannung|auslastung|puissance|tension|temperatura|potencia|temps|tempo|tijd|zaman|s[üu]re|час|"
    r"(?<=mem[ _.-])(?:used|free|available)|(?<=memory[ _.-])(?:used|free|available))"
    r"[ _.-]*[(\[]?(?:°?c|celsius|m?w|watts?|m?v|rpm|pct|percent|%|[kmgt]i?b(?:ytes)?(?:/s|ps|s|[ _]s)?)?[)\]]?$|"
    r"^(?:(?:cpu|gpu|pkg|package|dram|socket|board|psu|system)[ _.-]?\d*[ _.-]?)+"
    r"[(\[]?(?:m?w|load(?:[ _.-]?(?:pct|percent|%))?)[)\]]?$|"
    r"^(?:run[ _.-]?)?queue[ _.-]?(?:len(?:gth)?|depth|size)$|^in[ _.-]?flight$",
    re.IGNORECASE,
)
# Latencies are means or percentiles of many, whatever their unit.
_OF_MANY = r"(?:avg|average|mean|median|min|max|tail|p\d\d\d?)"
_UNIT_OF_TIME = r"[ _.-]*[\[(]?(?:cycles|cyc|clk|ns|us|µs|ms|s)[\])]?"
_LATENCY = re.compile(
    rf"^(?:{_OF_MANY}[ _.-]+lat(?:ency)?|lat(?:ency)?[ _.-]+{_OF_MANY})(?:{_UNIT_OF_TIME})?$|^p\d\d\d?{_UNIT_OF_TIME}$",
    re.IGNORECASE,
)


def scaled(name: str) -> tuple[str, float]:
    """Return a column's name without the scale in it, and that scale: ``cycles (M)`` gives cycles and a million."""
    if (axis := _AXIS_SCALED.match(name.strip())) is not None:
        letter = (axis["before"] or axis["behind"] or "")[:1].upper()
        name = axis["of"] or axis["name"]
        return "instructions" if name.startswith("inst") else name, factor_of(letter or axis["power"])
    match = _IN_NAME.match(name.strip())
    factor = 1.0 if match is None else factor_of(next(filter(None, match.groups()[1:])))
    return (name, 1.0) if match is None or factor == 1.0 else (match["name"].strip(), factor)


def scaled_beside(name: str) -> tuple[str, float]:
    """Return `scaled` of a column beside one of time or work that bears its scale behind its name (``cycles_G``)."""
    match = None if bears_scale(name) else _SCALED_BESIDE.match(name.strip())
    return scaled(name) if match is None else (match["name"], factor_of(match["unit"] or match["power"]))


def bears_scale(name: str) -> bool:
    """Whether a column of time or work bears its scale in front of or behind its name, without parentheses."""
    return _AXIS_SCALED.match(name.strip()) is not None


def factor_of(unit: str) -> float:
    """Return what a word scales counts by; 1 for units (Joules, ms) and for words that scale nothing."""
    if _POWER.fullmatch(unit):
        return 10.0 ** int(unit.partition("10")[2].lstrip("^").translate(_RAISED))
    return _FACTORS.get(unit, _FACTORS.get(unit.lower(), 1.0))


def multiplied(values: np.ndarray, factor: "float | np.ndarray") -> np.ndarray:
    """Multiply counts by a scale: what was whole before it was divided is whole again (1050.264 M)."""
    product = values * factor
    whole = np.round(product)
    return np.where(np.isclose(product, whole, rtol=1e-14, atol=0.0), whole, product)


def caution_of_scale(texts: Iterable[str]) -> str:
    """Return a caution where words around a table say that its counts are scaled, which is not applied; or ""."""
    said = next((t.strip().strip("#").strip() for t in texts if _SAID.search(t)), "")
    return (
        f"caution: words around the counts say {said[:80]!r}, and the counts are read as they stand; if they are "
        "scaled, say so in the names of their columns, as in 'cycles (thousands)'"
        if said
        else ""
    )


def is_spread(name: str, names: set[str]) -> bool:
    """Whether a column is a spread, a mean or an extreme of another column, by its name (``cycles_std``)."""
    match, mean = _SPREAD.match(name), _MEAN_OF.match(name)
    beside = _BESIDE_SUM.match(name)
    return (
        (match is not None and match["of"] in names)
        or (mean is not None and (mean["of"] or mean["before"]) in names)
        or (beside is not None and any(n.lower() == f"{beside['of'].lower()}:sum" for n in names))
    )


def is_word_of_another(name: str, names: set[str]) -> bool:
    """Whether a column is a bound of another column, or what a model or another run says of it, by its name.

    Not to be asked of names of runs, which may be called ``zen4`` and ``zen4_old``.
    """
    model = _MODELLED_OF.match(name)
    of_model = (model["of"] or model["before"]) if model else ""
    if of_model in names and normalise(of_model) in (*TIME_EVENTS, *WORK_EVENTS):
        return True
    if (inclusive := _INCLUSIVE.match(name)) and not {n.lower() for n in names}.isdisjoint(_exclusive(inclusive)):
        return True
    if (sign := _INCLUSIVE_SIGN.match(name)) and not names.isdisjoint({f"{sign['of']} (E)", f"{sign['of']}(E)"}):
        return True
    bound, end = _BOUND_OF.match(name) or _DERIVED_OF.match(name), _END_OF.match(name)
    of_axis = end is not None and end["of"] in names and normalise(end["of"]) in (*TIME_EVENTS, *WORK_EVENTS)
    return of_axis or (bound is not None and _plain(bound["of"]) in {_plain(n) for n in names if n != name})


def _plain(name: str) -> str:
    return re.sub(r"[ _.-]", "-", name.lower())


def _exclusive(inclusive: re.Match[str]) -> list[str]:
    """Return how the exclusive counts beside a column of inclusive ones may be called, in small letters."""
    of, behind, end, rest = (inclusive[part] for part in ("of", "behind", "end", "rest"))
    words = ("exc", "excl", "exclusive")
    names = [rest, *(f"{word}_{rest}" for word in words)] if rest else [of, *(f"{of}{behind}{w}{end}" for w in words)]
    return [name.lower() for name in names]


def is_spread_alone(name: str) -> bool:
    """Whether a column that is named for no other is a spread or an error (``std``, ``+-``)."""
    match = _SPREAD.match(f"x_{name}")
    return match is not None and match["of"] == "x" and name.lower() not in _EXTREMES


def is_statistic(name: str) -> bool:
    """Whether a column sums up or compares others, by its name alone (``speedup``, ``total``, ``max``)."""
    return _STATISTIC.match(name.strip()) is not None


def statistics_of(names: Iterable[str]) -> set[str]:
    """Return which names of columns are those of statistics: beside a mean or a median also ``low`` and ``ci_high``."""
    names = [*names]
    beside = any(_MIDDLE.match(n.strip()) for n in names)
    return {n for n in names if is_statistic(n) or (beside and _BOUND.match(n.strip()))}


def is_gauge(name: str) -> bool:
    """Whether a column holds readings of a moment (``temp``, ``power_w``, ``bandwidth``) by its name, and no counts."""
    return _GAUGE.match(name.strip()) is not None or _LATENCY.match(name.strip()) is not None


def is_ratio(event: str) -> bool:
    """Whether an event in a long table is a rate, a quotient or a reading by its name, and no count."""
    name = event.strip()
    return _RATIOS.match(name) is not None or is_rate(name) or is_gauge(name)
