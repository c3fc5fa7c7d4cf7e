"""A CPI stack as text: the stack, both forms, the placebo and the bracket, the verdict and the warnings."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from perfkit.base.results import labelled
from perfkit.errors import counted, p_words

if TYPE_CHECKING:
    from perfkit.fitters.cpi.stack import CpiFit


def report_text(fit: "CpiFit", width: int = 110) -> str:
    """Return the fit as lines of text."""
    lines = [_head(fit), "", *_stack(fit), "", *_evidence(fit), ""]
    lines += textwrap.wrap(str(fit.verdict), width)
    for warning in fit.warnings:
        lines += textwrap.wrap(warning, width, initial_indent="  ! ", subsequent_indent="    ")
    return "\n".join(lines)


def summary(fit: "CpiFit") -> str:
    """Return the CPI and its largest parts, the verdict, placebo and bracket: a few lines."""
    parts = fit.components.sort_values(ascending=False, kind="stable").head(4)
    listed = ", ".join(f"{part} {value:z.3f} ({value / fit.cpi:.0%})" for part, value in parts.items())
    more = f" and {len(fit.components) - len(parts)} more" if len(fit.components) > len(parts) else ""
    lines = [
        f"CPI {fit.cpi:.4f} of {fit.name}{labelled(fit.kind)} (cycles per instruction): {listed}{more}",
        str(fit.verdict),
        *gauges(fit).splitlines(),
    ]
    if fit.warnings:
        lines.append(f"{len(fit.warnings)} warnings and the whole stack: report()")
    return "\n".join(lines)


def gauges(fit: "CpiFit") -> str:
    """Return placebo and bracket in one line each: what is always printed beside a stack."""
    return "\n".join(_evidence(fit)[1:3])


def _head(fit: "CpiFit") -> str:
    return (
        f"CPI stack of {fit.name}{labelled(fit.kind)}: CPI {fit.cpi:.4f} over {counted(len(fit.data), 'intervals')}, "
        f"{counted(len(fit.events), 'events')}, {fit.settings.form.upper()} form, {fit.settings.method}"
    )


def _stack(fit: "CpiFit") -> list[str]:
    table = fit.to_frame()
    order = ["base", *fit.components.drop("base").sort_values(ascending=False, kind="stable").index, "residual"]
    other = "CPI" if fit.settings.form == "ipc" else "IPC"
    wide = max(len(str(p)) for p in order)
    level = f"{fit.settings.level:.0%} interval"
    lines = [f"{'part':{wide}}  {'CPI':>8}  {level:>17}  {'share':>6}  {'cycles each':>11}  {other + ' form':>9}"]
    for part in order:
        row = table.loc[part]
        interval = "" if np.isnan(table.loc[part, "low"]) else f"{row['low']:z.4f} to {row['high']:z.4f}"
        penalty = "" if np.isnan(table.loc[part, "penalty"]) else f"{row['penalty']:z.4g}"
        lines.append(
            f"{part:{wide}}  {row['component']:z8.4f}  {interval:>17}  {row['share']:z6.1%}  {penalty:>11}  "
            f"{row['other_form']:z9.4f}"
        )
    return lines


def _evidence(fit: "CpiFit") -> list[str]:
    r2, bracket = fit.r2, fit.bracket
    folds = fit.settings.folds
    scores = (
        f"R2 {r2.in_sample:z.3f} in sample, {r2.random:z.3f} random and {r2.blocked:z.3f} blocked {folds}-fold "
        f"cross-validation (adjusted {fit.adjusted_r2:z.3f}, F {fit.f:.4g}, {p_words(fit.p)}, RMSE {fit.rmse:.4g} "
        f"{fit.settings.form.upper()})"
    )
    bases = (
        f"bracket {bracket.low:.3f} to {bracket.high:.3f}: the base by both forms (IPC {bracket.ipc:.3f}, CPI "
        f"{bracket.cpi:.3f}), {bracket.width:.1%} of the CPI wide"
    )
    return [
        scores,
        f"placebo R2 {fit.placebo_r2:z.3f}: what shuffled counts reach in this form (median of {len(fit.placebos)})",
        bases,
    ]
