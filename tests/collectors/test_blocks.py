"""Measured blocks: steady states known on every x86-64, refusals of what a block does, resuming, and the command."""

import json
import lzma
import platform
import shutil

import pytest
from typer.testing import CliRunner

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

from perfkit.cli.main import app
from perfkit.collectors.blocks import cycles as module
from perfkit.collectors.blocks.block import Block
from perfkit.collectors.blocks.cycles import BlockCycles, host_name, measure_blocks
from perfkit.collectors.blocks.lists import read_blocks
from perfkit.errors import DataError, FormatError, SettingError, UnavailableError

needs_machine = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("gcc"), reason="needs an x86-64 machine with gcc"
)
needs_as = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("as"), reason="needs GNU as (Debian package binutils)"
)


@needs_as
def test_both_syntaxes_and_hexadecimal_digits_are_one_block():
    blocks = [Block("add $8, %rax; imul %rbx, %rax"), Block("add rax, 8\nimul rax, rbx"), Block("4883C008 480fafc3")]
    assert {block.hex for block in blocks} == {"4883c008480fafc3"}
    assert Block("nop", "att") == Block("nop", "intel") == Block(b"\x90") == Block("90")
    assert blocks[0].text == ("add rax,8", "imul rax,rbx")


@needs_as
@pytest.mark.parametrize(
    ("text", "syntax", "why"),
    [
        ("", "", "empty"),
        (" ; ", "", "at least one byte|at least one instruction"),
        ("add rax, rbxx", "", "does not define: rbxx|does not assemble"),
        ("mov %rax, %rbxx", "", "does not assemble in att syntax"),
        ("mov $1, rax", "att", "does not define: rax"),
        (".byte 1", "", "instructions only"),
        ("here: nop", "", "instructions only"),
        ("jmp 1f", "", "does not assemble|goes elsewhere|does not define"),
        ("syscall", "", "goes elsewhere"),
    ],
)
def test_text_that_is_no_block_is_refused_with_the_reason(text, syntax, why):
    with pytest.raises(DataError, match=why):
        Block(text, syntax)


def test_another_syntax_is_refused():
    with pytest.raises(SettingError, match="'att', 'intel'"):
        Block("90", "masm")


@needs_machine
@pytest.mark.measures
def test_steady_states_that_every_processor_of_ten_years_has():
    """Chains of multiplications and of additions; the same block among ones that fault, and refused ones in between."""
    multiply, add, fault = "480fafc3", "4801d8", "48c1e028488b00"  # shl rax, 40; mov rax, [rax]
    found = measure_blocks([multiply, fault, "zz", add, "f3a4", multiply], patience=60)
    table = found.table
    assert table["looped"].iloc[[0, 3, 5]].tolist() == pytest.approx([3, 1, 3], rel=0.02)
    assert table["unrolled"].iloc[[0, 3, 5]].tolist() == pytest.approx([3, 1, 3], rel=0.02)
    assert (table["looped_low"] <= table["looped"]).iloc[0]
    assert "cannot be" in table["looped_reason"].iloc[1]
    assert "no such instruction" in table["refused"].iloc[2] or "assembl" in table["refused"].iloc[2]
    assert "2000 pages" in table["refused"].iloc[4]
    assert found.kind == "measured"


REFUSED = {
    "31c948f7f1": "divides",  # xor ecx, ecx; div rcx
    "48c1e028488b00": "cannot be",  # no canonical address
    "0f28430848ffc30f284308": "cannot be",  # movaps at an odd address
    "f3aa": "2000 pages",  # rep stosb of a huge count
    "488d05f8ffffff" + "48b80000000000200000" + "8900": "its own code",  # mov [CODE], eax
    "48b8000000000000f0ff488b00": "cannot be|cannot be mapped",
    "cc": "goes elsewhere",
    "9d": "",  # popfq: may trap, and may not hurt
    "0f0d08": "",  # prefetchw
}


@needs_machine
def test_what_a_block_does_is_refused_with_the_reason_and_hurts_nobody():
    """Also on a busy machine: the reasons come before any sample."""
    try:
        found = measure_blocks(list(REFUSED), patience=20, modes=("looped",)).table
    except UnavailableError as error:
        pytest.skip(f"no quiet core was seen: {error}")
    for code, reason in zip(REFUSED, found["looped_reason"], strict=True):
        if REFUSED[code]:
            assert any(part in reason for part in REFUSED[code].split("|")), (code, reason)
    with pytest.raises(DataError, match="divides"):
        Block("31c948f7f1").cycles()


