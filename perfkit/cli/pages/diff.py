"""The page of a comparison: what changed, by cause, line and resource, and the listings beside each other."""

import html
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.cli.pages.answer import AnswerPage, Markup, drawn, write_page
from perfkit.simulators.gus.diff import place_of

if TYPE_CHECKING:
    from perfkit.exploration.counts_diff import CountsDiff
    from perfkit.simulators.gus.diff import GusDiff

_BARS = 12
_LINES = 60  # of the listings
_LEAST = 0.005  # a speedup below it is not drawn


def save_diff_page(found: "GusDiff", path: str | Path) -> Path:
    """Write two simulated runs side by side as one page that needs no server."""
    (first, second), (a, b) = found.names, found.cycles
    headline, *rest = found.summary().splitlines()
    numbers: tuple[tuple[str, str], ...] = (
        (f"{found.speedup:.2f}x", "as fast (simulated)"),
        (f"{a:,.0f}", f"{found.unit} of A: {first} (simulated)"),
        (f"{b:,.0f}", f"{found.unit} of B: {second} (simulated)"),
    )
    if found.measured_speedup > 0:
        numbers = (*numbers, (f"{found.measured_speedup:.2f}x", "as fast (measured on this machine)"))
    causes, lines = found.by_cause(), found.to_frame()
    moved = lines[lines["change"].abs() >= 0.5]
    evidence: tuple[tuple[str, Any], ...] = (
        ("What changed", "\n".join(line for line in rest if not line.startswith("careful: "))),
        (
            f"{found.unit.capitalize()} by cause: B against A (simulated)",
            _changes((r.cause, r.cycles_a, r.cycles_b) for r in causes.head(_BARS).itertuples()),
        ),
        (
            f"Lines that gained and lost (simulated {found.unit})",
            _changes((_named(r), r.cycles_a, r.cycles_b) for r in moved.head(_BARS).itertuples()),
        ),
        ("What twice the capacity would bring (simulated)", _speedups(found)),
        (f"Listings, aligned by source line (simulated {found.unit})", _listings(found)),
    )
    answer = AnswerPage(
        f"{first} and {second} side by side (simulated)", headline, "", numbers,
        tuple(note for note in found.notes), b"", "", (), tuple(each for each in evidence if each[1]),
    )  # fmt: skip
    return write_page(answer, path)


def save_counts_page(found: "CountsDiff", path: str | Path) -> Path:
    """Write two dumps of counters side by side as one page that needs no server."""
    first, *rest = found.summary().splitlines()
    numbers = [
        (f"{value:.4g}", f"{found.unit} of {side}: {name} ({kind})")
        for side, name, kind, value in zip("AB", found.names, found.kinds, found.time_per_work, strict=True)
    ]
    table = found.to_frame().rename(columns={"rate_a": "A", "rate_b": "B", "ratio": "B / A"})
    evidence = [
        ("What changed", "\n".join(line for line in rest if not line.startswith("careful: "))),
        (f"Events per 1000 {found.events[1]} ({found.kind} counts)", table),
        ("Rates of B over those of A", drawn(found) if table["B / A"].notna().any() else ""),
        *(((f"CPI stacks ({found.kind} counts)", found.stack),) if len(found.stack) else ()),
    ]
    answer = AnswerPage(
        f"{found.names[0]} and {found.names[1]} side by side ({found.kind} counts)", first, "", tuple(numbers),
        found.notes, b"", "", (), tuple(each for each in evidence if len(each[1])),
    )  # fmt: skip
    return write_page(answer, path)


def _named(row: Any) -> str:
    return f"{place_of(row)}: {row.text}" if row.text else place_of(row)


def _changes(rows: Iterable[tuple[str, float, float]]) -> Markup:
    """Return bars to the left for fewer cycles in B and to the right for more."""
    table = [(name, a, b) for name, a, b in rows if abs(b - a) >= 0.5]
    most = max((abs(b - a) for _, a, b in table), default=1.0)
    parts = []
    for name, a, b in table:
        part = 50 * abs(b - a) / most
        left, colour = (50.0, "poor") if b > a else (50 - part, "good")
        bar = f'<i class="{colour}" style="left:{left:.2f}%;width:{part:.2f}%"></i>'
        parts.append(
            f'<span class="name">{html.escape(name)}</span>'
            f'<span class="figures">{a:,.0f} to {b:,.0f} ({b - a:+z,.0f})</span><span class="track middle">{bar}</span>'
        )
    return Markup(f'<div class="bars">{"".join(parts)}</div>' if parts else "")


def _speedups(found: "GusDiff") -> Markup:
    """Return what twice each resource would bring to either run, as bars: A above, B below."""
    gains = found.resources.fillna(0.0)
    gains = gains.assign(most=gains[["speedup_a", "speedup_b"]].max(axis=1))
    gains = gains[gains["most"] >= _LEAST].sort_values("most", ascending=False, kind="stable").head(_BARS)
    most = float(gains["most"].max()) if len(gains) else 1.0
    parts = []
    for row in gains.itertuples():
        for side, value, colour in (("A", row.speedup_a, "none"), ("B", row.speedup_b, "link")):
            bar = f'<i class="{colour}" style="left:0;width:{100 * max(value, 0.0) / most:.2f}%"></i>'
            parts.append(
                f'<span class="name">{html.escape(row.resource)}: {side}</span>'
                f'<span class="figures">{value:+z.1%}</span><span class="track">{bar}</span>'
            )
    return Markup(f'<div class="bars">{"".join(parts)}</div>' if parts else "")


def _listings(found: "GusDiff") -> Markup:
    """Return the instructions of each source line, A's beside B's."""
    rows = list(found.aligned().itertuples(index=False))
    parts = []
    lines = [(number, list(group)) for number, group in groupby(rows, key=lambda row: row.line)]
    for number, group in lines[:_LINES]:
        line = found.table.iloc[number]
        change = line["cycles_b"] - line["cycles_a"]
        head = (
            f"<p><b>{html.escape(_place(line))}</b> <code>{html.escape(line['text'])}</code> "
            f"{line['cycles_a']:,.0f} to {line['cycles_b']:,.0f} {found.unit} ({change:+z,.0f})</p>"
        )
        sides = [
            _side(name, [(getattr(r, f"address_{s}"), getattr(r, f"instruction_{s}"), getattr(r, f"cycles_{s}"))
                         for r in group if getattr(r, f"instruction_{s}")])
            for name, s in (("A", "a"), ("B", "b"))
        ]  # fmt: skip
        parts.append(f'<div class="line">{head}<div class="two">{"".join(sides)}</div></div>')
    if len(lines) > _LINES:
        parts.append(f'<p class="what">and {len(lines) - _LINES} more lines</p>')
    return Markup("".join(parts))


def _place(line: Any) -> str:
    a, b = line["place_a"] or "not in A", line["place_b"] or "not in B"
    return a if a == b else f"{a} / {b}"


def _side(name: str, rows: list[tuple[str, str, float]]) -> str:
    cells = "".join(
        f"<tr><td>{html.escape(address)}</td><td>{_operands(text)}</td><td>{cycles:,.0f}</td></tr>"
        for address, text, cycles in rows
    )
    head = f"<tr><th>{name}</th><th></th><th>cycles</th></tr>"
    return f"<table>{head}{cells or '<tr><td>nothing</td><td></td><td></td></tr>'}</table>"


def _operands(instruction: str) -> str:
    """Return an instruction that may go on in another line before each operand."""
    return html.escape(instruction).replace(",", ",<wbr>")
