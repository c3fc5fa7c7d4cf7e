"""An answer as text: one screen, the answer first; and as plain values."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.collectors.tracer.demangle import named_as
from perfkit.diagnosis import words

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis

WIDTH = 80
_HEAVY = 0.1  # share of the time, or of what delays, from which a line is shown wherever it stands
_AROUND = 2  # source lines before and after
_BRIEF = 70  # letters of a doubt that stands beside the what-ifs, too
_WAITED = 0.02  # share of the time that is worth a word
FAR = (
    "measured and simulated cycles are far apart: the model misses something that matters here, and what follows "
    "explains its cycles, not the measured ones"
)


def screen(answer: "Diagnosis") -> str:
    """Return the answer on one screen."""
    doubt = answer.doubt.partition(". ")[0]
    doubt = doubt if len(doubt) <= _BRIEF else "see the doubt above"
    blocks = [
        [_wrapped(each) for each in answer.lead],
        _cycles(answer),
        [_wrapped(f"- {each}") for each in answer.more],
        _source(answer),
        [
            _wrapped(f"what if (simulated{f'; {doubt}' if doubt else ''})"),
            *(_wrapped(f"{w.factor:5.2f}x  {w.gain}: {w.helps}", "  ") for w in answer.what_ifs),
        ]
        if answer.what_ifs
        else [],
        [
            "methods (= agrees, ! disagrees)",
            *(_wrapped(f"{_mark(o.agrees)} {o.method}: {o.says}", "  ") for o in answer.opinions),
        ]
        if answer.opinions
        else [],
        ["threads (simulated)", *(_wrapped(f"- {each}", "  ") for each in answer.threads)] if answer.threads else [],
        ["not seen", *(_wrapped(f"- {each}", "  ") for each in answer.unseen)] if answer.unseen else [],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def spent_in(answer: "Diagnosis", top: int = 5) -> str:
    """Return where the run spent its time."""
    if not answer.candidates:
        return ""
    lines = [_wrapped(f"where {answer.program} spends its time ({answer.profiled})")]
    for each in answer.candidates[:top]:
        mark = "->" if (each.symbol, each.path) == (answer.symbol, answer.file) else "  "
        lines.append(
            f"{mark} {each.share:6.1%}  {words.brief(each.name)}" + (f"  in {each.library}" if each.is_system else "")
        )
    return "\n".join(lines)


def share_of_call(answer: "Diagnosis") -> str:
    """Return of what the measured cycles are: of several calls, or of a part of one; "" where they are of one call."""
    measured = answer.measured
    if measured is None:
        return ""
    if measured.part < 1:
        return f", {measured.part:.1%} of one call's {measured.cycles / measured.part:,.0f}, as of its instructions"
    return f" for {measured.calls:,} calls" if measured.calls > 1 else ""


def _cycles(answer: "Diagnosis") -> list[str]:
    result, measured = answer.result, answer.measured
    per = share_of_call(answer)
    lines = []
    if measured is not None and answer.apart is not None:
        runs = f"the least of {measured.runs} runs, the most {measured.high:,.0f}" if measured.runs > 1 else "one run"
        if measured.samples:
            runs = (
                f"about: {measured.samples:,} samples of the run, shared out over all calls that it makes; up to "
                f"{measured.high:,.0f} within twice the standard error"
            )
        if measured.taken_off and measured.waited >= _WAITED:
            runs += f"; {measured.waited:.0%} of the time, in which other programs had the processors, is taken off"
        lines.append(_hung(f"measured   {measured.cycles:>14,.0f} cycles{per} ({runs})"))
    else:
        lines.append(_hung(f"measured   nothing: {answer.not_measured}"))
    core = result.settings.core
    apart = f", {answer.apart:+.0%} from measured" if answer.apart is not None else ""
    lines.append(
        _hung(
            f"simulated  {result.cycles:>14,.0f} cycles on {core.title}{apart}; {result.instructions:,} instructions, "
            f"{result.ipc:.2f} per cycle"
        )
    )
    if answer.is_far:
        lines.append(_wrapped(f"BEWARE: {FAR}"))
    elif answer.difference:
        lines.append(_hung(f"           {answer.difference_explained}"))
    return lines


def _source(answer: "Diagnosis") -> list[str]:
    """Return the lines around the most responsible one, with the shares of all of them."""
    table = answer.lines
    top = answer.line
    texts = answer.sources.get(top["file"], ())
    if not texts or not top["line"]:
        rows = [
            f"  {row.causality:4.0%} {row.time:4.0%}  {row.place}  {row.source_line or f'in {_function(answer, row)}'}"
            for row in table[:4].itertuples()
        ]
        return ["responsible, time (shares, simulated)", *rows]
    here = table[table["file"] == top["file"]].groupby("line")[["causality", "time"]].sum()
    lines = [f"{Path(top['file']).name}    responsible, time (shares, simulated)"]
    near = range(max(1, top["line"] - _AROUND), min(len(texts), top["line"] + _AROUND) + 1)
    heavy = here.index[(here.max(axis=1) >= _HEAVY) & (here.index <= len(texts)) & (here.index > 0)]
    numbers = sorted({*near, *heavy})
    for before, n in zip([numbers[0], *numbers], numbers, strict=False):
        if n > before + 1:
            lines.append(" " * 11 + "...")
        shares = f"{here['causality'][n]:4.0%} {here['time'][n]:4.0%}" if n in here.index else " " * 9
        lines.append(f"{'>' if n == top['line'] else ' '} {shares} {n:5}  {texts[n - 1].rstrip()[: WIDTH - 20]}")
    return lines


def _function(answer: "Diagnosis", row: Any) -> str:
    return words.brief(answer.function if row.function == answer.symbol else named_as(row.function))


def _mark(agrees: bool | None) -> str:
    return {True: "=", False: "!", None: " "}[agrees]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False)


def _hung(text: str) -> str:
    """Wrap what stands in the second column."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * len("simulated  "), break_long_words=False)


def as_values(answer: "Diagnosis") -> dict[str, Any]:
    """Return the answer as plain values."""
    result, measured = answer.result, answer.measured
    return {
        "program": answer.program,
        "function": answer.function,
        "symbol": answer.symbol,
        "file": answer.file,
        "chosen": answer.chosen,
        "headline": answer.headline(),
        "lead": list(answer.lead),
        "more": list(answer.more),
        "doubt": answer.doubt,
        "later": answer.later,
        "tried": answer.tried,
        "measured_cycles": measured.cycles if measured else None,
        "measured_cycles_most": measured.high if measured else None,
        "measured_cycles_median": (measured.typical or None) if measured else None,
        "measured_part": measured.part if measured else None,
        "measured_without_waiting": measured.taken_off if measured else None,
        "not_measured": answer.not_measured,
        "simulated_cycles": result.cycles,
        "apart": answer.apart,
        "difference": answer.difference_explained,
        "core": result.settings.core.name,
        "instructions": result.instructions,
        "ipc": result.ipc,
        "calls": measured.calls if measured else None,
        "bottleneck": answer.bottleneck,
        "together": list(answer.together.resources) if answer.together else [],
        "what_ifs": [vars(each) for each in answer.what_ifs],
        "methods": [vars(each) for each in answer.opinions],
        "threads": list(answer.threads),
        "not_seen": list(answer.unseen),
        "candidates": [vars(each) for each in answer.candidates],
        "profiled": answer.profiled,
        "share": answer.share,
        "lines": answer.lines.to_dict("records"),
        "causes": answer.causes(),
        "seconds": dict(answer.seconds),
    }
