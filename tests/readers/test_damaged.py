"""What the fuzzer found: damage that made a reader fail instead of saying what is wrong.

`perfkit.base.files.reading` takes whatever fails for the file's fault, so that it is a refusal all the same; here
it must be the reader's own, with its reason.
"""

from pathlib import Path

import pytest

import perfkit as pk
from perfkit.errors import FormatError, SettingError

FIXTURES = Path(__file__).parent / "fixtures"
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


# Outputs of perf that lost lines: the first row that is left was taken for headings, and its numbers for runs.
HEADLESS = {
    "lines without an end": (
        "     0.100000000,1000,,cycles,72685135,100.00,,\n"
        "     0.100000000,900,,instructions,72685,log_instructions\n13.8,14.5\n13135,100.00,,\n"
        "     0.200000000,1000,,cycles,72685135,1\n         summary,2000,,cycles,454604953,100.00,,\n"
        "         summary,1800,,instructions,454604953,100.00,,\n"
    ),
    "lines of another table": (
        "1000,,cycles,web,1000000,100.00,,\n2000,,instructions,web,1000000,10isses/1e3\na,1,2,10\nb,2,4,20\n"
        "0.00,2.00,insn per cycle\n500,,cycles,db,1000000,100.00,,\n"
        "250,,instructions,db,1000000,100.00,0.50,insn per cycle\n"
    ),
    "of nodes": (
        "N0;8;1000;;cycles;1000000;100.00;;\n00:00:09,1128000,;2.00;insn per cycle\n00:00:00,1231000,1808000,4234\n"
        "00:00:01,949000,1648000,7727\n00:00:02,1448000,1692000,3995\n00:00:03,1496000,1618000,8452\n"
        "00:00:04,1419000,1939000,1307\n00:00:05,988000,2388000,4425\n00:00:06,971000,1992000,1743\n"
        "00:00:07,1464000,2369000,1484\n00:00:08,1479000,1753000,8761\n"
        "N0;8;2000;;instructions;1000000;100.00s,branch-misses\nN1;8;500;;cycles;1000000;100.00;;\n"
        "N1;8;250;;instructions;1000000;100.00;0.50;insn per cycle\n"
    ),
}


@pytest.mark.parametrize("what", HEADLESS)
@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_a_row_of_counts_is_not_a_row_of_headings(what, errors, tmp_path):
    path = tmp_path / "damaged.txt"
    path.write_text(HEADLESS[what])
    with pytest.raises((FormatError, SettingError)) as said:
        pk.read_samples(path, errors=errors)
    assert "it cannot be read: damaged" not in str(said.value)


@pytest.mark.parametrize("heading", ["event", "", "cycles and others", "counter"])
def test_a_turned_table_of_one_run_is_read_whatever_its_heading(heading, tmp_path):
    path = tmp_path / "turned.csv"
    path.write_text(f"{heading},first,second\ncycles,500,600\ninstructions,250,300\nbranch-misses,5,6\n")
    found = pk.read_samples(path).table
    assert list(found["run"].unique()) == ["first", "second"]
    assert found.loc[found["event"] == "branch-misses", "count"].tolist() == [5, 6]


def test_a_beginning_that_is_no_number_is_told_and_tells_no_length(tmp_path):
    path = tmp_path / "damaged.csv"
    path.write_text(
        '"Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
        '"k","GRBM_GUI_ACTIVE",3000.0,1000counted>,2000\n"k","SQ_INSTS_VALU",6000.0,1000counted>,2000\n'
    )
    found = pk.read_samples(path, errors="collect", time_event="GRBM_GUI_ACTIVE", work_event="SQ_INSTS_VALU")
    assert found.table["seconds"].isna().all()
    assert any("Start_Timestamp" in note for note in found.notes)


def test_signs_that_look_like_digits_are_none(tmp_path):
    path = tmp_path / "damaged.csv"
    path.write_text(
        "time_s,cycles,instructions,misses\n0.5,0x6724cc,0x7d7760,0x17\n5\u00b95082,0x3a2d9b,0x33d3dd,0x22\n"
        "1.5,0x746d3f,0x223af1,0x1d\n2.5,0x717386,0x719619,0x1c\n"
    )
    with pytest.raises(FormatError, match=r"line 3: expected a number in column time_s"):
        pk.read_samples(path)
    assert len(pk.read_samples(path, errors="collect").problems) == 1


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


@pytest.mark.parametrize("line", [" x", "x", " #", " 1", "\t", " -", " 1 x"])
@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.txt")), ids=lambda file: file.name)
def test_a_line_of_one_sign_is_read_or_refused(tmp_path, file, line):
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    path = tmp_path / file.name
    path.write_text(
        "\n".join([*lines[: len(lines) // 2], line, *lines[len(lines) // 2 :], line]) + "\n", encoding="utf-8"
    )
    said = ""
    try:
        assert len(pk.read_samples(path, errors="collect").table)
    except (FormatError, SettingError) as refused:
        said = str(refused)
    assert "it cannot be read: damaged" not in said
