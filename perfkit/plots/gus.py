"""Static pictures of Gus's results. Everything drawn here is simulated, and every title says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from perfkit.plots.style import (
    KIND_COLOURS,
    LESS,
    MORE,
    SERIES,
    SHARE_COLOURS,
    THIN,
    abbreviate,
    axes_or_new,
    ink_on,
    name_rows,
)
from perfkit.plots.ticks import large_numbers
from perfkit.simulators.gus.diff import place_of

if TYPE_CHECKING:
    from perfkit.diagnosis.gate_verdict import GateVerdict
    from perfkit.simulators.gus.causality import Causality, InstructionSchedule
    from perfkit.simulators.gus.diff import GusDiff
    from perfkit.simulators.gus.gus import GusResult
    from perfkit.simulators.gus.sensitivity import Sensitivity
    from perfkit.simulators.gus.timeline import Timeline
    from perfkit.trace.trace import Trace

_LETTERS = 44  # of an instruction's text
# Of a timeline: the chosen instruction and those that made its operands (a colour, and its name); all others.
HIGHLIGHT, PRODUCER = ("#D55E00", "orange"), ("#CC79A7", "pink")
_CALM = ("#0072B2", "#56B4E9", "#009E73", "#5B6770", "#9AA5B1", "#4B4FA3", "#7A9A01")


def plot_sensitivity(result: Sensitivity, top: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the speedup of each weighted resource as ranked bars, one colour per weight."""
    return plot_speedups(result.to_frame(), f"Sensitivity on {result.core} (simulated)", top, ax)


def plot_speedups(frame: pd.DataFrame, title: str, top: int = 12, ax: Axes | None = None) -> Axes:
    """Draw a ranked table of resources and their speedups (`Sensitivity.to_frame`) as bars, one colour per weight.

    Resources none of whose bars is long enough to be seen are counted below the axis, the first one drawn in any case.
    """
    size = frame.set_index("resource").abs().max(axis=1)
    seen = size > THIN * size.max()
    if len(seen):
        seen.iloc[0] = True
    table = frame[seen.to_numpy()].head(top).iloc[::-1].set_index("resource")
    unseen = int((~seen).sum())
    ax = axes_or_new(ax, 8, 0.32 * len(table) + 1.2)
    rows = np.arange(len(table))
    height = 0.8 / len(table.columns)
    for k, weight in enumerate(table.columns):
        place = rows + (k - (len(table.columns) - 1) / 2) * height
        ax.barh(place, 100 * table[weight], height, label=str(weight), color=f"C{k}")
    ax.set_yticks(rows, table.index)
    note = (
        f"\n{unseen} more {'resource brings' if unseen == 1 else 'resources bring'} too little to see" if unseen else ""
    )
    ax.set_xlabel(f"gain of the simulated run (%){note}")
    ax.set_title(title)
    # As the bars lie, from the top; none of them lies there.
    ax.legend(title="capacity", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)
    return ax


def plot_cpi_stack(result: GusResult, ax: Axes | None = None) -> Axes:
    """Draw cycles per instruction by cause as one stacked bar; those too thin to see are drawn, and named, as one."""
    from perfkit.simulators.gus.gus import ACCOUNT

    stack = _visible(result.cpi_stack())
    ax = axes_or_new(ax, 8, 2.6)
    left = 0.0
    for k, (cause, value) in enumerate(stack.items()):
        ax.barh([0], [value], left=left, color=f"C{k % 10}", hatch="//" if k >= 10 else None, label=str(cause))
        left += value
    ax.set_yticks([])
    ax.set_xlabel("cycles per instruction")
    ax.set_title(f"CPI stack on {result.settings.core.title} (simulated): {ACCOUNT}", fontsize="medium")
    ax.legend(ncols=4, fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.45))
    return ax


def _visible(stack: pd.Series) -> pd.Series:
    """Return the parts of a stack that can be seen (`THIN`), and the sum of several others."""
    stack = stack[stack > 0]
    thin = stack[stack < THIN * stack.sum()]
    if len(thin) < 2:
        return stack
    note = "" if thin.sum() >= THIN * stack.sum() else " (too thin to see)"
    return pd.concat([stack.drop(thin.index), pd.Series({f"{len(thin)} others{note}": thin.sum()})])


