"""The DAG of a trace of x86 instructions."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.x86_dag import trace_dag
from perfkit.dag.doubts import CALLS, GATHERS, SLOWER, SPLIT, STRINGS
from perfkit.dag.graph import Dag
from perfkit.errors import DataError
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

pytest.importorskip("iced_x86")


def traced(rows, runs, addresses, sizes=()):
    """Make a trace of one block of (machine code, operands as (read, write, size))."""
    operands = [operand for _, found in rows for operand in found]
    code = StaticCode(
        "x86-64",
        pc=np.cumsum([0, *(len(data) for data, _ in rows[:-1])]).astype(np.uint64) + 4096,
        encoding=tuple(data for data, _ in rows),
        text=tuple("" for _ in rows),
        function=tuple("f" for _ in rows),
        block_start=[0, len(rows)],
        operand_start=np.cumsum([0, *(len(found) for _, found in rows)]),
        read=[o[0] for o in operands],
        write=[o[1] for o in operands],
        size=[o[2] for o in operands],
    )
    return Trace.from_parts(code, [0] * runs, addresses, sizes)


def hexes(text):
    return bytes.fromhex(text)


def test_operations_registers_and_addresses():
    rows = [
        (hexes("f20f1007"), [(True, False, 8)]),  # movsd xmm0, [rdi]
        (hexes("f20f5906"), [(True, False, 8)]),  # mulsd xmm0, [rsi]
        (hexes("f20f58c8"), []),  # addsd xmm1, xmm0
        (hexes("4883c708"), []),  # add rdi, 8
        (hexes("f20f110a"), [(False, True, 8)]),  # movsd [rdx], xmm1
    ]
    dag = trace_dag(traced(rows, 2, [0, 800, 1600, 8, 808, 1600]))
    nodes = dag.nodes()
    assert "".join(nodes["op"]) == "LLMASLLMAS"
    assert nodes["deps"].tolist()[2:5] == [(0, 1), (2,), (3,)]
    assert nodes["deps"][8] == (3, 7)  # xmm1 carries the sum into the next run
    assert nodes["address"].dropna().tolist() == [0, 800, 1600, 8, 808, 1600]
    assert DagScheduler(DagCore.sandy_bridge_erm()).run(dag).work == 4
    counted = trace_dag(traced(rows, 2, [0, 800, 1600, 8, 808, 1600]), count_all=True)
    assert (len(counted), counted.others) == (10, 2)  # the addition of 8
    assert counted.nodes()["deps"].tolist() == nodes["deps"].tolist()


def test_fused_operations_vectors_zeroing_and_spills():
    rows = [
        (hexes("c5fd57c0"), []),  # vxorpd ymm0, ymm0, ymm0
        (hexes("c4e2f5b807"), [(True, False, 32)]),  # vfmadd231pd ymm0, ymm1, [rdi]
        (hexes("c5fd11442410"), [(False, True, 32)]),  # vmovupd [rsp+16], ymm0: a spill
        (hexes("c5fd10542410"), [(True, False, 32)]),  # vmovupd ymm2, [rsp+16]
        (hexes("c5ed58da"), []),  # vaddpd ymm3, ymm2, ymm2
    ]
    dag = trace_dag(traced(rows, 1, [4096, 64, 64]))
    nodes = dag.nodes()
    assert "".join(nodes["op"]) == "LFA"
    assert nodes["deps"].tolist() == [(), (0,), (1,)]
    assert nodes["width"].tolist() == [4] * 3


def test_a_shipped_trace_is_scheduled():
    from perfkit import datasets

    trace = datasets.load("traces/gemm-scalar")
    dag = trace_dag(trace)
    counts = dag.counts
    assert counts["A"] > 0
    assert counts["M"] > 0
    run = DagScheduler(DagCore.sandy_bridge_erm(), record=False).run(dag)
    assert 0 < run.performance <= run.peak("comp")


def test_the_whole_of_a_loop():
    rows = [
        (hexes("488b07"), [(True, False, 8)]),  # mov rax, [rdi]
        (hexes("480fafc3"), []),  # imul rax, rbx
        (hexes("4889c1"), []),  # mov rcx, rax: renamed
        (hexes("4883c708"), []),  # add rdi, 8
        (hexes("48890e"), [(False, True, 8)]),  # mov [rsi], rcx
        (hexes("4839d7"), []),  # cmp rdi, rdx
        (hexes("75e9"), []),  # jne
    ]
    dag = trace_dag(traced(rows, 2, [0, 800, 8, 800]), whole=True)
    nodes = dag.nodes()
    assert "".join(nodes["op"]) == "LIISB" * 2
    # The store waits for the product, the branch and the next load for the sum.
    assert nodes["deps"].tolist()[:5] == [(), (0,), (), (1,), (2,)]
    assert nodes["deps"].tolist()[5] == (2,)
    assert (dag.others, dag.coverage) == (2, 12 / 14)
    core = DagCore(latency_I=1, latency_L1=4, size_L1=4096, line=64)
    # Load, 3 cycles of the product, store; the second load waits a cycle for its address.
    assert DagScheduler(core, warm=True).run(dag).issue.tolist() == [0, 4, 0, 7, 1, 1, 5, 1, 8, 2]


def test_divisions_of_integers_wait_for_the_divider():
    rows = [(hexes("48f7f9"), []), (hexes("48f7f9"), [])]  # idiv rcx, twice: RDX:RAX, so one after the other anyway
    found = traced(rows, 1, [])
    core = DagCore(latency_I=1)
    alone = DagScheduler(core).run(trace_dag(found, whole=True))
    assert alone.issue.tolist() == [0, 14]  # 1 and 13 cycles of latency
    # Then one of other registers (mov rax, rdi; mov rdx, rsi; idiv rcx): it begins between the two.
    apart = [*rows, (hexes("4889f8"), []), (hexes("4889f2"), []), (hexes("48f7f9"), [])]
    dag = trace_dag(traced(apart, 1, []), whole=True)
    issue = DagScheduler(core).run(dag).issue[dag.nodes()["op"] == "I"]
    assert issue[[0, 1, -1]].tolist() == [0, 14, 7]
    # In LLVM IR, where nothing else orders them: one begins every seven cycles.
    from perfkit.collectors.dag.llvm_ir import instrument

    ir = """
