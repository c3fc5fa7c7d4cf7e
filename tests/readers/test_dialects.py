"""Dumps in the dialects of many tools, written by hand: each is read exactly, or refused with a reason.

The dumps are in ``dialects/``, what each holds in ``dialects/expected.toml``; to add one, add a file and its entry.
"""

import tomllib
from pathlib import Path

import pytest

import perfkit as pk
from perfkit.errors import PerfkitError
from tests.readers.test_no_silent_loss import check, lines_that_are_not_blank

FOLDER = Path(__file__).parent / "dialects"
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text())
READ = sorted(name for name, said in EXPECTED.items() if "counts" in said)
REFUSED = sorted(name for name, said in EXPECTED.items() if said.get("refused"))


def dump(name):
    return FOLDER / f"{name}.txt"


def test_every_dump_has_its_entry():
    assert sorted(p.stem for p in FOLDER.glob("*.txt")) == sorted([*READ, *REFUSED])


@pytest.mark.parametrize("name", READ)
def test_every_count_is_right(name):
    said = EXPECTED[name]
    samples = pk.read_samples(dump(name))
    found = samples.table.groupby("event", observed=True)["count"].sum()
    for event, count in said["counts"].items():
        assert found[event] == pytest.approx(count, rel=1e-6), event
    assert not set(said.get("no_events", ())) & set(found.index)
    if "intervals" in said:
        assert samples.n_intervals == said["intervals"]
    if "places" in said:
        assert samples.table["place"].nunique() == said["places"]
    if "seconds" in said:
        assert samples.intervals()["seconds"].sum() == pytest.approx(said["seconds"])
    if "axes" in said:
        assert [samples.time_event, samples.work_event] == said["axes"]
    if "throughput" in said:
        assert samples.throughput() == pytest.approx(said["throughput"])
    for event, share in said.get("running", {}).items():
        assert samples.table.loc[samples.table["event"] == event, "running"].mean() == pytest.approx(share)
    check(samples)
    only = samples.accounting.iloc[0]
    if only["unit"] == "line":
        assert only["total"] == lines_that_are_not_blank(dump(name).read_bytes())


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_counts_is_refused(name):
    with pytest.raises(PerfkitError) as refused:
        pk.read_samples(dump(name))
    if isinstance(why := EXPECTED[name]["refused"], str):
        assert why in str(refused.value)


@pytest.mark.parametrize("name", READ)
def test_the_first_screen_of_every_dump(name):
    """Its throughput is the one worked out by hand."""
    counts, taken = EXPECTED[name]["counts"], []
    headline = pk.explore(dump(name), samples_out=taken).headline
    assert headline
    time, work = taken[0].time_event, taken[0].work_event
    if headline.startswith("IPC") and {time, work} <= set(counts):
        assert float(headline.split()[1].rstrip(":;")) == pytest.approx(counts[work] / counts[time], rel=0.006)
