"""What the fuzzer found: damage that made a reader fail instead of saying what is wrong.

`perfkit.files.reading` takes whatever fails for the file's fault, so that it is a refusal all the same; here it must be
the reader's own, with its reason.
"""

import pytest

import perfkit as pk
from perfkit.errors import FormatError

FOUND = {
    "every count of perf is damaged": (
        "\n Performance counter stats for 'a':\n\n   1.2.34,5.6      cycles\n   1.2.34,5.6      instructions\n\n",
        "without a single count",
    ),
    "a runtime of a likwid timeline": (
        "# HWThreads: 0|1\n# GID|EventCount|CpuCount|Total runtime [s]|INSTR_RETIRED_ANY|CYC\n1 2 2 2.0nan3 7 9 7 9\n",
        "without a table of raw counts",
    ),
    "VTune without an event": (
        "Function,CLK^Hardware Event Count:CLK,Module\nmain,1000,a.out\n",
        "no column is called Hardware Event Count:EVENT",
    ),
    "a column of Nsight is not there": (
        '"ID","Kernel Name","Metric Name","Metric Value"\n"0","k","sm__cycles_elapsed.sum","3,000"\n',
        "Metric Unit is not there",
    ),
    "Nsight with percentages alone": (
        '"ID","Process ID","Kernel Name","sm__throughput.avg.pct_of_peak"\n"","","","%"\n"1","7","gemm","51.5"\n',
        "only percentages, rates and settings: sm__throughput.avg.pct",
    ),
}


@pytest.mark.parametrize("what", FOUND)
@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_a_reader_says_itself_what_is_wrong(what, errors, tmp_path):
    text, reason = FOUND[what]
    path = tmp_path / "damaged.txt"
    path.write_text(text)
    with pytest.raises(FormatError) as said:
        pk.read_samples(path, errors=errors)
    assert errors == "raise" or reason in str(said.value)
    assert "it cannot be read: damaged" not in str(said.value)


def test_dates_beyond_what_nanoseconds_can_count(tmp_path):
    path = tmp_path / "dated.csv"
    path.write_text("time,cycles,instructions\n2626-01-01 10:00:00,30,20\n2626-01-01 10:00:01.5,10,20\n")
    assert pk.read_samples(path).intervals()["at"].tolist() == [0.0, 1.5]


def test_a_number_of_hundreds_of_digits_in_no_grouping(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(f"time;cycles;instructions\n0,5;1000;2000\n1,{'9' * 400},0;2000;4000\n")
    with pytest.raises(FormatError, match="line 3: not a number in any digit grouping"):
        pk.read_samples(path)
    samples = pk.read_samples(path, errors="collect")
    assert samples.table["count"].sum() == 9000
    assert samples.problems["line"].tolist() == [3]
