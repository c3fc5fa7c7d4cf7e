"""The page and the notebook of `perfkit why`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.cli.pages.answer import AnswerPage, drawn, write_page
from perfkit.diagnosis.opinions import DAG_LIMIT, scheduled
from perfkit.diagnosis.screen import spent_in
from perfkit.errors import PerfkitError
from perfkit.files import replaced
from perfkit.simulators.gus.diff import in_the_object

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis

_AHEAD, _WINDOW = 1000, 200  # instructions before the drawn window, and in it


def save_page(found: "Diagnosis", path: Path) -> Path:
    """Write one page that needs no network and no server: answer, listing, timeline, account and what-ifs."""
    result = found.result
    measured = f"{found.measured.cycles:,.0f}" if found.measured else "-"
    numbers = [
        (measured, "cycles measured" if found.measured else f"not measured: {found.not_measured}"),
        (f"{result.cycles:,.0f}", f"cycles simulated on {result.settings.core.title}"),
        *((f"{each.factor:.2f}x", f"what if (simulated): {each.gain}") for each in found.what_ifs),
    ]
    lines = found.lines.assign(
        **{"responsible %": _percent(found.lines["causality"]), "time %": _percent(found.lines["time"])}
    )[["place", "responsible %", "time %", "cause", "source_line"]]
    listing = result.to_frame()
    code = result.trace.code
    places = [f"{Path(f).name}:{n}" if n else "" for f, n in zip(code.file, code.line.tolist(), strict=True)]
    there, ran = result.trace.object_addresses().tolist(), code.pc.tolist()
    texts = [in_the_object(t, a - p) for t, a, p in zip(listing["text"], there, ran, strict=True)]
    shown = pd.DataFrame(
        {
            "address": [f"{a:#x}" for a in there],
            "place": places,
            "instruction": texts,
            "runs": listing["executions"],
            "time %": _percent(listing["time_share"]),
            "responsible %": _percent(found.responsible.shares),
            "held up by": listing["cause"],
        }
    )
    shown = shown[shown["runs"] > 0].sort_values("time %", ascending=False, kind="stable")
    gains = found.ranked.to_frame()
    gains = gains.assign(**{"speedup %": _percent(gains.iloc[:, 1])})[[gains.columns[0], "speedup %"]]
    methods = pd.DataFrame([(o.method, o.says, {True: "yes", False: "no", None: ""}[o.agrees]) for o in found.opinions])
    first = min(_AHEAD, max(0, result.instructions - _WINDOW))
    timeline = result.timeline(first, min(_WINDOW, result.instructions))
    evidence = [
        ("Threads (simulated)", "\n".join(found.threads)),
        ("Source lines (simulated)", lines),
        ("Instructions, by time (simulated)", shown),
        (f"When which resource is used: {_WINDOW} instructions (simulated)", drawn(timeline)),
        ("What if a resource were twice as good (simulated)", gains[gains.iloc[:, 1] > 0]),
        ("Where the cycles go (simulated)", drawn(result)),
        (f"Roofs of the first {min(DAG_LIMIT, result.instructions):,} instructions (simulated)", _roofs(found)),
        ("What the methods say", methods.set_axis(["method", "says", "agrees"], axis=1) if len(methods) else ""),
        *((("Where the run spends its time", spent_in(found, 10)),) if found.candidates else ()),
    ]
    answer = AnswerPage(
        f"Why is {found.program} slow? (simulated, beside measured cycles)", found.headline(), "", tuple(numbers),
        found.unseen, drawn(found), "what each better resource would bring", (),
        tuple(each for each in evidence if len(each[1])),
    )  # fmt: skip
    return write_page(answer, path)


def _roofs(found: "Diagnosis") -> bytes:
    """Return the extended roofline's picture; nothing for code without floating-point operations."""
    try:
        return drawn(scheduled(found)[2].roofline())
    except PerfkitError:
        return b""


def _percent(shares: Any) -> NDArray[np.float64]:
    return np.round(100 * np.asarray(shares, dtype=float), 1)


def save_notebook(found: "Diagnosis", path: Path) -> Path:
    """Write a notebook that opens the answer, saved beside it, with the interactive views."""
    data = found.save(path.with_suffix(".answer"))
    opened = ["import perfkit as pk", "import perfkit_widgets as pw", "", "found = pk.Diagnosis.load(answer)"]
    cells = [
        ("markdown", f"# Why is {found.program} slow?\n\n{found.headline()}. Every cycle of the views is simulated."),
        ("parameters", f"answer = {json.dumps(data.name)}  # the file that perfkit why wrote"),
        ("code", "\n".join([*opened, "print(found.report())"])),
        *(("code", f"pw.{view}(found.result)") for view in ("ListingView", "SensitivityView", "TimelineView")),
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
