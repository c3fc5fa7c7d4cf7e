"""The page of `perfkit dag run`: one DAG's answer, or several side by side, with the picture of the roofs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from perfkit.cli.pages.answer import AnswerPage, Markup, of_roofline

_FITTED = "max-width:max(100%, 760px);height:auto"  # narrower, the letters would be too small: there it scrolls


def of_levels(found: Sequence[dict[str, Any]], picture: str) -> AnswerPage:
    """Return the page of what was scheduled.

    Parameters
    ----------
    found
        The rows of the command: name, roofline, verdict, doubts, notes; relaxation and gus where they were asked for.
    picture
        All of them below the core's roofs, as SVG.
    """
    fitted = picture.replace("<svg ", f'<svg style="{_FITTED}" ', 1)
    roofs = (
        "Roofs of each level (simulated; what was timed here has a bar)",
        Markup(f'<div class="wide">{fitted}</div>'),
    )
    if len(found) > 1:
        return _several(found, roofs)
    row = found[0]
    roofline = row["roofline"]
    if "relaxation" in row:
        answer = of_roofline(roofline, row["relaxation"])
    else:
        first, _, _ = row["verdict"].partition("\n")
        answer = AnswerPage(_title(row["name"], roofline), first, "", _numbers(row), evidence=_verdict(row))
    said = (("What Gus says of the same trace", row["gus"]["sentence"]),) if "gus" in row else ()
    timed = row.get("measured")
    numbers = ((f"{timed['cycles']:,.0f}", "cycles measured on this machine"),) if timed else ()
    return replace(
        answer,
        numbers=(*numbers, *answer.numbers),
        caveats=(*row["doubts"], *row["notes"], *answer.caveats),
        picture=b"",
        evidence=(roofs, *answer.evidence, *said),
    )


def _several(found: Sequence[dict[str, Any]], roofs: tuple[str, Markup]) -> AnswerPage:
    roofline = found[0]["roofline"]
    table = pd.DataFrame(
        [
            {
                "what": row["name"],
                "cycles": f"{row['cycles']:,}",
                "performance": f"{row['performance']:.3g} {row['unit']}",
                "nearest roof": row["roofline"].roofs[0].label,
                "best gain": f"{row['gains'][0]['resource']} {row['gains'][0]['gain']:.0%}" if row.get("gains") else "",
            }
            for row in found
        ]
    )
    doubts = tuple(f"{row['name']}: {doubt}" for row in found for doubt in row["doubts"])
    verdict = f"{len(found)} kernels below the roofs of {roofline.schedule.core.name}"
    return AnswerPage(
        _title(f"{len(found)} kernels", roofline), verdict, "", (), doubts,
        evidence=(roofs, ("Side by side (simulated)", table), *(each for row in found for each in _verdict(row))),
    )  # fmt: skip


def _title(what: str, roofline: Any) -> str:
    return f"Extended roofline: {what} on {roofline.schedule.core.name} (simulated)"


def _numbers(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return ((f"{row['performance']:.3g}", row["unit"]), (f"{row['cycles']:,}", "simulated cycles"))


def _verdict(row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return ((f"Roofs that hit the point: {row['name']}", row["verdict"]),)
