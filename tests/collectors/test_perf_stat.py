"""PerfStat: the real perf with software events, and a stand-in for machines that count."""

import json
import shutil
import stat
import sys

import pytest

import perfkit as pk
from perfkit.collectors import PerfStat
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError

# A perf that counts anything: it understands what PerfStat asks and prints what perf 6.1 prints with -x.
STAND_IN = """import subprocess, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("perf version 0.0.stand-in"); sys.exit()
with open({log!r}, "a") as log:
    log.write("\\t".join(arguments) + "\\n")
value = lambda option: arguments[arguments.index(option) + 1]
events = value("-e").split(",")
if "no-such-event" in events:
    sys.exit("event syntax error: 'no-such-event'\\n                     \\\\___ parser error")
if {forbidden!r}:
    sys.stderr.write("Error:\\nNo permission to enable cycles event.\\nkernel.perf_event_paranoid = 4\\n")
    sys.exit(255)
s = value("-x")
status = subprocess.run(arguments[arguments.index("--") + 1:]).returncode
lines = ["# started on Sat Nov 21 06:10:05 2026", ""]
at = [0.1, 0.2, 0.25] if "-I" in arguments else [None]
for n, t in enumerate(at, 1):
    for i, event in enumerate(events):
        share = "100.00" if len(events) <= 6 else "45.00"
        count = "<not supported>" if event in {lacking!r} else str(1000 * n + i)
        lines.append(s.join(([f"     {{t:.9f}}"] if t else []) + [count, "", event, "12345", share, "", ""]))
text = "\\n".join(lines) + "\\n"
if "-o" in arguments:
    open(value("-o"), "w").write(text)
else:
    sys.stderr.write(text)
sys.exit(status)
"""


@pytest.fixture
def stand_in(tmp_path):
    def make(lacking=(), forbidden=False):
        path = tmp_path / "perf"
        log = tmp_path / "log"
        script = tmp_path / "perf.py"
        script.write_text(STAND_IN.format(log=str(log), lacking=list(lacking), forbidden=forbidden))
        # Not as the script's own first line: the folder of this Python may have a space in its name.
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path), log

    return make


def test_multiplexed_counts_all_events_in_one_run(tmp_path, stand_in):
    perf, log = stand_in()
    collector = PerfStat(["a", "b", "c", "d", "e"], perf=perf, keep_in=tmp_path / "kept")
    samples = collector.run(["true"], workload="nothing")
    assert samples.events == ["a", "b", "c", "d", "e"]
    assert samples.intervals()["time"].tolist() == [1000, 2000, 3000]
    assert samples.intervals()["seconds"].tolist() == pytest.approx([0.1, 0.1, 0.05])
    assert samples.table["running"].unique().tolist() == [0.45]
    calls = [x.split("\t") for x in log.read_text().splitlines()]
    assert len(calls) == 2  # one with nothing to do, to see whether there are counters
    assert calls[1][:4] == ["stat", "-x", ";", "-I"]
    assert calls[1][calls[1].index("-e") + 1] == "cycles,instructions,a,b,c,d,e"
    assert calls[1][-2:] == ["--", "true"]


def test_what_is_recorded_and_kept(tmp_path, stand_in):
    perf, _ = stand_in()
    collector = PerfStat(["a"], perf=perf, keep_in=tmp_path / "kept", interval=0.05)
    first, second = collector.run(["true", "an argument"]), collector.run(["true"])
    run = first.runs.iloc[0]
    about = json.loads(run["parameters"])
    assert (run["workload"], run["command"], run["kind"]) == ("true", "true 'an argument'", "measured")
    assert run["host"]
    assert about["perf"] == "perf version 0.0.stand-in"
    assert about["events"] == ["cycles", "instructions", "a"]
    assert about["interval_seconds"] == 0.05
    assert about["exit_status"] == 0
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["true-2.csv", "true.csv"]  # nothing overwritten
    assert (run["source"], second.runs["source"].iloc[0]) == ("true.csv", "true-2.csv")
    again = pk.read_samples(tmp_path / "kept" / "true.csv")
    assert again.table["count"].tolist() == first.table["count"].tolist()


