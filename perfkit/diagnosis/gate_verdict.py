"""What a gate of simulated cycles came to: a result as all others, with a comment for a forge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from perfkit.base.results import Kind, Plain, draw, labelled
from perfkit.errors import of_extra
from perfkit.simulators.gus.diff import GusDiff

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class GateVerdict(Plain):
    """What a gate came to.

    Attributes
    ----------
    name : str
        Of the baseline.
    passed : bool
        Whether the cycles are within what is allowed.
    cause : str
        ``"same"``, ``"program"``, ``"input"`` (the same code, run otherwise), ``"model"``, ``"compiler"``,
        ``"libraries"``, ``"settings"``, ``"no baseline"``, or ``"error"`` where nothing could be measured (cycles are 0
        then).
    message : str
        What happened, and what to do.
    cycles, before : float
        Simulated cycles, and the baseline's (0 without one).
    change : GusDiff or None
        Both, by cause and line; None where nothing changed.
    """

    name: str
    passed: bool
    cause: str
    message: str
    cycles: float
    before: float = 0.0
    change: GusDiff | None = None

    @property
    def kind(self) -> Kind:
        """``"simulated"``: no figure of this result was measured."""
        return "simulated"

    @property
    def mark(self) -> str:
        """``"ok"``, ``"FAILED"`` or, where nothing could be measured, ``"ERROR"``."""
        return "ok" if self.passed else "ERROR" if self.cause == "error" else "FAILED"

    @property
    def per_cent(self) -> float:
        """How many per cent more cycles than before."""
        return 100 * (self.cycles / self.before - 1) if self.before else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "change"}
        values |= {"per_cent": self.per_cent, "kind": self.kind}
        return values | ({"cycles": None, "per_cent": None} if self.cause == "error" else {})

    def to_frame(self) -> "pd.DataFrame":
        """Return one row: what `to_dict` holds. What changed, by cause and line, is a table of ``change``."""
        return of_extra("pandas").DataFrame([self.to_dict()])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the cycles beside the baseline's (`perfkit.plots.gus.plot_verdict`)."""
        return draw("gus:plot_verdict", self, ax=ax)

    def summary(self) -> str:
        """Say how the gate ended, and why."""
        told = " ".join(self.message.split())
        return f"{self.mark} {self.name}: {told}{'' if self.kind in told else labelled(self.kind)}"

    def markdown(self) -> str:
        """Return the verdict for a comment in a forge."""
        mark = "passed" if self.passed else "**could not be run**" if self.cause == "error" else "**failed**"
        head = f"### {self.name}: {mark}\n\n{self.message}\n"
        if self.change is None:
            return head
        return f"{head}\n<details><summary>what changed</summary>\n\n{self.change.markdown(5)}\n</details>\n"

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        change = values["change"]
        if change is None:
            return cls(**values)
        table = of_extra("pandas").DataFrame
        parts = {name: table(part) if isinstance(part, dict) else part for name, part in change.items()}
        return cls(**{**values, "change": GusDiff(**parts)})