def told(monkeypatch, answers):
    """Let the measuring program say this, and return which blocks it was asked about."""
    asked = []

    def measured(todo, _processor, _patience):
        asked.extend(todo)
        for key in list(todo):
            if len(asked) > answers:
                return
            yield key, {"value": 1.5, "low": 1.4, "high": 1.6, "pages": 1, "reason": ""}

    monkeypatch.setattr(module, "_measured", measured)
    return asked


@needs_machine
def test_an_interrupted_measurement_goes_on(monkeypatch, tmp_path):
    keep = tmp_path / "cycles.csv"
    blocks = ["480fafc3", "4801d8", "zz"]
    asked = told(monkeypatch, 99)
    first = measure_blocks(blocks[:1], keep=keep)
    assert len(asked) == 2
    with keep.open("a") as file:
        file.write("4801d8,looped,2.5,2.")  # cut off in the middle of a line
    asked.clear()
    steps = []
    second = measure_blocks(blocks, keep=keep, progress=lambda *at: steps.append(at))
    assert asked == [("4801d8", "looped"), ("4801d8", "unrolled")]
    assert steps == [(3, 4), (4, 4)]
    assert second.table["looped"].iloc[:2].tolist() == [1.5, 1.5]
    assert second.table.iloc[0].equals(first.table.iloc[0])
    asked.clear()
    measure_blocks(blocks, keep=keep)
    assert not asked


@needs_machine
def test_what_was_kept_of_another_machine_is_not_mixed(monkeypatch, tmp_path):
    keep = tmp_path / "cycles.csv"
    told(monkeypatch, 99)
    measure_blocks(["90"], keep=keep)
    keep.write_text(keep.read_text().replace(host_name(), "another machine"))
    with pytest.raises(FormatError, match="another machine"):
        measure_blocks(["90"], keep=keep)
    keep.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="was expected"):
        measure_blocks(["90"], keep=keep)


def test_two_processes_must_agree():
    same = [["0", "ok", "2.00", "2.01", "2.02", "1"], ["0", "ok", "2.01", "2.01", "2.03", "1"]]
    assert module._figures(same, 1)["value"] == pytest.approx(2.01)
    assert module._figures(same, 2)["value"] == pytest.approx(1.005)
    other = [same[0], ["0", "ok", "2.10", "2.11", "2.12", "1"]]
    assert "unstable: two processes differ, 2.010 and 2.110" in module._figures(other, 1)["reason"]
    busy = [same[0], ["0", "busy", "neighbour", "0", "3", "200", "1"]]
    assert module._figures(busy, 1)["reason"].startswith("busy: too few quiet samples (3 quiet, 200 beside")
    refused = [["0", "refused", "division", "3", "0", "0", "0"], same[1]]
    assert "divides" in module._figures(refused, 1)["reason"]


def test_a_list_of_blocks_is_read(tmp_path):
    plain, packed, wrong = tmp_path / "a.csv", tmp_path / "a.csv.xz", tmp_path / "b.csv"
    text = "# from somewhere\napplication,hex\nx,480fafc3\ny,90\n"
    plain.write_text(text)
    packed.write_bytes(lzma.compress(text.encode()))
    assert read_blocks(plain) == read_blocks(packed) == ["480fafc3", "90"]
    wrong.write_text("code\n90\n")
    with pytest.raises(FormatError, match="a column hex"):
        read_blocks(wrong)
    packed.write_bytes(b"nonsense")
    with pytest.raises(FormatError, match=r"a\.csv\.xz"):
        read_blocks(packed)


@needs_machine
def test_the_command_puts_measured_and_predicted_side_by_side(monkeypatch, tmp_path):
    told(monkeypatch, 99)
    table = tmp_path / "blocks.csv"
    table.write_text("hex\n480fafc3\nzz\n")
    out = tmp_path / "out.csv"
    words = ["blocks", str(table), "--core", "zen4", "-o", str(out), "--folder", str(tmp_path / "kept")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "1.50 measured     3.00 predicted  instruction_latency  480fafc3" in done.stdout
    assert (tmp_path / "kept" / "cycles.csv").exists()
    assert out.read_text().startswith("block,instructions,looped")
    rows = json.loads(CliRunner().invoke(app, [*words[:4], "--json"]).stdout)["blocks"]
    assert rows[0]["error"] == pytest.approx(1.0)
    assert rows[1]["looped"] is None
    assert rows[1]["refused"]


def test_a_single_block_has_figures_and_several_have_not():
    from tests.results.examples import EXAMPLES

    three = EXAMPLES[BlockCycles]()
    with pytest.raises(SettingError, match="3 blocks"):
        _ = three.looped
    one = BlockCycles(three.table.iloc[:1], three.host)
    assert one.looped == 3.0
    with pytest.raises(DataError, match="ud2"):
        _ = BlockCycles(three.table.iloc[2:], three.host).looped
