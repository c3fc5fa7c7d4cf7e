"""Columns of matrices: lines that share a set of L1, and what is prefetched for lines that are not adjacent."""

import io
import zipfile

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors import compile_kernel
from perfkit.errors import SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.memory.memory import LEVEL, PREFETCH_SHIFT
from tests.simulators.assembled import loop, needs_assembler
from tests.simulators.test_memory import accesses, codes

ZEN4 = Microarchitecture.load("zen4")
SET_FILL = ZEN4.value("L1_set_fill")
SOURCE = """
double a[N][N], b[N][N], c[N][N];
void setup(void) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = b[i][j] = i + j; }
void transpose(void) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) b[j][i] = a[i][j]; }
double columns(void) {
  double s = 0, t = 0;
  for (int j = 0; j < N; j++) for (int i = 0; i + 1 < N; i += 2) { s += a[i][j]; t += a[i + 1][j]; }
  return s + t;
}
void four_rows(void) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < N; k++) s += a[i][k] * b[k][j];
      c[i][j] = s;
    }
}
"""
# Cycles per element, warm caches, measured with true_cycles on the host that zen4.toml names zen4-host, 2026-11-23.
MEASURED = [
    ("transpose", 128, 5.27), ("transpose", 129, 1.03), ("transpose", 256, 9.27), ("transpose", 257, 1.42),
    ("columns", 128, 2.68), ("columns", 129, 1.49), ("columns", 256, 8.02), ("columns", 257, 1.49),
    ("four_rows", 130, 2.14), ("four_rows", 256, 7.49), ("four_rows", 260, 2.57),
]  # fmt: skip


def walk(lines: int, stride: int, body: str = "mov rax,[rdi]", core: Microarchitecture = ZEN4) -> float:
    """Cycles per line of a second walk over lines so far apart, all in L2."""
    trace = loop(body, lines, lambda k, _: 1 << 20 | k * stride)
    return Gus(core, warm="caches").run(trace).cycles / lines


@needs_assembler
def test_lines_of_one_set_come_one_by_one():
    """By hand: 128 lines in one set take the figure each, in two sets half of it, in eight the bandwidth of L2."""
    bandwidth = 64 / ZEN4.value("L2_bandwidth")
    assert walk(128, 4096) == pytest.approx(SET_FILL, rel=0.02)
    assert walk(128, 2048) == pytest.approx(SET_FILL / 2, rel=0.05)
    assert walk(1024, 512) == pytest.approx(bandwidth, rel=0.05)


@needs_assembler
def test_a_written_line_that_leaves_the_set_takes_as_long_again():
    """Of what the store buffer does not hold: the last stores are written after the end."""
    more = 256 * walk(256, 4096, "mov [rdi],rax") - 192 * walk(192, 4096, "mov [rdi],rax")
    assert more / 64 == pytest.approx(2 * SET_FILL, rel=0.01)


@pytest.mark.parametrize(("function", "n", "measured"), MEASURED)
def test_columns_take_what_they_take_on_a_machine(function, n, measured):
    """Where sets take turns, the machine overlaps fewer of them than the model: up to 40 % are missing there."""
    kernel = compile_kernel(SOURCE, function, flags=f"-O2 -fno-tree-vectorize -DN={n}")
    elements = n * n * (4 if function == "four_rows" else 1)
    per_element = Gus(ZEN4, warm="caches").run(kernel.trace()).cycles / elements
    assert 0.6 < per_element / measured < 1.15


def test_the_cause_is_named_and_padding_promised():
    kernel = compile_kernel(SOURCE, "columns", flags="-O2 -fno-tree-vectorize -DN=256")
    result = Gus(ZEN4, warm="caches").run(kernel.trace())
    assert result.cpi_stack().idxmax() == "L1_set_fill"
    found = result.sensitivity()
    assert found.bottleneck == "L1_set_fill"
    assert found.to_frame()["x2"].max() > 0.9  # twice as fast
    assert np.abs(result.causality().shares - result.causality(exact=True).shares).max() < 0.06


def test_a_core_whose_sets_a_page_does_not_tell_is_refused():
    wide = pk.Microarchitecture.from_toml(ZEN4.to_toml().replace("size = { value = 32768", "size = { value = 262144"))
    with pytest.raises(SettingError, match="at most 64 sets"):
        Gus(wide).run(accesses(np.arange(64) * 64, np.full(64, 8)))


@pytest.mark.parametrize(("step", "fetched"), [(1, True), (-1, True), (2, False), (-3, False), (64, False)])
def test_zen_4_prefetches_adjacent_lines_only(step, fetched):
    """64 lines so far apart, cold: from the second (or third) on each fetches the one that follows, or none does."""
    addresses = (1 << 20) + 64 * step * np.arange(64)
    found = codes(ZEN4, accesses(addresses, np.full(64, 8)))
    prefetches = (found >> PREFETCH_SHIFT & LEVEL) == 3
    assert prefetches.sum() == (63 if fetched else 0)
    assert ((found & LEVEL) == 3).sum() == (2 if fetched else 64)  # demand misses of all caches


def test_a_stream_of_two_instructions_is_one():
    """Two loads take turns line by line: each moves on by two lines, the page's misses by one."""
    pairs = (1 << 20) + 64 * np.arange(64)
    trace = accesses(pairs, np.full(64, 8), writes=np.arange(64) % 2 == 1)
    assert ((codes(ZEN4, trace) >> PREFETCH_SHIFT & LEVEL) == 3).sum() == 63


@pytest.mark.parametrize("later", [(timing.REGISTER_FILE,), (timing.SET_FILL, timing.REGISTER_FILE)])
def test_results_saved_before_a_cause_was_known_are_read(tmp_path, later):
    skylake = Microarchitecture.load("skylake_x")
    result = Gus(skylake).run(accesses(np.arange(64) * 64, np.full(64, 8)))
    old = result.save(tmp_path / "new.gus")
    with zipfile.ZipFile(old) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    spent = np.load(io.BytesIO(parts["spent.npy"]))
    data = io.BytesIO()
    np.save(data, np.ascontiguousarray(np.delete(spent, later, axis=1)))
    parts["spent.npy"] = data.getvalue()
    with zipfile.ZipFile(tmp_path / "old.gus", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    read = pk.GusResult.load(tmp_path / "old.gus")
    assert (read.spent == result.spent).all()
    assert read.cpi_stack().equals(result.cpi_stack())
