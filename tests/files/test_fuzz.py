"""The fuzzer: it finds what is planted, and a few damaged files of every kind are read or refused, never a crash."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import fuzz

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def findings(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    return tmp_path / "fuzz"


def test_a_planted_fault_is_found_and_its_input_kept(findings, tmp_path):
    def opened(path, _):
        if b"null" in path.read_bytes():
            raise KeyError("planted")

    target, path = fuzz.Target(".txt", [b"1,2\n3,4\n"], opened), tmp_path / "now.txt"
    tally = fuzz.fuzz("planted", target, 60, seed=1, most=2000, path=path)
    (place,) = tally.findings
    assert place.startswith("KeyError at test_fuzz.py")
    (kept,) = findings.glob("planted-*.txt")
    assert b"null" in kept.read_bytes()


def test_damage_depends_on_the_seed_alone():
    target = fuzz.Target(".txt", [b"a,b\n1,2\n", b"x;y\n"], lambda *_: None)
    once, again = ([fuzz.damaged(target, rng) for _ in range(20)] for rng in (random.Random(3), random.Random(3)))
    assert once == again
    assert len(set(once)) > 10


def test_damaged_files_of_every_kind_are_read_or_refused():
    # In a process of its own: what is looked for may end it. So many inputs from one seed, always the same.
    command = [sys.executable, ROOT / "scripts" / "fuzz.py", "--seconds", "540", "--inputs", "12", "--seed", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count(" 12 inputs:") > 25


def test_only_the_chosen_targets_are_made(tmp_path, monkeypatch):
    from tests.results import examples

    def never():
        raise AssertionError("an example of a target that nobody chose")

    monkeypatch.setattr(fuzz, "ROOT", ROOT)
    monkeypatch.setattr(examples, "EXAMPLES", dict.fromkeys(examples.EXAMPLES, never))
    assert set(fuzz.targets(tmp_path, ["dumps", "Dag"])) == {"dumps", "Dag"}
    with pytest.raises(SystemExit, match=r"no target Dags; there are .*Dag, "):
        fuzz.targets(tmp_path, ["Dags"])
