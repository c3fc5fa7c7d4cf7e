"""From a program to its answer."""

import json
import subprocess
import sys

import pytest

import perfkit as pk
from perfkit.errors import DataError
from tests.diagnosis.programs import CHAIN, compiled, needed

pytestmark = needed


@pytest.fixture(scope="module")
def chain():
    return compiled("chain", CHAIN)


@pytest.fixture(scope="module")
def answer(chain):
    return pk.why(chain, arguments=["20000"], seconds=2)


def test_finds_the_hot_function_its_bottleneck_and_its_line(answer):
    assert answer.function == "solve"
    assert answer.candidates[0].symbol == "solve"
    assert answer.chosen == "the hottest function"
    assert answer.bottleneck == "instruction_latency"  # a chain of additions by construction
    top = answer.lines.iloc[0]
    assert top["place"] == "chain.c:7"
    assert top["source_line"] == "s += a[i];"
    assert "chain.c:7 (s += a[i];)" in answer.headline()


def test_whole_calls_are_recorded_and_each_executes_the_same(answer):
    trace = answer.result.trace
    assert trace.provenance.complete
    # Four instructions a turn, 2,000 turns; a few before and after.
    calls = answer.measured.calls if answer.measured else round(trace.instruction_count / 8000)
    assert abs(trace.instruction_count / calls - 8000) < 20


def test_what_was_not_recorded_is_said(answer):
    assert any("of 20,000 calls" in each for each in answer.unseen)


def test_addresses_are_those_that_objdump_prints(answer, chain):
    listing = subprocess.run(["objdump", "-d", str(chain)], capture_output=True, text=True, check=True).stdout
    addresses = answer.result.trace.object_addresses()
    for address, code in zip(addresses.tolist(), answer.result.trace.code.encoding, strict=True):
        assert f"{address:x}:\t{code.hex(' ')}" in listing


def test_an_answer_is_saved_and_loaded(answer, tmp_path):
    again = pk.Diagnosis.load(answer.save(tmp_path / "answer"))
    assert again.summary() == answer.summary()
    assert pk.GusResult.load(tmp_path / "answer").cycles == answer.result.cycles


def test_a_function_that_is_not_the_hot_one_can_be_asked_for(chain):
    found = pk.why(chain, "other", ["3000"], seconds=1)
    assert found.function == "other"
    assert found.lines.iloc[0]["function"] == "other"


def test_a_misspelt_name_is_refused_with_the_nearest(chain):
    with pytest.raises(DataError, match=r"no function 'slove' in chain.*nearest: solve"):
        pk.why(chain, "slove", ["3000"], seconds=1)


def test_the_command_answers_first_and_prints_json(chain):
    words = [sys.executable, "-m", "perfkit", "why", str(chain), "--timeout", "1", "--json", "--", "2000"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["function"] == "solve"
    assert found["bottleneck"] == "instruction_latency"
    assert "perfkit: finding the hot function" in done.stderr
