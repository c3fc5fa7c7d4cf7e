"""Runs with counts inside of documents, times with units, counts before their names: each read exactly, or refused."""

import json

import pytest

import perfkit as pk
from perfkit.errors import FormatError
from tests.readers.test_traps import column, counts, noted

A, B = {"cycles": 3000, "instructions": 6000}, {"cycles": 3001, "instructions": 6002}
AT = [{"t": 0.1, **A}, {"t": 0.3, **B}]
BY_EVENT = [{"event": "cycles", "value": 3000}, {"event": "instructions", "value": 6000}]
BY_LIST = {"cycles": [3000, 3001], "instructions": [6000, 6002]}
AS_VALUE = {name: {"value": count, "unit": ""} for name, count in A.items()}
YAML = "runs:\n- name: a\n  counters:\n    cycles: 3000  # of one core\n    instructions: 6000\n"


def cycles_of(samples):
    return {run: counts(samples, "cycles", run) for run in samples.runs.index}


@pytest.mark.parametrize(
    ("document", "cycles"),
    [
        ([{"name": "a", "counters": A}, {"name": "b", "counters": B}], {"a": [3000], "b": [3001]}),
        ({"a": {"counters": A}, "b": {"counters": B}}, {"a": [3000], "b": [3001]}),
        ({"runs": [{"name": "a", "config": {"n": 4}, "counters": A}]}, {"a": [3000]}),
        ({"runs": [{"name": "a", "counters": A, "derived": {"ipc": 2.0, "cycles": 3.0}}]}, {"a": [3000]}),
        ({"runs": [{"name": "a", "intervals": AT}, {"name": "b", "intervals": [B]}]}, {"a": [3000, 3001], "b": [3001]}),
        ({"runs": [{"intervals": [A, B]}, {"intervals": [B]}]}, {"1": [3000, 3001], "2": [3001]}),
        ({"runs": [{"name": "a", "warmup": A, "measured": B}]}, {"a, warmup": [3000], "a, measured": [3001]}),
        ({"runs": [{"name": "a", "x": {}, "counters": BY_EVENT}]}, {"a": [3000]}),
        ({"runs": [{"name": "a", "x": {}, "counters": BY_LIST}]}, {"a": [3000, 3001]}),
        ({"runs": [{"name": "a", "x": {}, "counters": AS_VALUE}]}, {"a": [3000]}),
        ({"a": {"counters": A}, "b": {"counters": A}, "total": {"counters": {k: 2 * v for k, v in A.items()}}},
         {"a": [3000], "b": [3000]}),
    ],
)  # fmt: skip
def test_what_stands_above_counts_names_their_run(read, document, cycles):
    samples = read(json.dumps(document))
    assert cycles_of(samples) == cycles
    assert set(samples.table["event"]) == {"cycles", "instructions"}
    assert len(samples.accounting) == 1


def test_a_clock_beside_the_counters_is_the_rows_clock(read):
    rows = [{"timestamp": f"2026-05-01T10:00:0{i}Z", "x": {}, "counters": each} for i, each in enumerate((A, B))]
    samples = read(json.dumps({"runs": [{"name": "a", "samples": rows}]}))
    assert column(samples, "cycles", "seconds")[1] == 1.0
    assert read(json.dumps({"runs": [{"name": "a", "intervals": AT}]})).intervals()["seconds"].tolist() == (
        pytest.approx([0.1, 0.2])
    )


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        (YAML, {"a": [3000]}),
        ("a:\n  cycles: 03000\n  instructions: 6_000\n", {"dump": [3000]}),  # no octal number
        ("a: {cycles: 3000, instructions: 6000}\nb: {cycles: 3001, instructions: 6002}\n", {"a": [3000], "b": [3001]}),
        ("---\ncycles: 3000\ninstructions: 6000\n---\ncycles: 3001\ninstructions: 6002\n", {"dump": [3000, 3001]}),
        ("counters:\n- event: cycles\n  value: 3000\n- event: instructions\n  value: 6000\n", {"dump": [3000]}),
        ("[a]\ncycles = 3000\ninstructions = 6000\n; of b\n[b]\ncycles: 3001\ninstructions: 6002\n",
         {"a": [3000], "b": [3001]}),
        ('[[run]]\nname = "a"\ncycles = 3_000\ninstructions = 6000\n', {"a": [3000]}),
    ],
)  # fmt: skip
def test_yaml_toml_and_ini(read, text, cycles):
    assert cycles_of(read(text)) == cycles


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps({"runs": [{"name": "a", **A, "intervals": [A, B]}]}), "counted twice"),
        (json.dumps({"runs": [{"name": "a", "x": {}, "counters": {"cycles": "1:30", "instructions": 9}}]}), "decimal"),
        (json.dumps({"runs": [{"x": {}, "counters": {k: {"value": 3, "unit": "K"} for k in A}}]}), "found none in"),
        (json.dumps({"runs": [{"name": "a", "x": {}, "counters": A}]})[:-2], "damaged"),
        (json.dumps([{"n": 1, "x": {}, "y": A}, {"n": 2, "x": {}, "y": {**A, "cycles": None}}]), "decimal"),
        ("a: &one\n  cycles: 3000\n  instructions: 6000\nb: *one\n", "aliases are not read"),
        ("a:\n  cycles: 3000\n  cycles: 3001\n  instructions: 6000\n", "stands there twice"),
        ("a:\n  cycles: 0xbb8\n  instructions: 6000\n", "decimal"),
        ("[a]\ncycles=1\ninstructions=2\n[a]\ncycles=1\ninstructions=2\n", "already exists"),
        ('{"a": ' * 70 + json.dumps(A) + "}" * 70, "nested so deep"),
    ],
)
def test_documents_that_are_refused(read, text, why):
    with pytest.raises(FormatError, match=why):
        read(text)


