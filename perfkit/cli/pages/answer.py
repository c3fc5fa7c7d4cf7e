"""One-screen pages: the answer first, one picture, three numbers, what to beware of, and the evidence below.

A page holds nothing but what it is given: no code, no lesson, no data that ships, nothing fetched. Names that come from
dumps are text in it, whatever they look like.
"""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from perfkit.files import replaced

if TYPE_CHECKING:
    from perfkit.exploration.exploration import Exploration
    from perfkit.exploration.methods import Tried
    from perfkit.fitters.cpi.stack import CpiFit
    from perfkit.fitters.spire.ranking import Ranking

_TRUST = {"supported": "good", "uncertain": "fair", "unsupported": "poor", "not applicable": "none"}
_ROWS = 40
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
h2 { font-size: 18px; margin: 30px 0 8px; }
.trust { display: inline-block; padding: 2px 12px; border: 1px solid currentColor; border-radius: 99px;
  font-weight: 600; font-size: 14px; margin-bottom: 12px; }
.good { color: var(--good); } .fair { color: var(--fair); } .poor { color: var(--poor); } .none { color: var(--dim); }
.first { display: grid; grid-template-columns: minmax(0, 1.7fr) minmax(200px, 1fr); gap: 24px; align-items: start; }
.first img { width: 100%; background: #ffffff; border: 1px solid var(--line); border-radius: 6px; }
.number { border-left: 3px solid var(--line); padding: 0 0 0 12px; margin: 0 0 14px; }
.number b { display: block; font-size: 25px; line-height: 1.2; }
.number span { color: var(--dim); font-size: 14px; overflow-wrap: anywhere; }
ul { padding-left: 20px; margin: 6px 0; } li { margin: 3px 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
pre { background: var(--soft); padding: 10px 12px; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 13px; margin: 6px 0; }
.wide { overflow-x: auto; }
@media (max-width: 720px) { .first { grid-template-columns: 1fr; } }
"""


_NOTHING_ELSE = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)


@dataclass(frozen=True)
class AnswerPage:
    """What a page says.

    ``verdict`` in one sentence and ``trust`` (supported, uncertain, unsupported, not applicable, or ""); ``numbers`` as
    (value, what it is); ``picture`` is drawn by the result's ``plot``; ``evidence`` are (heading, table or text).
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
        f'<p class="number"><b>{_text(value)}</b><span>{_text(what)}</span></p>' for value, what in answer.numbers
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Whatever a name in a dump pretends to be, the page runs nothing and fetches nothing.
        _NOTHING_ELSE,
        f"<title>{_text(answer.title)}</title><style>{_STYLE}</style></head><body><main>",
        f'<p class="what">{_text(answer.title)}</p>',
        f"<h1>{_text(answer.verdict)}</h1>",
        trust,
        f'<div class="first"><div>{picture}</div><div>{numbers}</div></div>',
        _list("Beware", answer.caveats),
        "<h2>Measure next</h2>" + "".join(f"<pre>{_text(c)}</pre>" for c in answer.commands) if answer.commands else "",
        *(f"<h2>{_text(heading)}</h2>{_evidence(what)}" for heading, what in answer.evidence),
        "</main></body></html>",
    ]
    return "\n".join(p for p in parts if p)


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _list(heading: str, items: Sequence[str]) -> str:
    return f"<h2>{heading}</h2><ul>{''.join(f'<li>{_text(i)}</li>' for i in items)}</ul>" if items else ""


def _evidence(what: Any) -> str:
    if not isinstance(what, pd.DataFrame):
        return f"<pre>{_text(what)}</pre>"
    shown = what.head(_ROWS)
    table = shown.to_html(index=False, escape=True, border=0, na_rep="", float_format=lambda v: f"{v:.4g}")
    more = f"<p class='what'>and {len(what) - _ROWS} more rows</p>" if len(what) > _ROWS else ""
    return f'<div class="wide">{table}</div>{more}'


def drawn(result: Any, **options: Any) -> bytes:
    """Return a result's picture as PNG; nothing where it cannot be drawn (the rest of the page is kept)."""
    import matplotlib.pyplot as plt

    from perfkit.errors import PerfkitError

    try:
        picture = result.plot(**options)
    except (PerfkitError, ArithmeticError, LookupError, TypeError, ValueError):
        return b""
    figure = getattr(picture, "figure", picture)
    figure.set_size_inches(6.6, 3.6)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    plt.close(figure)
    return out.getvalue()


# ------------------------------------------------------------------ the templates


def of_exploration(found: "Exploration", tried: "Sequence[Tried]") -> AnswerPage:
    """Return the first look at dumps."""
    usable = [t for t in tried if t.trust != "not applicable" and hasattr(t.result, "plot")]
    order = {"supported": 0, "uncertain": 1, "unsupported": 2}
    best = min(usable, key=lambda t: order[t.trust], default=None)
    several = len(found.compared) > 1
    picture = drawn(found) if several or best is None else drawn(best.result)
    cpi = found.compared["time per work"].dropna()
    numbers = [
        (f"{1 / cpi.mean():.3g}" if len(cpi) == 1 else f"{cpi.min():.3g} to {cpi.max():.3g}",
         "work per time (IPC)" if len(cpi) == 1 else "time per work of the runs"),
        (found.facts["intervals"].partition(", ")[0], "intervals"),
        (found.facts["events"].partition(":")[0], "events"),
    ] if len(cpi) else [(found.facts["events"].partition(":")[0], "events")]  # fmt: skip
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
            *((("Runs", found.compared.reset_index()),) if several else ()),
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
            (f"{fit.penalties[first]:.3g}", f"cycles each {first}"),
        ),
        (*fit.verdict.reasons, *fit.warnings),
        drawn(fit),
        "the CPI stack",
        (),
        (("The stack", fit.to_frame().reset_index()), ("All of it", str(fit))),
    )


def of_spire(ranking: "Ranking", trained_on: str) -> AnswerPage:
    """Return the page of a SPIRE ranking."""
    table = ranking.to_frame(details=True)
    first = table.iloc[0]
    below = ranking.throughput > 1.02 * ranking.throughput_bound
    trust = "unsupported" if ranking.caveats else "uncertain" if below or first["outside"] >= 0.5 else "supported"
    caveats = list(ranking.caveats)
    if below:
        caveats.append("the workload is faster than its lowest bound: training lacks runs like it")
    if first["outside"] >= 0.5:
        caveats.append(f"{first['outside']:.0%} of the time lies at intensities that training did not reach")
    if len(ranking.candidates) > 1:
        caveats.append(f"as low within the spread: {', '.join(ranking.candidates[1:8])}")
    unit = f"{ranking.work_event} per {ranking.time_event}"
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
        (("The ranking", table),),
    )
