"""An installation without extras traces and simulates, and names the extra where something else is asked."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perfkit.errors import EXTRAS

HIDDEN = f"import sys; sys.modules |= dict.fromkeys({sorted(EXTRAS)})\n"
SHIPPED = Path(__file__).parents[1] / "data/traces/triad.trace"


def run(code, *arguments, folder):
    """Run code in a process of its own, in which no package of an extra can be imported."""
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + code, *map(str, arguments)], capture_output=True, text=True, cwd=folder
    )


def command(*arguments, folder):
    return run("from perfkit.cli.main import main; main()", *arguments, folder=folder)


def test_a_trace_is_simulated_saved_and_explained(tmp_path):
    done = run(
        "import perfkit as pk\n"
        "result = pk.Gus(pk.Microarchitecture.load('zen4')).run(pk.Trace.load(sys.argv[1]))\n"
        "result.trace.save('a.trace'); result.save('a.gus')\n"
        "again = pk.GusResult.load('a.gus')\n"
        "assert again.cycles == result.cycles > 0\n"
        "assert again.sensitivity().bottleneck in str(again.sensitivity())\n"
        "print(again)\n"
        "try: result.to_frame()\n"
        "except pk.PerfkitError as error: print(error)\n"
        "try: pk.read_samples('x.txt')\n"
        "except pk.PerfkitError as error: print(error)\n",
        SHIPPED,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("this needs pandas, which is not installed: pip install 'perfkit[analysis]'") == 2


def test_the_command_line_records_and_simulates(tmp_path):
    (tmp_path / "k.c").write_text("void k(double *a, long n) { for (long i = 0; i < n; i++) a[i] += 1.0; }\n")
    recorded = command("trace", "k.c", "-o", "k.trace", "--", "f8[100]", "100", folder=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    simulated = command("gus", "k.trace", "--core", "zen4", folder=tmp_path)
    assert simulated.returncode == 0, simulated.stderr
    assert "cycles" in simulated.stdout


@pytest.mark.parametrize(
    "arguments", [["explore", "x.txt"], ["spire", "train", "x.txt", "-o", "x.spire"], ["cpi", "x.txt"], ["data"]]
)
def test_what_needs_an_extra_says_which_in_one_line(tmp_path, arguments):
    (tmp_path / "x.txt").write_text("cycles,instructions\n5,4\n6,4\n")
    done = command(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "perfkit: this needs pandas, which is not installed: pip install 'perfkit[analysis]'\n"


def test_every_package_of_an_extra_is_known_to_be_one():
    """What an extra of `pyproject.toml` brings is named where it is missing (bar what perfkit never imports)."""
    extras = tomllib.loads((SHIPPED.parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {
        package.split(">")[0].replace("scikit-learn", "sklearn"): extra
        for extra, packages in extras.items()
        for package in packages
        if not package.startswith("perfkit[") and not package.startswith(("voila", "pandas-stubs"))
    }
    assert {name: EXTRAS.get(name) for name in found} == found


def test_why_says_so_before_the_program_has_run(tmp_path):
    done = command("why", sys.executable, "--", "-c", "open('ran', 'w')", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("this needs pandas, which is not installed: pip install 'perfkit[analysis]'\n")
    assert not (tmp_path / "ran").exists()
