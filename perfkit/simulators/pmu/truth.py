"""What is known of simulated runs: the exact CPI stack, by accounting, and the bottleneck, by sensitivity.

Methods that infer these two from counters can be validated against it (`perfkit.scoring`). It is the truth about the
simulator's core, not about any machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from perfkit.base.files import a_path, arrow_table, existing, json_text, of_json, reading, replaced
from perfkit.base.results import Kind, Summarised, answering, draw
from perfkit.errors import FormatError, SettingError, did_you_mean, expect
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.sensitivity import sensitivity
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEAR = 0.9
LEAST = 0.02
_FORMAT = "perfkit-truth"


@dataclass(frozen=True, eq=False, repr=False)
class Truth(Summarised):
    """The known answers of simulated runs on one core.

    Attributes
    ----------
    core : str
        Name of the core.
    weight : float
        By what each resource's capacity was multiplied for its speedup.
    stack : DataFrame
        Cycles per instruction by cause, one row per run (index); a row sums to the run's CPI.
    speedup : DataFrame
        Sensitivity (Gus, section 3.2): s = f(c) / f(w c) - 1, one row per run (index), one column per resource.
    workload : Series
        What each run (index) is a run of: runs of one workload are no independent witnesses.
    """

    core: str
    weight: float
    stack: pd.DataFrame
    speedup: pd.DataFrame
    workload: pd.Series

    @property
    def kind(self) -> Kind:
        """``"simulated"``: the truth about the simulator's core."""
        return "simulated"

    @property
    def runs(self) -> list[str]:
        """The runs, in order."""
        return [str(r) for r in self.stack.index]

    @property
    def cpi(self) -> pd.Series:
        """Cycles per instruction of each run."""
        return self.stack.sum(axis=1).rename("CPI (simulated)")

    def bottlenecks(self, run: str, *, near: float = NEAR, least: float = LEAST) -> tuple[str, ...]:
        """Return a run's most sensitive resources, best first; empty where none gives a speedup worth the name.

        Parameters
        ----------
        run : str
            Its name.
        near : float
            Resources whose speedup is at least this share of the largest count as bottlenecks too.
        least : float
            A largest speedup below this is none.
        """
        if str(run) not in self.speedup.index:
            raise SettingError(f"unknown run {run!r}; {did_you_mean(str(run), self.runs)}")
        of_run = self.speedup.loc[run].sort_values(ascending=False, kind="stable")
        if not of_run.iloc[0] >= least:
            return ()
        return tuple(str(r) for r in of_run.index[of_run >= near * of_run.iloc[0]])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per run: workload, CPI, bottleneck ("": none), its speedup, largest cause of the stack."""
        bottleneck = [", ".join(self.bottlenecks(r)) for r in self.runs]
        return pd.DataFrame(
            {
                "workload": self.workload,
                "cpi": self.cpi,
                "bottleneck": bottleneck,
                "speedup": self.speedup.max(axis=1),
                "largest cause": self.stack.idxmax(axis=1),
            },
            index=self.stack.index,
        )

    def summary(self) -> str:
        """Say what the runs' bottlenecks are, by how many of them."""
        bottleneck = self.to_frame()["bottleneck"].replace("", "none")
        counts = bottleneck.value_counts()
        listed = ", ".join(f"{name}: {n}" for name, n in counts.head(5).items())
        more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
        return "\n".join(
            [
                (
                    f"bottlenecks of {len(self.runs)} simulated runs on {self.core}, by sensitivity at "
                    f"x{self.weight:g}: {listed}{more}"
                ),
                f"CPI {self.cpi.min():.3g} to {self.cpi.max():.3g}, {self.workload.nunique()} workloads",
            ]
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw each run's exact CPI stack, its largest causes apart; return the axes."""
        return draw("scoring:plot_truth", self, ax=ax)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything: the same as `save`."""
        return self.save(path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> "Truth":
        """Read a saved truth: the same as `load`."""
        return cls.load(path)

    def save(self, path: str | Path) -> Path:
        """Write everything into one parquet file and return its path."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        both = pd.concat({"stack": self.stack, "speedup": self.speedup}, axis=1)
        both.columns = pd.Index([f"{part}:{name}" for part, name in both.columns])
        both.insert(0, "workload", self.workload)
        arrow = pa.Table.from_pandas(both.rename_axis("run").reset_index(), preserve_index=False)
        head = {"format": _FORMAT, "version": 1, "core": self.core, "weight": self.weight, "kind": self.kind}
        path = a_path(path, "Truth.save")
        whole = arrow.replace_schema_metadata({b"perfkit": json_text(head).encode()})
        with replaced(path, ".parquet", ".pq") as temporary:
            pq.write_table(whole, temporary, compression="zstd")
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Truth":
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, "a parquet file of Truth.to_parquet"):
            arrow = arrow_table(path)
            head = of_json((arrow.schema.metadata or {}).get(b"perfkit", b"{}"))
            if head.get("format") != _FORMAT:
                raise FormatError(f"{path}: a parquet file, but not one that Truth.to_parquet wrote")
            both = arrow.to_pandas().set_index("run")
            parts = {
                part: both[[c for c in both.columns if c.startswith(f"{part}:")]].rename(
                    columns=lambda c: c.partition(":")[2]
                )
                for part in ("stack", "speedup")
            }
            return answering(cls(head["core"], head["weight"], **parts, workload=both["workload"].astype(str)))


def truth_of(gus: Gus, traces: Iterable[tuple[str, Trace]], weight: float = 2.0) -> Truth:
    """Simulate traces, given with the names of their runs, and return what is known of them.

    Raises
    ------
    SettingError
        The weight is not above 1: it must make resources better.
    """
    if not weight > 1:
        raise SettingError(f"weight makes each resource better: a number above 1; found {weight!r}")
    stacks, speedups, workload = {}, {}, {}
    for name, trace in traces:
        workload[name] = trace.provenance.workload or name
        stacks[name] = gus.run(trace).cpi_stack()
        found = sensitivity(gus, trace, (weight,))
        speedups[name] = pd.Series(found.speedup[:, 0], index=[r[0] for r in found.resources])
    stack = pd.DataFrame.from_dict(stacks, orient="index").fillna(0.0).rename_axis("run")
    speedup = pd.DataFrame.from_dict(speedups, orient="index").rename_axis("run")
    return Truth(gus.core.name, float(weight), stack, speedup, pd.Series(workload, name="workload").rename_axis("run"))


def expect_truth(given: object, where: str) -> None:
    """Refuse what is no `Truth`, and say how to get one.

    Raises
    ------
    WrongTypeError
        It is none.
    """
    how = "make one with perfkit.SimulatedPmu(core).truth(traces), or load one"
    expect(isinstance(given, Truth), given, where, "a Truth", how)
