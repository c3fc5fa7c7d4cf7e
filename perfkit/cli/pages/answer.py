"""One-screen pages: the answer first, one picture, three numbers, what to beware of, and the evidence below.

A page holds nothing but what it is given: no code, no lesson, no data that ships, nothing fetched. Names that come from
dumps are text in it, whatever they look like.
"""

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.base.files import replaced
from perfkit.errors import counted
from perfkit.plots.style import breakable
from perfkit.samples.events import per_unit

if TYPE_CHECKING:
    from perfkit.exploration.exploration import Exploration
    from perfkit.exploration.methods import Tried
    from perfkit.fitters.cpi.stack import CpiFit
    from perfkit.fitters.spire.ranking import Ranking
    from perfkit.fitters.studies.analysis import AnalysisResult
    from perfkit.simulators.dag.extended_roofline import Roofs
    from perfkit.simulators.dag.relax import Relaxation
    from perfkit.simulators.gus.gus import GusResult
    from perfkit.simulators.gus.sensitivity import Sensitivity

_TRUST = {"supported": "good", "uncertain": "fair", "unsupported": "poor", "not applicable": "none"}
_ROWS = 40
_FEW = 3  # columns that fit a phone beside each other
_MANY = 8  # columns: in wider tables names go on in another line
_WORD = 24  # letters of the longest word that a table keeps whole
_TINY = 1e-7  # numbers below it keep their exponents
_SEEN = 0.05  # per cent: less is printed as nothing
# Columns of a ranking that its page shows, and their headings.
_SHORT = {
    "event": "event",
    "throughput_bound": "bound",
    "low": "low",
    "high": "high",
    "left_fraction": "left of the peak",
    "outside": "outside of training",
    "n_samples": "samples",
    "n_training": "in training",
    "status": "status",
}
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #f2f4f7; --line: #d5dae1; --dim: #59626e;
  --good: #0b6b3a; --fair: #8a5a00; --poor: #a8231c; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #16181c; --soft: #21252b; --line: #3a414b;
  --dim: #a3acb8; --good: #6fd39b; --fair: #f0bd62; --poor: #ff9a8f; --link: #7fb6ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 20px 28px 48px; }
.what { color: var(--dim); font-size: 14px; margin: 0; overflow-wrap: anywhere; }
h1 { font-size: 25px; line-height: 1.3; margin: 6px 0 14px; overflow-wrap: anywhere; }
.behind { font-size: 18px; margin: -6px 0 14px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 30px 0 8px; }
.trust { display: inline-block; padding: 2px 12px; border: 1px solid currentColor; border-radius: 99px;
  font-weight: 600; font-size: 14px; margin-bottom: 12px; }
