import pytest

import perfkit as pk
from perfkit.errors import SettingError


def test_figure_1_does_two_fmas_on_eight_floats_an_iteration():
    # 1000 iterations x 2 FMAs x 8 lanes x 2 operations
    assert pk.flops(pk.datasets.load("traces/fig1a")) == 32_000


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        # v0: one FMA for each of N = 48 rows and each pair of M = 48 columns in the triangle.
        (0, 48 * (48 * 49 // 2) * 2),
        # v6: tiles of 3x12 in four block columns that start at the diagonal: 16 + 12 + 8 + 4 tiles of 9 FMAs, 48 rows.
        (6, 40 * 9 * 48 * 4 * 2),
    ],
)
def test_operations_of_the_correlation_versions(version, expected):
    assert pk.flops(pk.datasets.load(f"traces/correlation-v{version}-small")) == expected


@pytest.mark.parametrize(
    ("core", "bits", "double", "peak"),
    [("skylake_x", 256, True, 16), ("skylake_x", 512, True, 32), ("zen4", 512, True, 16), ("zen4", 256, False, 32)],
)
def test_the_peak_is_what_the_fma_units_do(core, bits, double, peak):
    assert pk.peak_flops(pk.Microarchitecture.load(core), bits=bits, double=double) == peak


def test_a_core_without_such_units_has_no_such_peak():
    with pytest.raises(SettingError, match="sandy_bridge has no fused multiply-add"):
        pk.peak_flops(pk.Microarchitecture.load("sandy_bridge"))
    with pytest.raises(SettingError, match="known are 128, 256, 512"):
        pk.peak_flops(pk.Microarchitecture.load("zen4"), bits=64)
