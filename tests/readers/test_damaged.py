"""What the fuzzer found: damage that made a reader fail instead of saying what is wrong.

`perfkit.files.reading` takes whatever fails for the file's fault, so that it is a refusal all the same; here it must be
the reader's own, with its reason.
"""

import pytest

import perfkit as pk
from perfkit.errors import FormatError

FOUND = {
    "dates beyond what nanoseconds can count": (
        "time,cycles,instructions\n2626-01-01 10:00:00,10,20\n2626-01-01 10:00:01,30,20\n",
        "",
    ),
    "every count of perf is damaged": (
        "\n Performance counter stats for 'a':\n\n   1.2.34,5.6      cycles\n   1.2.34,5.6      instructions\n\n",
        "without a single count",
    ),
    "a runtime of a likwid timeline": (
        "CPU name:\tIntel(R) Xeon(R)\n# HWThreads: 0|1\n"
        "# GID|EventCount|CpuCount|Total runtime [s]|INSTR_RETIRED_ANY|CPU_CLK_UNHALTED_CORE\n1 2 2 2.0nan3 7 9 7 9\n",
        "expected",
    ),
    "a column of Nsight is not there": (
        '"ID","Kernel Name","Metric Name","Metric Value"\n"0","k","sm__cycles_elapsed.sum","3,000"\n',
        "Metric Unit is not there",
    ),
}


@pytest.mark.parametrize("what", FOUND)
@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_a_reader_says_itself_what_is_wrong(what, errors, tmp_path):
    text, reason = FOUND[what]
    path = tmp_path / "damaged.txt"
    path.write_text(text)
    try:
        samples = pk.read_samples(path, errors=errors)
    except FormatError as error:
        assert "it cannot be read: damaged" not in str(error)
        assert errors == "raise" or reason in str(error)
    else:
        assert not reason
        assert samples.n_intervals == 2