define i64 @f(i64 %a, i64 %b) {
  %x = sdiv i64 %a, %b
  %y = udiv i64 %b, %a
  %z = add i64 %x, %y
  ret i64 %z
}
"""
    program = instrument(ir, "f", whole=True).program
    dag = Dag(program, np.zeros(1, dtype=np.int64))
    assert DagScheduler(core).run(dag).issue.tolist() == [0, 7, 21]


def test_masked_operands_need_the_whole_kernel():
    rows = [(hexes("c4e27d2c07"), [(True, False, 32)])]  # vmaskmovps ymm0, ymm0, [rdi]
    found = traced(rows, 3, [65536, 2**64 - 1, 65600])
    with pytest.raises(DataError, match="whole=True"):
        trace_dag(found)
    assert trace_dag(found, whole=True).nodes()["address"].dropna().tolist() == [65536, 4096, 65600]


def test_masked_stores_hold_up_no_load_of_what_they_did_not_write():
    rows = [
        (hexes("c5fc1006"), [(True, False, 32)]),  # vmovups ymm0, [rsi]
        (hexes("c4e27d2e0f"), [(False, True, 0)]),  # vmaskmovps [rdi], ymm0, ymm1
    ]
    loads, end = [1 << 20, (1 << 20) + 32, (1 << 20) + 64], 2**64 - 1
    # The first store writes its last eight bytes alone, the second nothing, the third all.
    found = traced(rows, 3, [loads[0], loads[0] + 24, loads[1], end, loads[2], loads[2]], sizes=[8, 0, 32])
    nodes = trace_dag(found, whole=True).nodes()
    assert nodes["address"][nodes["op"] == "S"].tolist() == [loads[0], 8192, loads[2]]
    core = DagCore(latency_L1=7, size_L1=4096, line=64)
    schedule = DagScheduler(core).run(trace_dag(found, whole=True))
    assert schedule.issue[(nodes["op"] == "L").to_numpy()].tolist() == [0, 0, 0]


def test_a_string_instruction_moves_32_bytes_a_step():
    rows = [
        (hexes("f3a4"), [(False, True, 0), (True, False, 0)]),  # rep movsb
        (hexes("4883c708"), []),  # add rdi, 8
    ]
    found = traced(rows, 2, [6400, 4096, 9600, 4096], sizes=[100, 100, 16, 16])
    nodes = trace_dag(found, whole=True).nodes()
    assert "".join(nodes["op"]) == "ILSI" + "ILS" * 3 + "ILSI"
    steps = [a + 32 * k for k in (1, 2, 3) for a in (4096, 6400)]
    assert nodes["address"].dropna().tolist() == [4096, 6400, *steps, 4096, 9600]
    assert set(nodes["width"][nodes["op"].isin(["L", "S"])]) == {4}
    # One step begins per cycle; each waits for the one before it, of the next instruction, too.
    assert nodes["deps"][4] == (0,)
    core = DagCore(latency_I=1, latency_L1=4, size_L1=4096, line=64)
    issue = DagScheduler(core).run(trace_dag(found, whole=True)).issue
    assert issue[(nodes["op"] == "L").to_numpy()].tolist() == [1, 2, 3, 4, 5]


def test_a_trace_in_its_file_is_read_piece_by_piece(tmp_path):
    from perfkit import datasets
    from perfkit.trace.trace import StreamedTrace

    trace = datasets.load("traces/triad")
    path = trace.save(tmp_path / "triad.trace")
    source = trace_dag(StreamedTrace(path), whole=True)
    runs = [DagScheduler(DagCore.load("zen4"), record=False).run(d) for d in (source, trace_dag(trace, whole=True))]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].coverage > 0.9


def test_a_trace_that_lacks_what_it_called_says_so():
    from dataclasses import replace

    from perfkit.errors import PerfkitWarning

    found = traced([(hexes("4883c708"), [])], 1, [])
    lacking = replace(found, provenance=replace(found.provenance, extra={"not_followed_calls": "memcpy: 1"}))
    with pytest.warns(PerfkitWarning, match="memcpy: 1; their time is missing"):
        trace_dag(lacking, whole=True)


def test_approximations_are_no_divisions():
    rows = [(hexes("0f53c1"), []), (hexes("0f52d1"), []), (hexes("c5f853d9"), []), (hexes("0f5ee1"), [])]
    dag = trace_dag(traced(rows, 1, []), whole=True)  # rcpps, rsqrtps, vrcpps, divps
    assert "".join(dag.nodes()["op"]) == "MMMD"


@pytest.mark.parametrize(("code", "cycles"), [("488b04c3", 5), ("488b0403", 4)])
def test_a_scaled_index_takes_a_cycle_where_the_core_says_so(code, cycles):
    """``mov rax, [rbx + rax * 8]`` takes 5 cycles per link on a Zen 4, without a scale 4 (`zen4-host`)."""
    core = pk.Microarchitecture.load("zen4")
    runs = 50
    source = trace_dag(traced([(hexes(code), [(True, False, 8)])], runs, [64] * runs), whole=True, core=core)
    assert DagScheduler(core).run(source).cycles == pytest.approx(cycles * runs, abs=2 * cycles)


@pytest.mark.parametrize(("codes", "cycles"), [(("66480f38f6c3", "f3480f38f6cb"), 1), (("4811d8", "4811d9"), 2)])
def test_carries_by_adcx_and_adox_are_two_chains(codes, cycles):
    """``adcx rax, rbx; adox rcx, rbx`` takes 1.0 cycle on a Zen 4, ``adc rax, rbx; adc rcx, rbx`` 2.0."""
    core, runs = pk.Microarchitecture.load("zen4"), 50
    source = trace_dag(traced([(hexes(code), []) for code in codes], runs, []), whole=True, core=core)
    assert DagScheduler(core).run(source).cycles == pytest.approx(cycles * runs, abs=2 * cycles)


@pytest.mark.parametrize(
    ("code", "core", "cycles"),
    [
        ("488d441808", "zen4", 2),  # lea rax, [rax+rbx+8]
        ("488d440308", "zen4", 1),  # lea rax, [rbx+rax+8]
        ("8d448308", "zen4", 1),  # lea eax, [rbx+rax*4+8]
        ("488d448007", "zen4", 2),  # lea rax, [rax+rax*4+7]
        ("488d0480", "zen4", 1),  # lea rax, [rax+rax*4]
        ("488d441808", "zen5", 2),
        ("488d440308", "zen5", 1),
        ("488d440308", "skylake_x", 3),
    ],
)
def test_an_lea_of_three_parts_takes_longer_from_its_base(code, core, cycles):
    """As measured on a Zen 4 (`perfkit asm`): 2.0 cycles from the base to the result, 1.0 from the index."""
    loaded, runs = pk.Microarchitecture.load(core), 50
    source = trace_dag(traced([(hexes(code), [])], runs, []), whole=True, core=loaded)
    assert DagScheduler(loaded).run(source).cycles == pytest.approx(cycles * runs, abs=2 * cycles)
    assert source.facts[SLOWER] == "0"


@pytest.mark.parametrize(
    ("move", "core", "cycles"),
    [("480f4cc7", "zen5", 4), ("480f42c7", "zen5", 3), ("480f4cc7", "zen4", 3), ("480f42c7", "zen4", 3)],
)
def test_a_conditional_move_of_two_flags_takes_a_zen5_longer(move, core, cycles):
    """``cmp rax, rdi; cmovl rax, rdi; add rax, 1`` takes 4.0 cycles on a Zen 5, with ``cmovb`` 3.0."""
    rows = [(hexes(code), []) for code in ("4839f8", move, "4883c001")]
    loaded, runs = pk.Microarchitecture.load(core), 50
    source = trace_dag(traced(rows, runs, []), whole=True, core=loaded)
    assert DagScheduler(loaded).run(source).cycles == pytest.approx(cycles * runs, abs=2 * cycles)


def test_what_the_dag_does_not_know_is_counted():
    rows = [(hexes("f3a4"), [(True, False, 0), (False, True, 0)]), (hexes("c3"), [(True, False, 8)])]
    made = traced(rows, 6, [0, 4096, 8192] * 6, [40, 40] * 6)  # rep movsb; ret
    core = pk.Microarchitecture.load("zen4")
    dag = trace_dag(made, whole=True, core=core)
    assert (dag.facts[STRINGS], dag.facts[CALLS], dag.facts[GATHERS], dag.facts[SPLIT]) == ("6", "6", "0", "0")
    schedule = DagScheduler(core).run(dag)
    assert any("string instructions" in doubt for doubt in schedule.doubts)
    assert "Do not rely on these cycles: " in schedule.roofline().verdict


@pytest.mark.parametrize(("core", "count"), [("zen4", "3"), ("skylake_x", "0")])
def test_wide_instructions_count_where_the_core_splits_them(core, count):
    rows = [(hexes("62f1fd4858c1"), [])]  # vaddpd zmm0, zmm0, zmm1
    loaded = pk.Microarchitecture.load(core)
    dag = trace_dag(traced(rows, 3, []), whole=True, core=loaded)
    assert dag.facts[SPLIT] == count


@pytest.mark.parametrize(
    ("store", "measured"),
    [
        ("mov [rsi + {}], rax", 4.3),
        ("mov [rsi + rbx * 8 + {}], rax", 5.2),
        ("mov [rsi + rbx + {}], rax", 5.2),
        ("mov qword ptr [rsi + {}], 1", 5.3),
        ("movsd [rsi + rbx + {}], xmm0", 4.3),
    ],
)
def test_stores_of_integers_take_a_unit_on_zen4_where_it_was_measured(store, measured):
    """Sixteen additions and four stores; the figures are of `pk.measure_blocks`, looped, on a Zen 4 guest."""
    adds = "; ".join(f"add r{k}, 1" for k in (8, 9, 10, 11))
    block = pk.Block("; ".join(f"{adds}; {store.format(8 * k)}" for k in range(4)))
    core = pk.Microarchitecture.load("zen4")
    trace = block.trace(200)
    found = pk.DagScheduler(core).run(pk.trace_dag(trace, whole=True, core=core))
    assert found.cycles / 200 == pytest.approx(measured, rel=0.04)
    elsewhere = pk.Microarchitecture.load("zen3")
    found = pk.DagScheduler(elsewhere).run(pk.trace_dag(trace, whole=True, core=elsewhere))
    assert found.cycles / 200 < 4.5  # not measured there


def _each(block, turns=200):
    core = pk.Microarchitecture.load("zen4")
    trace = pk.Block(block).trace(turns)
    scheduled = pk.DagScheduler(core).run(pk.trace_dag(trace, whole=True, core=core)).cycles / turns
    return scheduled, pk.Gus(core, warm=True).run(trace).cycles / turns


@pytest.mark.parametrize(
    ("block", "measured"),
    [
        *(("; ".join([f"{name}{kind}"] * 8), 24.0) for name, kind in (("lods", "q"), ("movs", "q"), ("stos", "b"))),
        ("xadd [rsi], rax", 7.9),
        ("cmpxchg [rsi], rcx", 9.0),
        ("bts qword ptr [rsi], 3", 8.0),
        ("rcl qword ptr [rsi], 1", 1.0),
        ("add [rsi], rax", 1.0),
        ("lock xadd [rsi], rax", 8.0),
        ("xchg [rsi], rax", 7.6),
        ("lock cmpxchg16b [rsi]", 14.7),
        ("cmpxchg16b [rsi]", 14.7),
        ("; ".join(f"lock xadd [rsi + {64 * k}], r{8 + k}" for k in range(8)), 61.5),
        ("; ".join(f"xchg [rsi + {64 * k}], r{8 + k}" for k in range(8)), 62.0),
    ],
)
def test_strings_without_rep_and_atomic_instructions_take_what_a_zen4_takes(block, measured):
    """Measured with `perfkit asm` on a Zen 4 guest. Before: 100 cycles for LODSQ, 1 for XADD and CMPXCHG16B."""
    scheduled, gus = _each(block)
    assert scheduled == pytest.approx(measured, rel=0.15)
    assert gus == pytest.approx(measured, rel=0.15)


def test_the_next_string_instruction_does_not_wait_for_the_data_of_the_one_before():
    """Eight in a row with all their loads from memory that nobody stores to: 3.3 cycles each, not 5 and more."""
    core = pk.Microarchitecture.load("zen4")
    dag = pk.trace_dag(pk.Block("lodsq").trace(50), whole=True, core=core)
    slow = pk.DagScheduler(pk.DagCore.load("zen4").replace(latency_L1=40)).run(dag)
    assert slow.cycles < 50 * 4 + 60


@pytest.mark.parametrize(
    ("block", "each"),
    [
        ("xadd [rsi], rax", 1),
        ("lock xadd [rsi], rax", 0),
        ("xadd rcx, rax", 0),
        ("rcr rax, 7", 2),
        ("btc [rdi], rax", 2),
        ("lock inc qword ptr [rdi]", 2),
        ("lea rax, [rax+rbx*4+7]", 1),
        ("lea eax, [rcx+rcx*4+7]", 1),
        ("lea rax, [rbx+rax*4+7]", 0),  # from its index alone it takes 1
        ("lea rax, [rax+rbx*4]", 0),
    ],
)
def test_what_slower_instructions_take_more_is_counted(block, each):
    core = pk.Microarchitecture.load("zen3" if "lea" in block else "zen4")  # where no table has LEA's by operand
    assert pk.trace_dag(pk.Block(block).trace(50), whole=True, core=core).facts[SLOWER] == str(50 * each)