def test_the_longest_yaml(read, monkeypatch):
    monkeypatch.setattr("perfkit.readers.nested._MOST", len(YAML))
    assert cycles_of(read(YAML)) == {"a": [3000]}
    with pytest.raises(FormatError, match="Write it as JSON"):
        read(f"{YAML} ")


def test_what_is_not_read_of_a_document_is_told(read):
    samples = read(json.dumps({"host": "x", "runs": [{"name": "a", "config": {"n": 1}, "counters": A}]}))
    assert noted(samples, "not read", "host", "config")


# ------------------------------------------------------------------ times with units


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (("500ms", "1000ms", "1.5s"), 0.5),
        (("0,5 s", "1 s", "1,5 s"), 0.5),
        (("250µs", "500us", "750000ns"), 0.00025),
        (("1m", "1m30s", "2m"), 30.0),
        (("1h", "1h 1min", "1h2m"), 60.0),
    ],
)
def test_times_with_units_are_seconds(read, cells, seconds):
    samples = read("time;cycles;instructions\n" + "".join(f"{t};{3000 + i};{6000 - i}\n" for i, t in enumerate(cells)))
    assert column(samples, "cycles", "seconds")[1:] == pytest.approx([seconds] * 2)
    assert noted(samples, "taken as seconds", "time")


@pytest.mark.parametrize("cells", [("500ms", "1 fortnight", "1.5s"), ("5 m/s", "6 m/s", "7 m/s"), ("a", "b", "c")])
def test_other_words_are_no_times(read, cells):
    samples = read("time,cycles,instructions\n" + "".join(f"{t},{3000 + i},{6000 - i}\n" for i, t in enumerate(cells)))
    assert noted(samples, "hold text, left out", "time")


def test_a_column_of_seconds_with_units(read):
    samples = read("seconds,cycles,instructions\n500ms,3000,6000\n1s,3001,5000\n250ms,3002,5500\n")
    assert column(samples, "cycles", "seconds") == [0.5, 1.0, 0.25]


def test_a_unit_of_the_name_and_one_of_the_cells(read):
    assert noted(read("time_ms,cycles,instructions\n500us,3000,6000\n1s,3001,5000\n"), "hold text", "time_ms")


def test_dates_of_kibana(read):
    rows = [f'"Dec 31, 2025 @ 23:59:5{8 + i}.500",{3000 + i},{6000 - i}' for i in range(2)]
    samples = read("\n".join(['"@timestamp",cycles,instructions', *rows, '"Jan 1, 2026 @ 00:00:00.750",3002,5998', ""]))
    assert column(samples, "cycles", "seconds")[1:] == [1.0, 1.25]


# ------------------------------------------------------------------ counts before their names


@pytest.mark.parametrize("sign", [" ", "\t", ",", ": ", " = "])
def test_a_count_before_its_name(read, sign):
    lines = [f"{c}{sign}{e}" for c, e in (("3000", "cycles"), ("6000", "instructions"), ("7", "faults"))]
    samples = read("\n".join([*lines, *lines, ""]))
    assert counts(samples, "cycles") == [3000, 3000]
    assert counts(samples, "faults") == [7, 7]


def test_counts_on_either_side_are_no_list(read):
    with pytest.raises(FormatError):
        read("3000 cycles\ninstructions 6000\n")


