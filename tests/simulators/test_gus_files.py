"""Saved Gus results: what is opened says the same, and damage is found."""

import json
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import perfkit as pk
from perfkit import datasets
from perfkit.errors import DataError, FormatError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus, GusResult
from perfkit.simulators.gus.sensitivity import sensitivity


@pytest.fixture(scope="module")
def result() -> GusResult:
    core = Microarchitecture.load("zen4").scaled("rob", 0.5)
    tables = pk.InstructionTables.load(core, {"VEX_*": {"latency": 7}})
    return Gus(core, tables, warm=True).run(datasets.load("traces/correlation-v5-small"))


@pytest.fixture(scope="module")
def saved(result, tmp_path_factory):
    return result.save(tmp_path_factory.mktemp("results") / "a folder" / "v5.gus")


def changed(saved, tmp_path, member, data):
    """The file with one member replaced (left out where data is None)."""
    other = tmp_path / "other.gus"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name != member or data is not None:
                new.writestr(name, data if name == member else old.read(name))
    return other


def told(forms):
    """Return forms as text: NaN is not itself."""
    return {name: str(replace(form, uses=dict(form.uses))) for name, form in forms.items()}


def test_a_loaded_result_says_the_same(result, saved):
    found = GusResult.load(saved)
    assert (found.ticks, found.branches, found.kind) == (result.ticks, result.branches, "simulated")
    one, other = found.settings.core, result.settings.core
    assert {name: r.value for name, r in one.resources.items()} == {
        name: r.value for name, r in other.resources.items()
    }
    assert (one.name, one.caches, one.weights) == (other.name, other.caches, other.weights)
    assert found.cpi == result.cpi
    assert found.cpi_stack().equals(result.cpi_stack())
    assert found.occupancy().equals(result.occupancy())
    assert found.served.served.tolist() == result.served.served.tolist()
    assert found.to_frame().equals(result.to_frame())
    assert told(found.forms()) == told(result.forms())
    assert found.trace.provenance == result.trace.provenance


def test_what_can_be_asked_of_it_is_the_same(result, saved):
    found = GusResult.load(saved)
    assert found.causality().counts.tolist() == result.causality().counts.tolist()
    assert found.schedule(100, 20).table.equals(result.schedule(100, 20).table)
    assert found.settings.run(found.trace).ticks == result.ticks
    again, first = (sensitivity(r.settings, r.trace, (2.0,), ["rob", "front_end"]) for r in (found, result))
    assert again.speedup.tolist() == first.speedup.tolist()


def test_another_trace_needs_its_own_forms(saved):
    found = GusResult.load(saved)
    with pytest.raises(DataError, match="forms of its own trace"):
        found.settings.run(datasets.load("traces/divider"))


def test_the_same_result_gives_the_same_bytes(result, saved, tmp_path):
    assert result.save(tmp_path / "again.gus").read_bytes() == saved.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.gus"]


def test_numpy_opens_it_too(result, saved):
    with np.load(saved) as found:
        assert (found["spent"] == result.spent).all()


@pytest.mark.parametrize("keep", [0, 3, 100, 0.3, 0.7, 0.999])
def test_a_truncated_file_is_refused(saved, tmp_path, keep):
    data = saved.read_bytes()
    cut = tmp_path / "cut.gus"
    cut.write_bytes(data[: keep if keep >= 1 or keep == 0 else int(keep * len(data))])
    with pytest.raises(FormatError, match=r"cut\.gus: expected a saved Gus result; (it |the file is empty$)"):
        GusResult.load(cut)


def test_a_flipped_byte_is_found(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 0xFF
    bad = tmp_path / "bad.gus"
    bad.write_bytes(data)
    with pytest.raises(FormatError):
        GusResult.load(bad)


def test_foreign_files_are_refused(tmp_path, result):
    with pytest.raises(FileNotFoundError, match="no such file"):
        GusResult.load(tmp_path / "none.gus")
    text = tmp_path / "text.gus"
    text.write_text("cycles,1")
    with pytest.raises(FormatError, match="expected a saved Gus result; it cannot be read: damaged, or another file"):
        GusResult.load(text)
    with pytest.raises(FormatError, match=r"expected a saved Gus result; it has no result\.json"):
        GusResult.load(result.trace.save(tmp_path / "only.trace"))
    np.savez(tmp_path / "arrays.npz", spent=result.spent)
    with pytest.raises(FormatError, match=r"expected a saved Gus result; it has no result\.json"):
        GusResult.load(tmp_path / "arrays.npz")


def header_with(saved, **values):
    with zipfile.ZipFile(saved) as archive:
        return json.dumps(json.loads(archive.read("result.json")) | values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "another"}, "does not say"),
        ({"version": 2}, "version 2 of the format"),
        ({"ticks": 1}, "sums to"),
        ({"ticks": "many"}, "expected ticks to be int; found 'many'"),
        ({"forms": {}}, "forms of its own trace"),
        ({"core": "name = 3"}, "its core"),
        ({"branches": [1]}, "do not fit together .*two counts of branches"),
        ({"ticks_per_cycle": 60}, "60 ticks per cycle"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(saved, tmp_path, values, message):
    with pytest.raises(FormatError, match=message):
        GusResult.load(changed(saved, tmp_path, "result.json", header_with(saved, **values)))


@pytest.mark.parametrize("member", ["result.json", "spent.npy", "served.npy", "trace"])
def test_every_part_is_needed(saved, tmp_path, member):
    with pytest.raises(FormatError, match=f"expected a saved Gus result; it has no {member}"):
        GusResult.load(changed(saved, tmp_path, member, None))


def test_arrays_hold_numbers_only(saved, tmp_path):
    import io

    data = io.BytesIO()
    np.save(data, np.array([{"no": "pickle"}], dtype=object))
    with pytest.raises(FormatError, match=r"spent\.npy says it has shape .* of object"):
        GusResult.load(changed(saved, tmp_path, "spent.npy", data.getvalue()))
    data = io.BytesIO()
    np.save(data, np.zeros((3, 3), dtype=np.int64))
    with pytest.raises(FormatError, match="instructions and causes"):
        GusResult.load(changed(saved, tmp_path, "spent.npy", data.getvalue()))


def run_in_a_new_process(*words):
    code = (
        "import sys\nfrom perfkit.cli.main import main\n"
        "try:\n    main()\nfinally:\n    print('pandas' in sys.modules, file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)


def test_the_command_line_starts_without_pandas():
    """pandas takes as long to import as a small trace's simulation: docs/gus.md, speed."""
    assert run_in_a_new_process("gus", "fig1a").stderr.split() == ["False"]


def test_the_command_line_saves_what_a_notebook_opens(tmp_path):
    done = run_in_a_new_process("gus", "fig1a", "-o", str(tmp_path / "fig1a.gus"))
    found = GusResult.load(tmp_path / "fig1a.gus")
    assert f"{found.cycles:,.0f} cycles" in done.stdout
    assert f"instruction_latency  {found.cpi_stack()['instruction_latency']:.3f}" in done.stdout
