"""What a dump says beside cycles: that it waited, at which clock, in which mode, how far runs spread."""

import pytest

import perfkit as pk

BODY = """ Performance counter stats for './b.out'{runs}:

{lines}

       {seconds:.9f} seconds time elapsed
"""


def perf(folder, lines, seconds=2.0, runs=""):
    path = folder / "d.txt"
    path.write_text(BODY.format(lines="\n".join(f"   {line}" for line in lines), seconds=seconds, runs=runs))
    return path


def clocked(folder, milliseconds, cycles, seconds=2.0):
    lines = [f"{milliseconds:,.2f} msec task-clock", f"{cycles:,}      cycles", f"{2 * cycles:,}      instructions"]
    return pk.explore(perf(folder, [*lines, "8,000      context-switches"], seconds))


@pytest.mark.parametrize(("milliseconds", "told"), [(160, "8%"), (1000, "50%")])
def test_a_program_that_waits_is_told_to_first(tmp_path, milliseconds, told):
    """The headline of a program that ran for 3 % of the time was its IPC, without a word of the others."""
    found = clocked(tmp_path, milliseconds, milliseconds * 2_500_000)
    assert found.headline.startswith(
        f"it ran for {told} of the time, with 4,000 context switches per second, and waited for the rest"
    )
    assert "While it ran: IPC 2" in found.headline
    assert found.facts["clock"] == "2.5 GHz"


def test_a_program_that_runs_is_not_told_to_wait(tmp_path):
    assert clocked(tmp_path, 1990, 5_000_000_000).headline.startswith("IPC 2")
    assert clocked(tmp_path, 7600, 19_000_000_000).headline.startswith("IPC 2")  # four threads


def test_a_low_clock_is_told(tmp_path):
    found = clocked(tmp_path, 2000, 1_400_000_000)
    assert found.facts["clock"] == "0.7 GHz"
    assert any(each.startswith("the clock was 0.7 GHz, which is low") for each in found.quality)
    assert not any("clock was" in each for each in clocked(tmp_path, 2000, 5_200_000_000).quality)


def test_the_share_of_the_kernel_is_told_and_its_events_are_no_aliases(tmp_path):
    counts = {"cycles": (600, 3_400), "instructions": (500, 900), "branch-misses": (1, 7)}
    lines = [f"{n * 1_000_000:,}      {e}:{m}" for e, both in counts.items() for m, n in zip("uk", both, strict=True)]
    found = pk.explore(perf(tmp_path, ["1,990.00 msec task-clock", *lines]))
    assert found.facts["kernel"] == "85% of the cycles"
    assert "85% of the cycles are the kernel's" in found.headline
    assert not any("same thing" in each or "task-clock:k" in each for each in found.quality)
    only = pk.explore(perf(tmp_path, [line for line in lines if line.endswith(":k")]))
    assert "(of kernel mode only)" in only.headline


def test_the_spread_of_repeated_runs_is_told(tmp_path):
    lines = ["4,000,000,000      cycles      ( +- 21.50% )", "5,000,000,000      instructions      ( +-  0.40% )"]
    found = pk.explore(perf(tmp_path, lines, runs=" (7 runs)"))
    assert "(mean of 7 runs: cycles ± 21.5 %)" in found.headline
    assert any(each.startswith("over 7 runs, cycles ± 21.5 %") for each in found.quality)
    narrow = [line.replace("21.50", "1.50") for line in lines]
    assert "±" not in pk.explore(perf(tmp_path, narrow, runs=" (7 runs)")).report()


def test_seconds_of_places_are_counted_once(tmp_path):
    rows = [
        f"{0.5 * (i + 1):.9f};CPU{cpu};{n};;{event};1;100.00;;"
        for i in range(6)
        for cpu in range(3)
        for event, n in (("cycles", 4_000 if cpu else 9**10), ("instructions", 3_000 if cpu else 8**10))
    ]
    (tmp_path / "d.csv").write_text("\n".join(rows) + "\n")
    found = pk.explore(tmp_path / "d.csv")
    assert found.facts["intervals"].startswith("18 of 3 places, 3 s in all")
    assert any(
        each.startswith("2 of 3 places hardly ran (CPU1 and CPU2); what follows is of CPU0") for each in found.quality
    )


def test_what_is_missing_was_not_scaled_up(tmp_path):
    rows = [
        f"{0.1 * (i + 1):.9f},{'<not counted>' if e == 'branches' and i % 3 else 10**8 + i},,{e},"
        f"{0 if e == 'branches' and i % 3 else 1},{'0.00' if e == 'branches' and i % 3 else '100.00'},,"
        for i in range(24)
        for e in ("cycles", "instructions", "branches")
    ]
    (tmp_path / "d.csv").write_text("\n".join(rows) + "\n")
    assert "scaled up" not in pk.explore(tmp_path / "d.csv").report()


@pytest.mark.parametrize("names", ["cycles_k,instructions_k", "cycles.k,instr.k"])
def test_thousands_behind_a_name_are_a_caution(tmp_path, names):
    rows = "".join(f"r{i},{4_100_000 + 77 * i},{2_900_000 + 31 * i},{170_000 + i * i}\n" for i in range(7))
    (tmp_path / "d.csv").write_text(f"run,{names},branch_misses\n{rows}")
    assert any(
        each.startswith(f"{names.replace(',', ', ')} may be thousands")
        for each in pk.explore(tmp_path / "d.csv").quality
    )
