"""Run the README's snippets in an empty folder, on files of the names in them that hold generated counts."""

import re
import sys
from pathlib import Path

import perfkit as pk

_TRIAD = """void triad(double *a, const double *b, double x, long n) {
    for (long i = 0; i < n; i++) a[i] = a[i] + x * b[i];
}
"""


def write_inputs() -> None:
    """Write the files that the snippets read: counts as perf prints them, and a kernel."""
    for seed, name in enumerate(("train-a", "train-b", "my-program")):
        samples, _ = pk.synthetic_cpi(intervals=60, workload=name, seed=seed)
        lines = [
            f"{row.interval + 1}.000000000,{row.count:.0f},,{row.event},1000000,100.00,,\n"
            for row in samples.table.sort_values("interval", kind="stable").itertuples()
        ]
        Path(f"{name}.txt").write_text("".join(lines))
    Path("triad.c").write_text(_TRIAD)


def main() -> None:
    """Run every snippet of the file that is named."""
    write_inputs()
    for snippet in re.findall(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(snippet, sys.argv[1], "exec"), {})  # noqa: S102  the project's own text
    print(f"the README's snippets ran with {pk.__file__}")


if __name__ == "__main__":
    main()
