"""The law of no silent loss: every line that is not blank becomes counts, describes them, or is told of."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import PerfkitError
from perfkit.readers.running_totals import ENDS

FIXTURES = sorted(p for p in (Path(__file__).parent / "fixtures").iterdir() if p.is_file())
ONE_LINE_A_COUNT = ("perf-text", "perf-csv", "perf-json")
MORE = {
    "simpleperf.txt": (
        "Performance counter statistics:\n\n#   count  event_name\n  3,000  cpu-cycles  # 3 GHz  (100%)\n"
        "  6,000  instructions  # 2.0  (100%)\n\nTotal test time: 1.0 seconds.\n"
    ),
    "uprof.csv": "AMD uProf Report\n\nFUNCTION,CYCLES_NOT_IN_HALT,RETIRED_INST\nmain,1000,2000\n\nMODULE,X\na,1\n",
    "cachegrind.out": "events: Ir I1mr ILmr\nfl=a.c\nfn=main\n1 10 1 1\n2 20 0 0\nsummary: 30 1 1\n",
}
# What a stray line of a captured output may be: a program's own words, a number, a header, a note of a shell.
STRAY = st.one_of(
    st.sampled_from(
        [
            "done.",
            "42",
            "1.5 seconds",
            "cycles,instructions",
            "# comment",
            "<not counted> x",
            "a,b,c,d",
            "{}",
            "[",
            "+ ls",
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00\x1b"), min_size=1, max_size=30),
)


def content_of(path):
    return path.read_bytes()


def lines_that_are_not_blank(data):
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return sum(bool(x.strip(" \t\r\f\v")) for x in text.split("\n"))
    raise AssertionError


def check(samples):
    for one in samples.accounting.itertuples():
        assert one.total == one.counts + one.describes + one.left_out + one.problems
        # A line whose one count is bad is told as a problem, and its other counts are kept: it may be the only one.
        assert one.counts > 0 or (one.problems and len(samples.table))
        if one.unit != "line":
            continue
        of_file = samples.problems[samples.problems["file"] == one.file]
        assert one.problems == of_file.loc[of_file["line"] > 0, "line"].nunique()
        if one.left_out:
            assert any(re.search(r": [\d,]+ (line|row|record)s? ", n) for n in samples.notes), samples.notes


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.name)
def test_every_line_of_the_fixtures_is_accounted_for(path):
    try:
        samples = pk.read_samples(path, errors="collect")
    except PerfkitError:
        return  # refused as a whole, which is told
    check(samples)
    only = samples.accounting.iloc[0]
    if only["unit"] == "line" and path.suffix not in (".gz", ".xz", ".bz2", ".zst") and "utf-16" not in path.name:
        assert only["total"] == lines_that_are_not_blank(content_of(path))


SMALL = [
    (p.name, content_of(p)) for p in FIXTURES if p.stat().st_size < 20_000 and p.suffix in (".txt", ".csv", ".json")
]
SMALL += [(name, text.encode()) for name, text in MORE.items()]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.lists(st.tuples(st.integers(0, 60), STRAY), max_size=4), st.data())
def test_stray_lines_in_any_format_are_told_of(which, stray, data):
    """A line that strays into a dump never vanishes, and never makes a count of another line vanish."""
    name, content = which
    lines = content.decode("latin-1").split("\n")
    for at, text in stray:
        lines.insert(min(at, len(lines)), text.encode().decode("latin-1"))
    if data.draw(st.booleans()) and len(lines) > 2:
        del lines[data.draw(st.integers(0, len(lines) - 1))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes("\n".join(lines).encode("latin-1"))
        try:
            samples = pk.read_samples(path, errors="collect")
        except PerfkitError:
            return
        check(samples)
        only = samples.accounting.iloc[0]
        if only["unit"] == "line" and "\ufeff" not in content.decode("utf-8", "replace"):
            assert only["total"] == lines_that_are_not_blank(path.read_bytes())


def test_a_line_of_which_one_count_is_bad_keeps_the_others_and_is_told_of(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("cycles,instructions,misses\n110,210,-4\n")
    samples = pk.read_samples(path, errors="collect")
    check(samples)
    assert samples.table[["time", "work"]].drop_duplicates().to_numpy().tolist() == [[110, 210]]
    assert "-4" in " ".join(samples.problems.astype(str).to_numpy().ravel())


# Where a counter ends is no count, and told as such.
COUNTS = st.integers(0, 10**12).filter(lambda n: n not in ENDS)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ONE_LINE_A_COUNT),
    st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["junk line", "# note", "", "   "])), max_size=3),
)
def test_every_count_that_was_written_is_in_the_table(kind, intervals, stray):
    lines = []
    for i, (cycles, instructions) in enumerate(intervals, 1):
        for value, event in ((cycles, "cycles"), (instructions, "instructions"), (i, "misses")):
            at = f"{i}.000000000"
            lines.append(
                {
                    "perf-text": f"     {at}  {value:>20}      {event}",
                    "perf-csv": f"{at},{value},,{event},1000,100.00,,",
                    "perf-json": f'{{"interval" : {at}, "counter-value" : "{value}.000000", "event" : "{event}", '
                    '"pcnt-running" : 100.00}',
                }[kind]
            )
    for at, text in stray:
        lines.insert(min(at, len(lines)), text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump.txt")
        path.write_text("\n".join(lines) + "\n")
        samples = pk.read_samples(path, errors="collect", format=kind)
    check(samples)
    found = samples.table.pivot(index="interval", columns="event", values="count")
    assert found["cycles"].tolist() == [float(c) for c, _ in intervals]
    assert found["instructions"].tolist() == [float(i) for _, i in intervals]
    junk = sum(text == "junk line" for _, text in stray)
    only = samples.accounting.iloc[0]
    assert (only["counts"], only["problems"]) == (3 * len(intervals), junk)


@pytest.mark.parametrize("name", ["papi-7.json", "papi-6.json"])
def test_values_of_documents_are_accounted_for(fixtures, name):
    samples = pk.read_samples(fixtures / name, work_event="perf::TASK-CLOCK" if "7" in name else None)
    only = samples.accounting.iloc[0]
    assert only["unit"] == "value"
    assert only["counts"] == len(samples)
    assert only["total"] == only["counts"] + only["describes"] + only["left_out"]


def test_the_account_is_kept_in_files_and_joined(fixtures, tmp_path):
    both = pk.read_samples([fixtures / "real-I.txt", fixtures / "real-I.csv"], work_event="page-faults")
    assert both.accounting["file"].tolist() == ["real-I.txt", "real-I.csv"]
    assert pk.Samples.load(both.save(tmp_path / "both.parquet")).accounting.equals(both.accounting)