def test_grouped_runs_one_group_after_another_with_time_and_work_in_each(tmp_path, stand_in):
    perf, log = stand_in()
    told = []
    collector = PerfStat(list("abcde"), perf=perf, keep_in=tmp_path, mode="grouped", group_size=2)
    samples = collector.run(["true"], progress=lambda done, of: told.append((done, of)))
    asked = [x.split("\t") for x in log.read_text().splitlines()[1:]]
    assert [c[c.index("-e") + 1] for c in asked] == [
        "cycles,instructions,a,b",
        "cycles,instructions,c,d",
        "cycles,instructions,e",
    ]
    assert told == [(0, 3), (1, 3), (2, 3)]
    assert len(samples.runs) == 3
    assert set(samples.runs["workload"]) == {"true"}
    assert samples.table["running"].unique().tolist() == [1.0]
    assert samples.table.loc[samples.table["event"] == "e", "time"].tolist() == [1000, 2000, 3000]


def test_a_machine_without_counters_is_told_before_the_command_runs(tmp_path, stand_in):
    perf, _ = stand_in(lacking=["cycles", "instructions"])
    flag = tmp_path / "ran"
    with pytest.raises(UnavailableError, match=r"no counters for cycles, instructions.*Cachegrind"):
        PerfStat(["a"], perf=perf, keep_in=tmp_path / "kept").run(["touch", str(flag)])
    assert not flag.exists()


def test_an_event_without_a_counter_stays_missing(tmp_path, stand_in):
    perf, _ = stand_in(lacking=["b"])
    samples = PerfStat(["a", "b"], perf=perf, keep_in=tmp_path / "kept").run(["true"])
    assert samples.describe()["missing"].to_dict() == {"cycles": 0, "instructions": 0, "a": 0, "b": 3}
    assert any("<not supported>" in n and "always for b" in n for n in samples.notes)


def test_what_perf_refuses(tmp_path, stand_in):
    perf, _ = stand_in()
    with pytest.raises(SettingError, match="perf does not know one of the events"):
        PerfStat(["no-such-event"], perf=perf, keep_in=tmp_path).run(["true"])
    perf, _ = stand_in(forbidden=True)
    with pytest.raises(UnavailableError, match="perf_event_paranoid"):
        PerfStat(["a"], perf=perf, keep_in=tmp_path).run(["true"])
    with pytest.raises(UnavailableError, match="is not installed"):
        PerfStat(["a"], perf="no-such-perf").run(["true"])


def test_failing_command_warns_and_keeps_its_counts(tmp_path, stand_in):
    perf, _ = stand_in()
    with pytest.warns(PerfkitWarning, match="false ended with status 1"):
        samples = PerfStat(["a"], perf=perf, keep_in=tmp_path / "kept").run(["false"])
    assert json.loads(samples.runs["parameters"].iloc[0])["exit_status"] == 1
    assert samples.n_intervals == 3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"events": "cycles"}, "list of names"),
        ({"events": ["--help"]}, "not the name of an event"),
        ({"events": ["a"], "interval": 0.001}, "at least 0.01"),
        ({"events": ["a"], "mode": "both"}, "multiplexed"),
        ({"events": ["a"], "group_size": 0}, "at least 1"),
    ],
)
def test_settings_are_checked(settings, says):
    with pytest.raises(SettingError, match=says):
        PerfStat(**settings)


def test_command_is_a_list():
    with pytest.raises(SettingError, match="command is a list"):
        PerfStat(["a"]).run("./stencil 100")


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs Debian's package linux-perf")
@pytest.mark.measures
def test_the_real_perf_with_software_events(tmp_path):
    spin = "import time\nend = time.process_time() + 0.25\nwhile time.process_time() < end: bytearray(100000)"
    collector = PerfStat(
        ["context-switches"],
        interval=0.05,
        time_event="task-clock",
        work_event="page-faults",
        keep_in=tmp_path,
        mode="grouped",
    )
    try:
        samples = collector.run([sys.executable, "-c", spin], workload="spin")
    except UnavailableError as error:
        pytest.skip(f"perf may not count here: {error}")
    assert samples.events == ["context-switches"]
    assert samples.n_intervals >= 3
    assert samples.intervals()["time"].sum() > 200  # milliseconds of processor time
    assert samples.intervals()["work"].sum() > 100
    assert "perf version" in json.loads(samples.runs["parameters"].iloc[0])["perf"]
