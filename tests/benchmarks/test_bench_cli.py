"""What ``perfkit --help`` costs, beside Python's own start in the same run."""

import os
import subprocess
import sys


def seconds(*words):
    """The processor time of a program, the lowest of five."""
    code = (
        "import os, subprocess, sys; subprocess.run(sys.argv[1:], stdout=-3, check=True);"
        "used = os.times(); print(used.children_user + used.children_system)"
    )
    command = [sys.executable, "-c", code, sys.executable, *words]
    return min(float(subprocess.check_output(command)) for _ in range(5))


def test_help_beside_an_empty_program():
    os.environ.pop("COVERAGE_PROCESS_START", None)
    empty, library, ours = seconds("-c", "pass"), seconds("-c", "import typer"), seconds("-m", "perfkit", "--help")
    print(f"\nperfkit --help: {1e3 * ours:.0f} ms of processor time")
    print(f"Python alone {1e3 * empty:.0f} ms: x{ours / empty:.1f}")
    print(f"with `import typer` {1e3 * library:.0f} ms: x{ours / library:.2f}")
    assert ours < 4 * library
