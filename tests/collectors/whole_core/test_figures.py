"""Measuring in child processes: what ends one, what finds no quiet core, what was interrupted; and real figures."""

import os
import platform
import time
from pathlib import Path

import pytest

from perfkit.collectors.whole_core import figures as module
from perfkit.collectors.whole_core.bodies import chains, mixture, repeated
from perfkit.collectors.whole_core.candidates import independent_forms, measurable
from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.collectors.whole_core.figures import Course, Timing
from perfkit.collectors.whole_core.settled import PASSES, Settled, in_passes, passes, settled
from perfkit.errors import UnavailableError

needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 only")
FIGURES = [Timing(((f"F{k}", 1),)) for k in range(60)]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """Replace the clock by nothing, and measuring by what a test says."""
    monkeypatch.setattr(module, "Bench", lambda *_: None)
    return lambda measure: monkeypatch.setattr(module, "timed", lambda _, figure: measure(figure))


def course(checkpoint: Checkpoint, seconds: float = 30.0, **options) -> Course:
    return Course(checkpoint, time.monotonic() + seconds, **options)


def test_a_form_that_ends_the_process_has_no_figure_and_stops_nothing(bench, tmp_path: Path):
    bench(lambda figure: os._exit(3) if figure.counts[0][0] == "F7" else 1.5)
    with Checkpoint(tmp_path / "partial", {}) as kept:
        found = course(kept).measured(FIGURES)
    assert len(found) == 59
    assert kept.known[FIGURES[7].key] is None


def test_an_interrupted_measurement_goes_on(bench, tmp_path: Path):
    bench(lambda figure: 1.0 + float(figure.counts[0][0][1:]))

    def interrupt(done: int, _total: int) -> None:
        if done >= 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Checkpoint(tmp_path / "partial", {}) as kept:
        course(kept, progress=interrupt).measured(FIGURES)
    again: list[int] = []
    with Checkpoint(tmp_path / "partial", {}) as kept:
        before = len(kept.known)
        found = course(kept, progress=lambda _, total: again.append(total)).measured(FIGURES)
    assert before == 51
    assert again == [9], "only what was missing is measured"
    assert found == {figure: 1.0 + k for k, figure in enumerate(FIGURES)}


def test_a_busy_machine_is_refused_and_nothing_is_written(bench, tmp_path: Path):
    def busy(figure: Timing) -> float:
        raise UnavailableError("beside a busy thread")

    bench(busy)
    with Checkpoint(tmp_path / "partial", {}) as kept:
        with pytest.raises(UnavailableError, match=r"no quiet core.*resumes where it stopped"):
            course(kept).measured(FIGURES)
        assert not kept.known


def test_figures_that_were_busy_are_left_out_and_measured_the_next_time(bench, tmp_path: Path):
    def now_and_then(figure: Timing) -> float:
        if figure.counts[0][0] in ("F3", "F4"):
            raise UnavailableError("beside a busy thread")
        return 2.0

    bench(now_and_then)
    with Checkpoint(tmp_path / "partial", {}) as kept:
        assert len(course(kept).measured(FIGURES)) == 58
        bench(lambda figure: 3.0)
        found = course(kept).measured(FIGURES)
    assert [figure.counts[0][0] for figure, value in found.items() if value == 3.0] == ["F3", "F4"]


def test_what_the_time_does_not_suffice_for_is_left_out(bench, tmp_path: Path):
    bench(lambda figure: time.sleep(0.02) or 1.0)
    with Checkpoint(tmp_path / "partial", {}) as kept:
        assert 0 < len(course(kept, 0.3).measured(FIGURES)) < 60


def test_passes_that_differ_come_to_nothing():
    three = passes([("F", 1)])
    assert len(three) == PASSES
    assert settled(three, dict(zip(three, (1.0, 1.01, 5.0), strict=True))) == Settled(1.01, 1.0, 5.0)
    assert "differ" in str(settled(three, dict(zip(three, (1.0, 1.2, 1.5), strict=True))))
    assert "too few" in str(settled(three, {three[0]: 1.0}))


def test_all_figures_have_their_first_pass_before_any_has_its_second():
    order = in_passes([passes([("A", 1)]), passes([("B", 1)])])
    assert [(one.counts[0][0], one.turn) for one in order][:3] == [("A", 0), ("B", 0), ("A", 1)]


@needs_x86
def test_latencies_are_told_by_operand():
    assert sorted(chains("VEX_VADDPD_XMM_XMM_XMMM128")) == [1, 2]
    assert sorted(chains("ADD_R64_RM64")) == [0]
    assert chains("CMP_R64_RM64") == {}
    assert sorted(chains("MOV_R64_RM64/m")) == [1]


@needs_x86
def test_a_mixture_holds_what_it_says_and_stores_go_where_nothing_is_loaded():
    body, times = repeated((("ADD_R64_RM64", 2), ("MOV_RM64_R64/m", 1), ("MOV_R64_RM64/m", 1)))
    assert len(body) == 4 * times >= 160
    places = {one.memory_displacement for one in mixture((("MOV_RM64_R64/m", 3), ("MOV_R64_RM64/m", 3)))}
    assert len(places) == 2


@needs_x86
def test_forms_that_wait_for_one_another_or_trap_are_no_candidates():
    assert independent_forms("ADD_R64_RM64")
    assert not independent_forms("ADCX_R64_RM64"), "reads and writes flags"
    assert not independent_forms("FLD1"), "the stack of x87"
    assert not independent_forms("MUL_RM64"), "writes registers that it does not name"
    assert measurable(["ADD_R64_RM64", "HLT", "DIV_RM64", "JMP_REL32_64", "ADD_R64_RM64/m"]) == ["ADD_R64_RM64"]


@needs_x86
@pytest.mark.measures
def test_additions_and_multiplications_take_what_they_take_everywhere(tmp_path: Path):
    add, multiply = passes([("ADD_R64_RM64", 1)], 0), passes([("IMUL_R64_RM64", 1)], 0)
    both = Timing((("ADD_R64_RM64", 1), ("IMUL_R64_RM64", 1)))
    with Checkpoint(tmp_path / "partial", {}) as kept:
        found = course(kept).measured([*add, *multiply, both])
    one, three = settled(add, found), settled(multiply, found)
    assert isinstance(one, Settled)
    assert isinstance(three, Settled)
    assert one.value == pytest.approx(1, rel=0.04)
    assert three.value == pytest.approx(3, rel=0.04)
    fewest = 0.9 / 3  # Zen 5 has three multipliers; all others that were tried have one
    assert fewest < found[both] < 1.6, "one to three multiplications per cycle, and an addition beside each"
