"""How many targets of indirect calls this machine's predictor remembers, beside what a core's file says.

    python -m tests.benchmarks.targets --core zen4

Calls from 1, 4, 16 and 64 places go to three functions in a random order that repeats. Printed are the time of a call,
in units of one whose target never changes, and the share of the calls that the simulated predictor misses (simulated;
two thirds is all that can be missed). Where the first begins to rise, the order no longer fits.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from perfkit.collectors.host.toolchain import find_tool
from tests.simulators.test_memory import repeated

PLACES, LENGTHS = (1, 4, 16, 64), (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
FUNCTIONS = 3
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>
typedef unsigned long (*function)(unsigned long);
#define F(n) __attribute__((noinline)) static unsigned long f##n(unsigned long x) { return x + n; }
F(1) F(2) F(3)
static const function all[] = {f1, f2, f3};
static function order[1 << 16];
__attribute__((noinline)) unsigned long calls(function *p, long n) {
  unsigned long s = 0;
  for (long i = 0; i < n; i += SITES, p += SITES) { BODY }
  return s;
}
static double least(long n) {
  double found = 1e18;
  for (long k = 0; k < 300000 / n + 30; k++) calls(order, n);
  for (int r = 0; r < 200; r++) {
    unsigned long t = __rdtsc();
    for (long k = 0; k < 1 + 2000 / n; k++) calls(order, n);
    double each = (double)(__rdtsc() - t) / n / (1 + 2000 / n);
    if (each < found) found = each;
  }
  return found;
}
int main(int count, char **words) {
  for (long i = 0; i < 64; i++) order[i] = f1;
  double always = least(64);
  for (int w = 1; w < count; w++) {
    long n = atol(words[w]);
    double sum = 0;
    for (int draw = 0; draw < 5; draw++) {
      srand(5 * w + draw);
      for (long i = 0; i < n; i++) order[i] = all[rand() / 7 % 3];
      sum += least(n);
    }
    printf("%.3f\n", sum / 5 / always);
  }
}
"""


def measured(places: int, lengths: list[int]) -> list[float]:
    """Return the time of a call for each length of the order, in units of one whose target never changes."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "t.c"), Path(folder, "t")
        source.write_text(PROGRAM)
        body = "".join(f"s=p[{k}](s);" for k in range(places))
        subprocess.run(
            [find_tool("gcc"), "-O2", f"-DSITES={places}", f"-DBODY={body}", source, "-o", program], check=True
        )
        run = subprocess.run([program, *map(str, lengths)], check=True, capture_output=True, text=True)
    return [float(line) for line in run.stdout.split()]


def main() -> None:
    """Print a row for each number of places and each length of the order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", default="zen4")
    core = parser.parse_args().core
    print(f"{'places':>6s} {'order':>6s} {'time per call':>13s} {'missed (simulated)':>18s}")
    for places in PLACES:
        lengths = [n for n in LENGTHS if n >= places]
        for length, took in zip(lengths, measured(places, lengths), strict=True):
            missed = repeated(places, FUNCTIONS, length, core, max(8, 40_000 // length))
            print(f"{places:6d} {length:6d} {took:12.2f}x {missed:18.1%}", flush=True)


if __name__ == "__main__":
    main()