def plot_diff(found: GusDiff, top: int = 12, ax: Axes | None = None, by: str = "cause") -> Axes:
    """Draw by how many cycles each cause or line costs more or less in the second run, the largest change on top.

    By resource: what twice its capacity would bring to either run.
    """
    title = f"{found.names[0]} to {found.names[1]} (simulated)"
    if by == "resource":
        gains = found.resources.assign(most=found.resources[["speedup_a", "speedup_b"]].max(axis=1))
        table = gains.sort_values("most", ascending=False, kind="stable").head(top)
        columns = {"A": table["speedup_a"].fillna(0.0), "B": table["speedup_b"].fillna(0.0)}
        shown = pd.DataFrame({"resource": table["resource"], **columns})
        ax = plot_speedups(shown, title, top, ax)
        ax.legend(title="run", frameon=False)
        return ax
    table = (found.by_cause() if by == "cause" else found.to_frame()).head(top).iloc[::-1]
    names = list(table["cause"]) if by == "cause" else [place_of(row) for row in table.itertuples()]
    ax = axes_or_new(ax, 8, 0.3 * len(table) + 1.2)
    colours = [LESS if change < 0 else MORE for change in table["change"]]
    ax.barh(np.arange(len(table)), table["change"], color=colours)
    name_rows(ax, [str(name) for name in names], 48)
    ax.axvline(0, color="gray", lw=0.8)
    ax.set_xlabel(f"change of the simulated {found.unit}")
    ax.set_title(title, fontsize="medium")
    return ax


def plot_verdict(found: GateVerdict, ax: Axes | None = None) -> Axes:
    """Draw the simulated cycles of a gate beside its baseline's, the baseline on top; of each what there is."""
    bars = {name: cycles for name, cycles in (("now", found.cycles), ("baseline", found.before)) if cycles}
    ax = axes_or_new(ax, 8, 0.4 * len(bars) + 1.2)
    colours = {"now": LESS if found.passed else MORE, "baseline": "gray"}
    ax.barh(list(bars), list(bars.values()), color=[colours[name] for name in bars])
    ax.set_xlabel("simulated cycles")
    ax.set_title(f"{found.mark} {found.name}" + (f" ({found.per_cent:+.2f} %)" if len(bars) > 1 else ""))
    return ax


def _instructions(frame: pd.DataFrame) -> list[str]:
    """Return addresses and texts; calls hold names of C++, which may be longer than the picture is wide."""
    return [f"{pc:#x}  {abbreviate(str(t), _LETTERS)}" for pc, t in zip(frame["pc"], frame["text"], strict=True)]


