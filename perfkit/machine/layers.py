"""Rows and layers of instruction tables: what each source says about an instruction form."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

LAYERS = ("user", "calibration", "uops.info", "correction", "measured", "llvm", "llvm-mca", "class default")
# Layers whose rows say everything; the stronger ones change part of such a row.
COMPLETE = ("measured", "llvm", "llvm-mca")


@dataclass(frozen=True)
class Row:
    """What one layer says about a form; None and NaN where it says nothing.

    Fields as in `InstructionForm`; `inverse_throughput` (cycles) changes the uses so that this is what they come to.
    """

    fused_uops: float | None = None
    unfused_uops: float | None = None
    latency: float | None = None
    address_latency: float | None = None
    memory_latency: float | None = None
    inverse_throughput: float | None = None
    uses: Mapping[str, float] | None = None
    source: str = ""
    operand_latency: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Layer:
    """One layer of an instruction table.

    Parameters
    ----------
    name
        One of `LAYERS`.
    rows
        Form (see `perfkit.trace.x86.form_name`) or shell pattern of forms -> what this layer says.
    title
        Where the layer comes from, for people.
    """

    name: str
    rows: Mapping[str, Row]
    title: str = ""

    def find(self, form: str) -> Row | None:
        """Return the row of a form: its own, or that of the first pattern that matches it."""
        if form in self.rows:
            return self.rows[form]
        for pattern in _patterns(self):
            if fnmatch.fnmatchcase(form, pattern):
                return self.rows[pattern]
        return None


@cache
def _patterns_of(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if any(sign in key for sign in "*?["))


def _patterns(layer: Layer) -> tuple[str, ...]:
    return () if layer.name in (*COMPLETE, "uops.info") else _patterns_of(tuple(layer.rows))