# ------------------------------------------------------------------ names of runs


@pytest.mark.parametrize("beside", ["command", "kernel", "name", "program_name", "input"])
def test_words_beside_a_run_part_it(read, beside):
    rows = [f"{word},{run},{3000 + i},{6000 - i}" for i, (word, run) in enumerate([("f", 1), ("f", 2), ("g", 1)])]
    samples = read("\n".join([f"{beside},run,cycles,instructions", *rows, ""]))
    assert cycles_of(samples) == {"f, 1": [3000], "f, 2": [3001], "g, 1": [3002]}


def test_programs_by_number_are_no_event(read):
    samples = read("program,run,cycles,instructions\n1,1,3000,6000\n2,1,3001,5999\n999,1,3002,5998\n")
    assert cycles_of(samples) == {"1, 1": [3000], "2, 1": [3001], "999, 1": [3002]}


# ------------------------------------------------------------------ totals in few rows


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(900, 600), (1200, 800)], True),  # a third more
        ([(901, 600), (1201, 800)], False),
        ([(900, 600), (1200, 799)], False),
        ([(900, 600), (1800, 1200), (2700, 1800)], True),
        ([(900, 600), (1800, 1200), (1700, 1300)], False),
    ],
)
def test_few_rows_that_grow_as_totals_do(read, rows, told):
    lines = [f"{i},{c},{w},{12 + i % 2},{1000 + i}" for i, (c, w) in enumerate(rows, 1)]
    text = "\n".join(["time_s,cycles,instructions,CPU_USAGE_0,PACKAGE_ENERGY (J)", *lines, ""])
    assert noted(read(text), "caution", "every count rises") == told
    assert not noted(read(text, cumulative=False), "every count rises")


def test_the_delta_of_energibridge_is_a_length(read):
    text = "Delta,Time,CYCLES,INSTRUCTIONS\n0,1714557600000,100,200\n100,1714557600100,250,500\n"
    samples = read(text, cumulative=True)
    assert {e: counts(samples, e) for e in set(samples.table["event"])} == {"CYCLES": [150], "INSTRUCTIONS": [300]}
    assert samples.intervals()["seconds"].tolist() == pytest.approx([0.1], rel=1e-5)


# ------------------------------------------------------------------ JMH

_RESULT = (
    'Result "m.sum":\n  12.0 ±(99.9%) 0.1 ns/op [Average]\n  (min, avg, max) = (11.9, 12.0, 12.1), stdev = 0.05\n\n'
)
_HEAD = f'Secondary result "m.sum:·perf":\nPerf stats:\n{"-" * 50}\n\n'


def _of_perf(cycles):
    return f"    {cycles} cycles   #  3.1 GHz  (31.25%)\n    8,000,000 instructions\n\n    2.5 seconds time elapsed\n\n"


def test_the_counts_of_jmh(read):
    forks = _of_perf("4,000,000") + _of_perf("5,000,000")
    samples = read(f"# JMH version: 1.37\n# Fork: 1 of 2\n{_RESULT}{_HEAD}{forks}\n# Fork: 1 of 1\n{_RESULT}"
                   f"{_HEAD}{_of_perf('6,000,000')}\n# Run complete. Total time: 00:01\n")  # fmt: skip
    assert counts(samples, "cycles") == [4e6, 5e6, 6e6]
    assert samples.intervals()["seconds"].tolist() == [2.5] * 3
    assert column(samples, "cycles", "running") == [0.3125] * 3
    assert len(samples.runs) == 3


@pytest.mark.parametrize(
    "text",
    [
        "# JMH version: 1.37\n# Fork: 1 of 1\n" + _RESULT,
        "Benchmark  Mode  Cnt  Score  Error  Units\nm.sum  avgt  5  12.0 ± 0.1  ns/op\n",
        "m.sum:·cycles  avgt  45.1  #/op\nm.sum:·instructions  avgt  98.7  #/op\n",
        '[{"jmhVersion":"1.37","secondaryMetrics":{"cycles":{"score":45.1},"instructions":{"score":98.7}}}]',
    ],
)
def test_what_jmh_divides_is_refused(read, text):
    with pytest.raises(FormatError, match="-prof perf prints perf's counts"):
        read(text)


def test_perfkit_names_the_format_of_documents(tmp_path):
    (path := tmp_path / "a.json").write_text(json.dumps({"a": {"x": {}, "counters": A}}))
    assert counts(pk.read_samples(path, format="nested"), "cycles") == [3000]