def plot_causality(result: Causality, top: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the share of the instructions in the time for which the dispatch is held up."""
    frame = result.to_frame().head(top).iloc[::-1]
    ax = axes_or_new(ax, 8, 0.28 * len(frame) + 1.2)
    ax.barh(np.arange(len(frame)), 100 * frame["held"], color=SHARE_COLOURS["causality"])
    ax.set_yticks(np.arange(len(frame)), _instructions(frame))
    ax.tick_params(axis="y", labelfontfamily="monospace", labelsize="small")
    ax.set_xlabel("share of the time that is held up (%)")
    ax.set_title("Causality (simulated)")
    return ax


def hottest(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the consecutive instructions, at most `most`, that together have the largest share of the time."""
    if len(frame) <= most or "time_share" not in frame:
        return frame.head(most)
    last = int(frame["time_share"].rolling(most, min_periods=1).sum().to_numpy().argmax())
    return frame.iloc[max(0, last - most + 1) :].head(most)


def plot_listing(frame: pd.DataFrame, shares: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw instructions (columns pc and text) as a heat map of the named columns, each a share from 0 to 1."""
    ax = axes_or_new(ax, 8, 0.21 * len(frame) + 1.4)
    values = frame[list(shares)].to_numpy(dtype="float64")
    most = max(1e-9, np.nanmax(values, initial=0))
    image = ax.imshow(np.nan_to_num(values), cmap="Blues", aspect="auto", vmin=0, vmax=most)
    for row, column in zip(*np.nonzero(np.nan_to_num(values) >= 0.005), strict=True):
        share = values[row, column]
        ink = ink_on(image.to_rgba(share))
        ax.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize="x-small", color=ink)
    ax.set_xticks(np.arange(len(shares)), list(shares), rotation=60, ha="left", fontsize="small")
    ax.xaxis.tick_top()
    ax.set_yticks(np.arange(len(frame)), _instructions(frame))
    ax.tick_params(axis="y", labelfontfamily="monospace", labelsize="x-small")
    ax.set_xlabel("shares of each column's total, per cent (simulated)")
    return ax


def source_lines(frame: pd.DataFrame, causality: Sequence[float]) -> pd.DataFrame:
    """Return each source line's share of a run's time and of its causes, the one that causes most first.

    Parameters
    ----------
    frame
        One row per static instruction (`perfkit.GusResult.to_frame`).
    causality
        Each instruction's share of the time for which the dispatch was held up (`perfkit.simulators.Causality.held`).

    Returns
    -------
    DataFrame
        file, line, source_line, time_share, causality (both 0 to 1), and instruction: the row of `frame` that causes
        most in this line. Instructions without a line are not in it, so that the shares may sum to less than 1.
    """
    rows = frame.reset_index(drop=True).assign(causality=np.asarray(causality, dtype="float64"))
    rows = rows[rows["line"].notna()] if "line" in rows else rows[:0].assign(file="", line=0, source_line="")
    groups = rows.groupby(["file", "line"], sort=False)
    lines = groups.agg(
        source_line=("source_line", "first"),
        time_share=("time_share", "sum"),
        causality=("causality", "sum"),
        instruction=("causality", "idxmax"),
    )
    return lines.reset_index().sort_values("causality", ascending=False, kind="stable", ignore_index=True)


def plot_source_lines(lines: pd.DataFrame, share: str, title: str, top: int = 8, ax: Axes | None = None) -> Axes:
    """Draw the first lines of `source_lines` as bars of one share, "causality" or "time_share"."""
    rows = lines.head(top)[::-1]
    ax = axes_or_new(ax, 8, 0.3 * len(rows) + 1.2)
    texts = [abbreviate(str(text).strip(), 48) for text in rows["source_line"]]
    names = [f"{int(line)}: {text}" for line, text in zip(rows["line"], texts, strict=True)]
    ax.barh(np.arange(len(rows)), 100 * rows[share], color=SHARE_COLOURS[share])
    ax.set_yticks(np.arange(len(rows)), names, family="monospace", parse_math=False)
    ax.set_xlabel("share of the causes (%)" if share == "causality" else "share of the time (%)")
    ax.set_title(title)
    return ax


def plot_executions(trace: Trace, top: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how often the ``top`` instructions that ran most often were executed, in the order of the code."""
    frame = trace.to_frame().nlargest(top, "executed", keep="first").sort_index().iloc[::-1]
    ax = axes_or_new(ax, 8, 0.28 * len(frame) + 1.2)
    ax.barh(np.arange(len(frame)), frame["executed"], color="C0")
    ax.set_yticks(np.arange(len(frame)), _instructions(frame))
    ax.tick_params(axis="y", labelfontfamily="monospace", labelsize="small")
    ax.set_xlabel("executions")
    large_numbers(ax)
    ax.set_title(f"{trace.provenance.workload or 'trace'} ({trace.provenance.kind})")
    return ax


def plot_ladder(table: pd.DataFrame, columns: Mapping[str, str], ax: Axes | None = None) -> Axes:
    """Draw per cent of peak of several versions (the index) as groups of bars.

    Parameters
    ----------
    table : DataFrame
        One row per version.
    columns : mapping
        Column of per cent of peak -> what to call it: whether it was measured, simulated or published. Columns of these
        names have the colours that such figures have everywhere.
    """
    ax = axes_or_new(ax, 8, 3.6)
    place = np.arange(len(table))
    width = 0.8 / max(1, len(columns))
    for k, (column, label) in enumerate(columns.items()):
        shift = (k - (len(columns) - 1) / 2) * width
        colour = KIND_COLOURS.get(column, SERIES[k % len(SERIES)])
        ax.bar(place + shift, table[column].to_numpy(dtype="float64"), width, label=label, color=colour)
    ax.set_xticks(place, [str(name) for name in table.index])
    ax.set_ylabel("per cent of peak")
    ax.set_ylim(0, 100)
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_instruction_schedule(result: InstructionSchedule | pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw each instruction's waits, execution and time to retirement (a schedule, or rows of its table)."""
    frame = result if isinstance(result, pd.DataFrame) else result.table
    ax = axes_or_new(ax, 8, 0.2 * len(frame) + 1.2)
    rows = np.arange(len(frame))
    for first, second, label, colour in (
        ("dispatch", "start", "waits", "0.85"),
        *([("start", "operate", "waits for memory", "C2")] if "operate" in frame else []),
        ("operate" if "operate" in frame else "start", "end", "executes", "C0"),
        ("end", "retire", "waits to retire", "0.93"),
    ):
        ax.barh(rows, frame[second] - frame[first], left=frame[first], color=colour, label=label)
    ax.set_yticks(rows, [abbreviate(str(text), _LETTERS) for text in frame["text"]])
    ax.tick_params(axis="y", labelfontfamily="monospace", labelsize="x-small")
    ax.invert_yaxis()
    ax.set_xlabel("cycle")
    large_numbers(ax)
    ax.set_title("Schedule (simulated)")
    ax.legend(frameon=False)
    return ax


def plot_timeline(result: Timeline, selected: int = -1, cycles: float = 60, ax: Axes | None = None) -> Axes:
    """Draw which resource was occupied when: ``cycles`` of a window, around the chosen instruction if there is one."""
    resources, schedule = result.resources, result.schedule.set_index("n")
    ax = axes_or_new(ax, 8, 0.14 * int(resources["units"].sum()) + 1.4)
    begin, end = result.complete
    if selected in schedule.index:
        begin = float(schedule.loc[selected, "start"]) - 0.6 * cycles
    elif begin < end:
        begin = begin + max(0.0, (end - begin - cycles) / 2)
    else:
        begin = float(schedule["dispatch"].iloc[0])
    later = result.uses.loc[result.uses["end"] > begin, "start"]
    if selected not in schedule.index and len(later) and later.min() >= begin + cycles:  # nothing but waiting
        begin = float(later.min()) - 1
    seen = result.uses[(result.uses["end"] > begin) & (result.uses["start"] < begin + cycles)]
    made = set(result.producers.loc[result.producers["n"] == selected, "producer"])
    number = dict(zip(schedule.index, pd.factorize(schedule["text"])[0], strict=True))
    place, ticks, top = {}, [], 0.0
    for row in resources.itertuples():
        place[row.resource] = top
        ticks.append(top + row.units / 2)
        top += row.units + 0.5
    others = _CALM if selected in schedule.index else [f"C{k}" for k in range(10)]
    colours = [
        HIGHLIGHT[0] if n == selected else PRODUCER[0] if n in made else others[number[n] % len(others)]
        for n in seen["n"].tolist()
    ]
    rows = seen["resource"].map(place).to_numpy(dtype="float64") + seen["lane"].to_numpy() + 0.5
    ax.barh(rows, seen["end"] - seen["start"], left=seen["start"], height=0.85, color=colours)
    ax.set_yticks(
        ticks,
        [f"{r}  {b:.0%}" for r, b in zip(resources["resource"], resources["busy"], strict=True)],
        fontsize="small",
    )
    ax.set_xlim(begin, begin + cycles)
    ax.set_ylim(top, -0.5)
    ax.set_xlabel("cycle")
    large_numbers(ax)
    ax.set_title("Resources over time, with their use in the window (simulated)")
    return ax
