"""The page and the notebook of `perfkit why`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.base.files import replaced
from perfkit.cli.pages.answer import AnswerPage, Markup, drawn, illustrated, write_page
from perfkit.diagnosis import words
from perfkit.diagnosis.opinions import DAG_LIMIT, scheduled
from perfkit.diagnosis.screen import FAR, share_of_call, spent_in
from perfkit.diagnosis.window import HotWindow, hot_window
from perfkit.errors import PerfkitError
from perfkit.plots.gus import hottest

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis

_IN_FLIGHT = (
    3  # times the reorder buffer: so many instructions are simulated for the timeline, all in flight among them
)
_FEWEST, _MOST = 60.0, 600.0  # cycles of the timeline
_ROWS = 40  # of a table
_SEEN = 0.05  # per cent: less is printed as nothing


def save_page(found: "Diagnosis", path: Path) -> Path:
    """Write one page that needs no network and no server: answer, listing, timeline, account and what-ifs."""
    result = found.result
    measured = f"{found.measured.cycles:,.0f}" if found.measured else "-"
    numbers = [
        (
            measured,
            f"cycles measured{share_of_call(found)}" if found.measured else f"not measured: {found.not_measured}",
        ),
        (f"{result.cycles:,.0f}", f"cycles simulated on {result.settings.core.title}"),
        *((f"{each.factor:.2f}x", f"what if (simulated): {each.gain}") for each in found.what_ifs),
    ]
    lines = found.lines.assign(
        **{"responsible %": _percent(found.lines["causality"]), "time %": _percent(found.lines["time"])}
    )[["place", "responsible %", "time %", "cause", "source_line"]].rename(columns={"source_line": "source"})
    lines = lines[lines[["responsible %", "time %"]].max(axis=1) > _SEEN]
    listing, took = _listing(found)
    gains = found.ranked_with_pair.to_frame()
    gains = gains.assign(**{"gain %": _percent(gains.iloc[:, 1])})[[gains.columns[0], "gain %"]]
    methods = pd.DataFrame([(o.method, o.says, {True: "yes", False: "no", None: ""}[o.agrees]) for o in found.opinions])
    evidence = [
        ("Threads (simulated)", "\n".join(found.threads)),
        ("Source lines (simulated)", _without_blanks(lines)),
        (f"Listing: where {took:.0%} of the time is (simulated)", listing),
        ("When which resource is used (simulated)", _timeline(found)),
        (
            "What if a resource were twice as good, or mispredictions half as many (simulated)",
            gains[gains.iloc[:, 1] > 0],
        ),
        ("Where the cycles go (simulated)", drawn(result)),
        (f"Roofs of the first {min(DAG_LIMIT, result.instructions):,} instructions (simulated)", _roofs(found)),
        (
            "What the methods say",
            _without_blanks(methods.set_axis(["method", "says", "agrees"], axis=1)) if len(methods) else "",
        ),
        *((("Where the run spends its time", spent_in(found, 10)),) if found.candidates else ()),
    ]
    answer = AnswerPage(
        f"Why is {found.program} slow? (simulated, beside measured cycles)", found.lead[0], "", tuple(numbers),
        (FAR,) if found.is_far else tuple(filter(None, (found.difference_explained,))),
        drawn(found), "what each better resource would bring", (),
        tuple(each for each in evidence if len(each[1])), found.unseen, found.lead[1:], found.more,
    )  # fmt: skip
    return write_page(answer, path)


def _without_blanks(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out the columns that say nothing in any row: a binary without its source has no text of lines."""
    return table.loc[:, [bool((table[name].astype(str) != "").any()) for name in table]]