.link { color: var(--link); }
.good { color: var(--good); } .fair { color: var(--fair); } .poor { color: var(--poor); } .none { color: var(--dim); }
.first { display: grid; grid-template-columns: minmax(0, 1.7fr) minmax(200px, 1fr); gap: 24px; align-items: start; }
.first img { width: 100%; background: #ffffff; border: 1px solid var(--line); border-radius: 6px; }
.number { border-left: 3px solid var(--line); padding: 0 0 0 12px; margin: 0 0 14px; }
.number b { display: block; font-size: 25px; line-height: 1.2; }
.number span { color: var(--dim); font-size: 14px; overflow-wrap: anywhere; }
ul { padding-left: 20px; margin: 6px 0; } li { margin: 3px 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; min-width: min(100%, 30em); font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 5px 16px 5px 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
th:last-child, td:last-child { padding-right: 0; }
.figure { text-align: right; font-variant-numeric: tabular-nums; }
td.figure { white-space: nowrap; }
td.figure::after { content: attr(data-fill); visibility: hidden; }
@media (min-width: 721px) { .word { white-space: nowrap; } .word wbr { display: none; } }
pre { background: var(--soft); padding: 10px 12px; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 13px; margin: 6px 0; }
.wide { overflow-x: auto; }
.wide img { max-width: 100%; background: #ffffff; }
@media (prefers-color-scheme: dark) { .first img, .wide img, .wide > svg { filter: invert(0.91) hue-rotate(180deg); }
  .first img { border-color: #d5dae1; } }
.numbers { display: flex; flex-wrap: wrap; gap: 6px 36px; }
.bars { display: grid; grid-template-columns: minmax(0, 17em) minmax(60px, 1fr) auto; gap: 3px 14px; font-size: 14px;
  grid-auto-flow: dense; }
.bars > * { overflow-wrap: anywhere; }
.bars .name { grid-column: 1; }
.bars .track { grid-column: 2; }
.bars .figures { grid-column: 3; text-align: right; font-variant-numeric: tabular-nums; }
.track { position: relative; margin-top: 5px; height: 12px; background: var(--soft); }
.track i { position: absolute; top: 0; bottom: 0; background: currentColor; }
.track.middle::after { content: ""; position: absolute; left: 50%; top: -2px; bottom: -2px; border-left: 1px solid
  var(--dim); }
.line { border-top: 1px solid var(--line); padding: 6px 0; }
.line > p { margin: 0 0 4px; overflow-wrap: anywhere; }
.line code { font-size: 13px; }
.two { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 4px 24px;
  align-items: start; }
.two table { table-layout: fixed; width: 100%; font: 12px/1.45 ui-monospace, monospace; }
.two th, .two td { padding: 1px 8px 1px 0; border: 0; }
.two th:first-child { width: 9.4em; }
.two td:last-child, .two th:last-child { text-align: right; white-space: nowrap; padding-right: 0; width: 7em; }
@media (max-width: 720px) { .first, .two { grid-template-columns: minmax(0, 1fr); } main { padding: 16px 14px 36px; }
  h1 { font-size: 20px; } .bars { grid-template-columns: minmax(0, 1fr) auto; } .bars .figures { grid-column: 2; }
  .bars .track { grid-column: 1 / -1; margin-bottom: 6px; }
  .cards { width: 100%; } .cards thead { display: none; }
  .cards tr { display: block; padding: 6px 0; border-bottom: 1px solid var(--line); }
  .cards td { display: grid; grid-template-columns: 8.5em minmax(0, 1fr); gap: 10px; padding: 1px 0; border: 0; }
  .cards td.figure { text-align: left; } .cards td.figure::after { content: none; }
  .cards td::before { content: attr(data-label); color: var(--dim); } .cards td:empty { display: none; } }
"""


_NOTHING_ELSE = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)


class Markup(str):
    """HTML that is complete: every text in it is escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class AnswerPage:
    """What a page says.

    ``verdict`` in one sentence and ``trust`` (supported, uncertain, unsupported, not applicable, or ""); ``numbers`` as
    (value, what it is); ``picture`` is drawn by the result's ``plot``; ``evidence`` are (heading, table, text, picture
    or `Markup`); ``unseen`` is what the answer does not cover, which is no warning; ``behind`` are sentences that
    belong to the verdict, ``besides`` those that can wait.
    """

    title: str
    verdict: str
    trust: str
    numbers: tuple[tuple[str, str], ...]
    caveats: tuple[str, ...] = ()
    picture: bytes = b""
    alt: str = ""
    commands: tuple[str, ...] = ()
    evidence: tuple[tuple[str, Any], ...] = field(default=())
    unseen: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()


def write_page(answer: AnswerPage, path: str | Path) -> Path:
    """Write a page, replacing an older one only when it is complete."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as temporary:
        temporary.write_text(page(answer), encoding="utf-8")
    return target


def page(answer: AnswerPage) -> str:
    """Return the HTML of a page; it needs no network and no script."""
    trust = answer.trust and f'<span class="trust {_TRUST.get(answer.trust, "none")}">{_text(answer.trust)}</span>'
    picture = ""
    if answer.picture:
        data = base64.b64encode(answer.picture).decode()
        picture = f'<img alt="{_text(answer.alt)}" src="data:image/png;base64,{data}">'
    numbers = "".join(
        f'<p class="number"><b>{_text(value)}</b><span>{breakable(what)}</span></p>' for value, what in answer.numbers
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Whatever a name in a dump pretends to be, the page runs nothing and fetches nothing.
        _NOTHING_ELSE,
        f"<title>{_text(answer.title)}</title><style>{_STYLE}</style></head><body><main>",
        f'<p class="what">{breakable(answer.title)}</p>',
        f"<h1>{breakable(answer.verdict)}</h1>",
        "".join(f'<p class="behind">{breakable(each)}</p>' for each in answer.behind),
        trust,
        f'<div class="first"><div>{picture}</div><div>{numbers}</div></div>'
        if picture
        else f'<div class="numbers">{numbers}</div>',
        _list("Besides", answer.besides),
        _list("Beware", answer.caveats),
        _list("Not seen", answer.unseen),
        "<h2>Measure next</h2>" + "".join(f"<pre>{_text(c)}</pre>" for c in answer.commands) if answer.commands else "",
        *(f"<h2>{_text(heading)}</h2>{_evidence(what)}" for heading, what in answer.evidence),
        "</main></body></html>",
    ]
    return "\n".join(p for p in parts if p)


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _list(heading: str, items: Sequence[str]) -> str:
    return f"<h2>{heading}</h2><ul>{''.join(f'<li>{breakable(i)}</li>' for i in items)}</ul>" if items else ""


def _evidence(what: Any) -> str:
    if isinstance(what, Markup):
        return what
    if isinstance(what, bytes):
        return f'<div class="wide"><img alt="" src="data:image/png;base64,{base64.b64encode(what).decode()}"></div>'
    if not isinstance(what, pd.DataFrame):
        return f"<pre>{_text(what)}</pre>"
    table = _table(what.head(_ROWS))
    more = f"<p class='what'>and {len(what) - _ROWS} more rows</p>" if len(what) > _ROWS else ""
    return f'<div class="wide">{table}</div>{more}'


def _table(frame: pd.DataFrame) -> str:
    """Return a table whose cells know their columns' names: on a phone each row of a wide one is a block of its own."""
    names = [str(name) for name in frame.columns]
    whole = _WORD if len(names) <= _MANY else 0
    columns = [_column(name, frame.iloc[:, k].tolist(), whole) for k, name in enumerate(names)]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*(cells for _, cells in columns), strict=True))
    kind = ' class="cards"' if len(names) > _FEW else ""
    return f"<table{kind}><thead><tr>{''.join(head for head, _ in columns)}</tr></thead><tbody>{rows}</tbody></table>"


def _column(name: str, values: list[Any], whole: int) -> tuple[str, list[str]]:
    """Return a column's head and cells; those of numbers stand with their decimal points below each other.

    Words of up to ``whole`` letters stay in one line, except on a phone.
    """
    label = f'data-label="{_text(name)}"'
    there = [value for value in values if not _missing(value)]
    if not there or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        cells = [f"<td {label}>{'' if _missing(value) else _words(str(value), whole)}</td>" for value in values]
        return f"<th>{breakable(name)}</th>", cells
    shown = iter(_figures(there))
    texts = ["" if _missing(value) else next(shown) for value in values]
    places = [len(text.partition(".")[2]) for text in texts]
    most = max(places)
    cells = []
    for text, own in zip(texts, places, strict=True):
        # What a shorter number lacks behind its last digit is kept free.
        fill = ("" if own or most == 0 else ".") + "0" * (most - own) if text else ""
        cells.append(f'<td class="figure" {label} data-fill="{fill}">{text}</td>')
    return f'<th class="figure">{breakable(name)}</th>', cells


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and pd.isna(value))


def _figures(values: list[Any]) -> list[str]:
    """Return numbers of one column with as many decimals each, which show the largest in four or five digits.

    Whole numbers are whole, nothing is 0, and what these decimals would not show has two digits of its own.
    """
    sizes = [abs(value) for value in values if _TINY <= abs(value) < float("inf")]
    largest = max(sizes, default=1.0)
    needed = max((len(_digits(size, 4).partition(".")[2]) for size in sizes), default=0)
    decimals = min(needed, max(1, 3 - math.floor(math.log10(largest)) + (largest >= 1)))
    return [_figure(value, decimals) for value in values]


def _figure(value: float, decimals: int) -> str:
    if isinstance(value, int) or value == 0:
        return f"{value:.0f}"
    if decimals and abs(value) < 10 ** (1 - decimals):
        return _digits(value, 2)
    return f"{value:.{decimals}f}"


def _digits(value: float, digits: int) -> str:
    """Return a number in that many digits, written out, but for the tiniest."""
    text = f"{value:.{digits}g}"
    return text if abs(value) < _TINY else np.format_float_positional(float(text), trim="-")


def _words(text: str, whole: int) -> str:
    short = len(text) <= whole and " " not in text
    return f'<span class="word">{breakable(text)}</span>' if short else breakable(text)


def illustrated(picture: bytes, alt: str, text: str) -> Markup:
    """Return a picture with a sentence above it."""
    data = base64.b64encode(picture).decode()
    image = f'<img alt="{_text(alt)}" src="data:image/png;base64,{data}">'
    return Markup(f'<p class="what">{breakable(text)}</p><div class="wide">{image}</div>')


def drawn(result: Any, *, tall: bool = False, **options: Any) -> bytes:
    """Return a result's picture as PNG; nothing where it cannot be drawn (the rest of the page is kept).

    A ``tall`` one keeps its own height, which grows with its rows.
    """
    import matplotlib.pyplot as plt

    from perfkit.errors import PerfkitError

    try:
        picture = result.plot(**options)
    except (PerfkitError, ArithmeticError, LookupError, TypeError, ValueError):
        return b""
    figure = getattr(picture, "figure", picture)
    figure.set_size_inches(7.6 if tall else 6.6, figure.get_figheight() if tall else 3.6)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130, bbox_inches="tight")  # legends beside the axes, too
    plt.close(figure)
    return out.getvalue()


def _number(count: str, plural: str) -> tuple[str, str]:
    """Return a number and what it is of, which may be one."""
    return count, plural.removesuffix("s") if count == "1" else plural


def _in_percent(table: pd.DataFrame, *shares: str) -> tuple[pd.DataFrame, str]:
    """Return a table with its shares in per cent, without rows where all round to nothing, and a word about these."""
    percent = (100 * table[list(shares)]).round(1)
    seen = percent.abs().max(axis=1) > _SEEN
    left_out = int((~seen).sum())
    told = f" ({left_out} more {'has' if left_out == 1 else 'have'} less than 0.1 %)" if left_out else ""
    shown = table.assign(**percent).rename(columns={share: f"{share} (%)" for share in shares})
    return shown[seen], told


# ------------------------------------------------------------------ the templates


def of_exploration(found: "Exploration", tried: "Sequence[Tried]") -> AnswerPage:
    """Return the first look at dumps."""
    # The picture is the headline's, or of another method that may be believed; never of one that may not.
    usable = [t for t in tried if t.trust in ("supported", "uncertain") and hasattr(t.result, "plot")]
    best = min(usable, key=lambda t: (t.finding not in found.headline, t.trust != "supported"), default=None)
    several = len(found.compared) > 1
    # One run's bar alone would say no more than the number beside it.
    picture = drawn(found) if several else drawn(best.result) if best else b""
    cpi = found.compared["time per work"].dropna()
    time, _, work = found.facts["time and work"].partition(" (")[0].partition(" and ")
    slots = any("[slots x s]" in event or "[cycles x s]" in event for event in (time, work))  # toplev's shares
    throughput = (
        (f"{1 / cpi.mean():.3g}", per_unit(work, time))
        if len(cpi) < 2
        else (f"{cpi.min():.3g} to {cpi.max():.3g}", f"{per_unit(time, work)}, of the runs")
    )
    numbers = [
        *([throughput] if len(cpi) and not slots else []),
        *([_number(found.facts["intervals"].partition(", ")[0], "intervals")] if len(cpi) else []),
        _number(found.facts["events"].partition(":")[0], "events"),
    ]
    trusts = [t.trust for t in tried if t.finding and t.finding in found.headline]
    return AnswerPage(
        f"First look: {found.facts['files']} ({found.kind} data)",
        found.headline,
        trusts[0] if trusts else ("uncertain" if "uncertain" in found.headline else ""),
        tuple(numbers),
        (*found.quality, *(f"not read: {f}" for f in found.failed)),
        picture,
        "picture of the headline",
        found.measure_next,
        (
            ("Which methods this dump allows", found.methods),
            ("What it is", pd.DataFrame(list(found.facts.items()), columns=["", " "])),
            *((("Runs: time per work, events per 1000 of work", found.compared.reset_index()),) if several else ()),
            *((("What the readers left out", "\n".join(found.notes)),) if found.notes else ()),
        ),
    )


def of_cpi(fit: "CpiFit") -> AnswerPage:
    """Return the page of a CPI stack."""
    parts = fit.components.drop("base").sort_values(ascending=False)
    first, share = str(parts.index[0]), float(parts.iloc[0] / fit.cpi)
    trust = fit.verdict.level
    shown = (
        f"CPI {fit.cpi:.3g}: the base takes {fit.base / fit.cpi:.0%}; the largest other part is {first} ({share:.0%})."
    )
    if trust == "unsupported":
        shown = f"CPI {fit.cpi:.3g}, and these counts do not support a CPI stack."
    return AnswerPage(
        f"CPI stack of {fit.name} ({fit.kind} data)",
        shown,
        trust,
        (
            (f"{fit.cpi:.3g}", "cycles per instruction"),
            (f"{fit.base / fit.cpi:.0%}", "base: what the instructions themselves cost"),
            (f"{fit.penalties[first]:.3g}", f"cycles per count of {first}"),
        ),
        (*(() if trust == "supported" else fit.verdict.reasons), *fit.warnings),
        drawn(fit),
        "the CPI stack",
        (),
        (
            *((("Why", str(fit.verdict)),) if trust == "supported" else ()),
            ("The stack", fit.to_frame().reset_index()),
            ("All of it", str(fit)),
        ),
    )


def of_spire(ranking: "Ranking", trained_on: str, runs: int = 0) -> AnswerPage:
    """Return the page of a SPIRE ranking; `runs` is of how many the model was learnt, where that is known."""
    table = ranking.to_frame(details=True)
    first = table.iloc[0]
    below = ranking.throughput > 1.02 * ranking.throughput_bound
    # Never supported (docs/samples.md), as of a first look: see the last caveat.
    trust = "unsupported" if ranking.caveats else "uncertain"
    caveats = list(ranking.caveats)
    if below:
        caveats.append("the workload is faster than its lowest bound: training lacks runs like it")
    if first["outside"] >= 0.5:
        caveats.append(f"{first['outside']:.0%} of the time lies at intensities that training did not reach")
    if len(ranking.candidates) > 1:
        caveats.append(f"as low within the spread: {', '.join(ranking.candidates[1:8])}")
    if not ranking.caveats:
        learnt = "trained on a single run: its bounds are that run's own"
        if runs != 1:
            learnt = "a model does not tell of how many programs: bounds learnt from one are that program's"
        caveats.append(learnt)
    unit = per_unit(ranking.work_event, ranking.time_event)
    return AnswerPage(
        f"SPIRE ranking ({ranking.kind} data, trained on {ranking.training_kind} data: {trained_on})",
        f"{first['event']} bounds this workload most: at most {ranking.throughput_bound:.3g} {unit}.",
        trust,
        (
            (f"{ranking.throughput:.3g}", f"measured {unit}"),
            (f"{ranking.throughput_bound:.3g}", f"the lowest bound, of {first['event']}"),
            (f"{int((table['status'] == 'ok').sum())}", "events ranked"),
        ),
        tuple(caveats),
        drawn(ranking),
        "the events with the lowest bounds",
        (),
        (("The ranking", table.rename(columns=_SHORT)[list(_SHORT.values())]),),
    )


def of_gus(result: "GusResult", ranked: "Sensitivity") -> AnswerPage:
    """Return the page of a simulated trace: where its cycles go, and what would make it faster."""
    from perfkit.simulators.gus.gus import ACCOUNT

    origin, core = result.trace.provenance, result.settings.core.name
    name = origin.title or "the trace"
    table = ranked.to_frame()
    weight, gain = ranked.weights[-1], float(table.iloc[0, -1])
    table["resource"] = table["resource"].astype(str)
    gains, others = _in_percent(table, *table.columns[1:])
    if ranked.bottleneck:
        verdict = f"{ranked.bottleneck} holds {name} back: {weight:g} times better, it would run {gain:.0%} faster."
    else:
        verdict = f"No resource alone, {weight:g} times better, makes {name} faster."
    where = result.to_frame().sort_values("time_share", ascending=False, kind="stable")
    columns = ["time_share", "cause", "text", "function", "file", "line", "executions"]
    where, short = _in_percent(where[[c for c in columns if c in where]], "time_share")
    caveats = [f"simulated on the core {core}: compare its cycles with measured ones before you act on them"]
    if not origin.complete:
        caveats.insert(0, "the trace was cut off at its limit: this is the beginning of the run only")
    return AnswerPage(
        f"Gus: {name} on {core} (simulated)",
        verdict,
        "uncertain" if not origin.complete else "",
        (
            (f"{result.cycles:,.0f}", f"simulated cycles of {result.instructions:,} instructions"),
            (f"{result.ipc:.2f}", "instructions per cycle"),
            (f"{gain:+.0%}", f"gain with {ranked.bottleneck or 'any one resource'} {weight:g} times better"),
        ),
        tuple(caveats),
        drawn(ranked),
        "gains by better resources",
        (),
        (
            (f"What if this resource were better? Speedups{others}", gains),
            (f"Where the time goes{short}", where),
            (f"Cycles per instruction by cause: {ACCOUNT}", result.cpi_stack().reset_index()),
        ),
    )


def of_roofline(roofline: "Roofs", relaxed: "Relaxation") -> AnswerPage:
    """Return the page of an extended roofline: the roofs beside the point, and what each better resource gains."""
    schedule, gains = roofline.schedule, relaxed.to_frame()
    gain = float(gains["gain"].iloc[0]) if len(gains) else 0.0
    table, others = _in_percent(gains, "gain")
    if relaxed.bottleneck:
        better = float(gains["better"].iloc[0])
        times = "twice" if better == 2 else f"{better:.3g} times (in whole cycles)"
        verdict = f"{relaxed.bottleneck} holds {schedule.name} back: {times} as good, it would run {gain:.0%} faster."
    else:
        verdict = f"No resource alone, twice as good, makes {schedule.name} faster."
    caveats = [f"simulated on the core {schedule.core.name}: one latency per type of operation, caches without sets"]
    if schedule.coverage < 0.995:
        caveats.insert(0, f"{schedule.coverage:.0%} of the executed instructions are in this DAG")
    return AnswerPage(
        f"Extended roofline: {schedule.name} on {schedule.core.name} (simulated)",
        verdict,
        "uncertain" if schedule.coverage < 0.8 else "",
        (
            (f"{roofline.performance:.3g}", f"{schedule.unit} per cycle"),
            (f"{roofline.intensity:.3g}", f"{schedule.unit} per byte, over all levels"),
            (f"{schedule.cycles:,}", "simulated cycles"),
        ),
        tuple(caveats),
        drawn(roofline),
        "the roofs and the performance point",
        (),
        (("Roofs that hit the point", roofline.verdict), (f"What each better resource gains{others}", table)),
    )


def of_study(found: "AnalysisResult") -> AnswerPage:
    """Return the page of a mined table of measurements."""
    importance = found.importance
    numbers = [(f"{found.rows_learnt:,}", f"rows analysed, of {found.rows_read:,} read")]
    if importance is not None and not importance.only_one_category:
        ranked = importance.to_frame()["mdi"]
        numbers.append((f"{ranked.iloc[0]:.0%}", f"importance of {ranked.index[0]} (mean decrease in impurity)"))
    if found.categories is not None:
        count, _, what = counted(len(found.categories), "categories").partition(" ")
        numbers.append((count, f"{what} of {found.categories.target}"))
    return AnswerPage(
        f"Study: {', '.join(found.settings.input) or 'a table'} ({found.kind} data)",
        _explained(found),
        "",
        tuple(numbers),
        found.about_rows,
        drawn(found, tall=True),
        "what separates the measurements",
        (),
        (("Findings", found.summary()), ("The processed table", found.table)),
    )


def _explained(found: "AnalysisResult") -> str:
    """Return what explains the differences, in one sentence."""
    regression, importance = found.regression, found.importance
    itself = ""
    if regression is not None and regression.is_constant:
        itself = f"none of it varies: {regression.verdict}"
    elif regression is not None and not regression.beats_guessing:
        itself = "the regression is not shown to be better than guessing"
    elif regression is not None:
        itself = f"in the regression {_first(regression.importance, f' of {regression.target}', regression.score)}"
    if any(part is not None and part.only_one_category for part in (found.tree, importance)):
        target = found.categories.target if found.categories is not None else "the target"
        itself = itself or "a regression learns the target itself"
        return f"Only one category of {target} was found, so that there is nothing to tell apart; {itself}."
    if importance is None:
        first = found.summary().partition("\n")[0]
        return f"{first[:1].upper()}{first[1:]}."
    if importance.beats_guessing:
        return f"{_first(importance.mdi)}."
    if regression is not None and regression.beats_guessing:
        return f"None of the features is shown to tell the categories apart; {itself}."
    return "None of the features is shown to explain the differences: guessing does as well."


def _first(shares: Mapping[str, float], of: str = "", score: float | None = None) -> str:
    """Say which feature explains most, or the largest part where that is not half."""
    (first, share), *others = sorted(shares.items(), key=lambda one: -one[1])
    part, other = "most", ""
    if share <= 0.5 and others:
        part, other = "the largest part", f"; {others[0][0]} {others[0][1]:.0%}"
    how = "" if score is None else f"; R^2 {score:.2f}"
    return f"{first} explains {part} of the differences{of} ({share:.0%} of the importance{other}{how})"