def _listing(found: "Diagnosis") -> tuple[pd.DataFrame, float]:
    """Return the instructions around the hottest ones in the order of the code, and their share of the time."""
    result = found.result
    table = found.listing()
    code = result.trace.code
    places = [f"{Path(f).name}:{n}" if n else "" for f, n in zip(code.file, code.line.tolist(), strict=True)]
    shown = pd.DataFrame(
        {
            "address": [f"{a:#x}" for a in table["pc"]],
            "place": places,
            "instruction": table["text"],
            "runs": table["executions"],
            "time_share": table["time_share"],
            "time %": _percent(table["time_share"]),
            "responsible %": _percent(found.responsible.held),
            "held up by": table["cause"],
        }
    )
    shown = hottest(shown[shown["runs"] > 0], _ROWS)
    return shown.drop(columns="time_share"), float(shown["time_share"].sum())


def _timeline(found: "Diagnosis") -> Markup | str:
    """Return the timeline around one execution of the bottleneck's line, and what its colours mean."""
    from perfkit.plots.gus import HIGHLIGHT, PRODUCER

    result = found.result
    window = _window(found)
    timeline = result.timeline(window.first, window.length)
    rows = timeline.schedule.set_index("n")
    cycles, told = _FEWEST, f"From executed instruction {window.first:,} on."
    if window.chosen >= 0:
        row = rows.loc[window.chosen]
        again = rows[rows["instruction"] == row["instruction"]]["start"]
        turn = float(np.median(np.diff(np.sort(again)))) if len(again) > 1 else 0.0
        cycles = float(np.clip(max(4 * turn, 2.5 * (row["end"] - row["start"])), _FEWEST, _MOST))
        text = found.listing()["text"].iloc[row["instruction"]]
        told = (
            f"Executed instruction {window.chosen:,} of {result.instructions:,}, {text} of "
            f"{found.line['place']}, is in the middle and {HIGHLIGHT[1]}; what made its operands is {PRODUCER[1]}."
        )
    picture = drawn(timeline, tall=True, selected=window.chosen, cycles=cycles)
    told += " Each other colour is one instruction of the code."
    return illustrated(picture, "which resource was used when", told) if picture else ""


def _window(found: "Diagnosis") -> HotWindow:
    """Return the window of the timeline."""
    return hot_window(found, _IN_FLIGHT * int(found.result.settings.core.resource("rob").value))


def _roofs(found: "Diagnosis") -> bytes:
    """Return the extended roofline's picture; nothing for code without floating-point operations."""
    try:
        schedule = replace(scheduled(found)[2], name=words.brief(found.function))
        return drawn(schedule.roofline())
    except PerfkitError:
        return b""


def _percent(shares: Any) -> NDArray[np.float64]:
    return np.round(100 * np.asarray(shares, dtype=float), 1)


def save_notebook(found: "Diagnosis", path: Path) -> Path:
    """Write a notebook that opens the answer, saved beside it, with the interactive views."""
    data = found.save(path.with_suffix(".answer"))
    answer = " ".join(found.lead)
    first, length, selected = _window(found)
    opened = ["import perfkit as pk", "import perfkit_widgets as pw", "", "found = pk.Diagnosis.load(answer)"]
    cells = [
        ("markdown", f"# Why is {found.program} slow?\n\n{answer} Every cycle of the views is simulated."),
        ("parameters", f"answer = {json.dumps(data.name)}  # the file that perfkit why wrote"),
        ("code", "\n".join([*opened, "print(found.report())"])),
        ("code", "pw.ListingView(found.listing(), found.responsible.held)"),
        ("code", "pw.SensitivityView(pk.prepare(found.result.settings, found.result.trace).ranker())"),
        (
            "code",
            f"# Around the bottleneck's line.\npw.TimelineView(found.result.timeline({first}, {length}), {selected=})",
        ),
    ]
    body = {
        "cells": [_cell(k, kind, text) for k, (kind, text) in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return path


def _cell(number: int, kind: str, source: str) -> dict[str, object]:
    if kind == "markdown":
        return {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": source}
    tags = {"tags": ["parameters"]} if kind == "parameters" else {}
    return {
        "cell_type": "code", "id": f"cell-{number}", "metadata": tags, "source": source, "outputs": [],
        "execution_count": None,
    }  # fmt: skip
