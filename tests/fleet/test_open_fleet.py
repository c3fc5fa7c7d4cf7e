"""Opening thousands of files: which machine each is of, what was left out of each, and going on after a stop."""

import gzip
import os
import signal
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, MissingFileError, SettingError, UnavailableError
from perfkit.readers import fleet as opening
from perfkit.samples.fleet import Piece, _chunks
from perfkit.samples.parts import _of_samples, load_part, write_part
from perfkit.samples.table import no_accounting, no_problems
from tests.fleet.conftest import dump

open_samples = partial(pk.open_samples, memory=None)  # a folder is a fleet, a file is not


def test_machines_that_all_write_perf_txt_are_not_one_machine(dumps, tmp_path):
    fleet = open_samples(dumps, store=tmp_path / "store")
    assert fleet.machines == [f"machine {i}" for i in range(6)]
    assert fleet.machines_known
    assert len(fleet.runs) == 6
    assert len(fleet) == 6 * 12
    whole = pk.read_samples(sorted(dumps.rglob("perf.txt")))
    assert fleet.to_samples().throughput() == whole.throughput()
    assert "not in memory" in fleet.summary()
    assert "index" not in fleet.runs.columns


def test_files_of_which_nothing_says_the_machine_are_said_to_be(tmp_path):
    for day in ("mon", "tue"):
        for i in range(3):
            dump(tmp_path / "in" / day / f"m{i}.csv", i)
    fleet = open_samples(tmp_path / "in", store=tmp_path / "store")
    assert not fleet.machines_known
    assert len(fleet.machines) == 6
    assert "each of 6 files counts as a machine" in "".join(fleet.notes)
    named = open_samples(tmp_path / "in", store=tmp_path / "store", paths="{day}/{machine}.csv")
    assert named.machines_known
    assert named.machines == ["m0", "m1", "m2"]
    assert sorted(set(named.runs["day"])) == ["mon", "tue"]
    assert set(named.files["status"]) == {"kept"}
    with pytest.raises(SettingError, match=r"6 of 6 files do not fit paths='\{machine\}.txt'"):
        open_samples(tmp_path / "in", store=tmp_path / "store", paths="{machine}.txt")


def machines_of(folder, names, tmp_path, **how):
    """Open a fleet of small dumps with these names; return its machines, or None where they are not known."""
    for i, name in enumerate(names):
        dump(tmp_path / folder / name, i, intervals=3)
    fleet = open_samples(tmp_path / folder, store=tmp_path / f"{folder} store", **how)
    assert len(fleet.files) == len(names)
    return fleet.machines if fleet.machines_known else None


def test_a_folder_is_a_machine_only_where_nothing_else_can_be_meant(tmp_path):
    """Files of one machine that count as many would make evidence of a change out of nothing."""
    two = [f"web-{i}/perf.txt" for i in (1, 2)]
    assert machines_of("two", two, tmp_path) == ["web-1", "web-2"]
    days = [f"{m}/2026-11-0{d}/perf.txt" for m in ("a", "b") for d in (1, 2, 3)]
    assert machines_of("days", days, tmp_path) == ["a", "b"]
    assert machines_of("one", [f"2026-11-0{d}/perf.txt" for d in (1, 2, 3)], tmp_path) is None
    versions = [f"v{v}/{m}/perf.txt" for v in (1, 2) for m in ("a", "b")]
    assert machines_of("versions", versions, tmp_path) is None
    assert machines_of("versions", versions, tmp_path, paths="{version}/*/perf.txt") == ["a", "b"]
    hive = [f"version={v}/{m}/perf.txt" for v in (1, 2) for m in ("a", "b")]
    assert machines_of("hive", hive, tmp_path) == ["a", "b"]
    names = [f"{m}/v{v}-perf.txt" for v in (1, 2) for m in ("a", "b")]
    assert machines_of("names", names, tmp_path) is None
    assert machines_of("names", names, tmp_path, paths="v{version}-perf.txt") == ["a", "b"]


def test_links_are_followed_once_and_a_link_to_nothing_is_listed(dumps, tmp_path):
    dump(tmp_path / "elsewhere" / "machine 7" / "perf.txt", 7)
    (dumps / "machine 7").symlink_to(tmp_path / "elsewhere" / "machine 7")
    (dumps / "again").symlink_to(dumps / "machine 1")
    (dumps / "round").symlink_to(dumps)
    (dumps / "machine 8").mkdir()
    (dumps / "machine 8" / "perf.txt").symlink_to(tmp_path / "gone.txt")
    fleet = open_samples(dumps, store=tmp_path / "store")
    assert fleet.machines == [f"machine {i}" for i in (0, 1, 2, 3, 4, 5, 7)]
    assert len(fleet) == 7 * 12
    failed = fleet.files[fleet.files["status"] == "failed"]
    assert failed["file"].tolist() == ["machine 8/perf.txt"]
    assert failed["reason"].item().endswith("no such file")


def test_a_file_that_grows_is_read_again_and_counts_once(dumps, tmp_path):
    store, grown = tmp_path / "store", dumps / "machine 3" / "perf.txt"
    before = open_samples(dumps, store=store)
    text = grown.read_text()
    grown.write_text(text + text[text.index("    12.0") :].replace("12.0001", "13.0001"))
    after = open_samples(dumps, store=store)
    assert after.files.set_index("file")["status"].value_counts().to_dict() == {"kept": 5, "read": 1}
    whole = pk.read_samples(sorted(dumps.rglob("perf.txt")))
    assert len(after) > len(before)
    assert after.to_samples().throughput() == whole.throughput()
    assert len(open_samples(store)) == len(after)


def test_damaged_files_of_our_own_are_listed_and_the_others_used(tmp_path):
    for i in range(4):
        samples, _ = pk.synthetic_cpi(intervals=20, workload=f"w{i}", seed=i)
        write_part(samples, tmp_path / f"{i}.parquet")
    (tmp_path / "0.parquet").write_bytes(b"")
    cut = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(cut[: len(cut) // 2])
    fleet = open_samples(tmp_path)
    assert fleet.files["status"].tolist() == ["failed", "failed", "used", "used"]
    assert fleet.files["reason"].str.contains("cannot be read|is empty").tolist() == [True, True, False, False]
    assert "2 of 4 files could not be read (0.parquet, 1.parquet)" in fleet.summary()
    assert pk.Spire().fit(fleet).to_frame().equals(pk.Spire().fit(fleet.to_samples()).to_frame())
    stored = pk.open_samples(tmp_path, store=tmp_path / "store", memory=False).files
    assert stored["status"].value_counts().to_dict() == {"failed": 2, "used": 2}


def test_a_file_that_cannot_be_read_stops_no_other_and_is_listed(dumps, tmp_path):
    (dumps / "machine 9").mkdir()
    (dumps / "machine 9" / "perf.txt").write_text("no counters here\n")
    dump(dumps / "machine 8" / "perf.txt", 8, broken=True)
    (dumps / ".hidden").write_text("x")
    (dumps / "machine 7").mkdir()
    (dumps / "machine 7" / "perf.txt").write_bytes(gzip.compress((dumps / "machine 1" / "perf.txt").read_bytes())[:-20])
    fleet = open_samples(dumps, store=tmp_path / "store")
    table = fleet.files.set_index("file")
    assert table["status"].value_counts().to_dict() == {"read": 6, "failed": 3}
    assert "garbage" in table.loc["machine 8/perf.txt", "reason"]
    assert table.loc["machine 9/perf.txt", "reason"]
    assert "3 of 9 files could not be read" in fleet.summary()
    assert "1 hidden files" in fleet.summary()
    collected = open_samples(dumps, store=tmp_path / "other", errors="collect").files.set_index("file")
    assert collected.loc["machine 8/perf.txt", ["status", "problems"]].tolist() == ["read", 1]
    assert (collected["total"] == collected[["counts", "describes", "left_out", "problems"]].sum(axis=1)).all()


def test_what_was_read_is_not_read_again_unless_it_changed(dumps, tmp_path, monkeypatch):
    store = tmp_path / "store"
    read = []
    true = opening.read_one

    def watched(found, **how):
        read.append(found.name)
        if len(read) == 4:
            raise KeyboardInterrupt
        return true(found, **how)

    monkeypatch.setattr(opening, "read_one", watched)
    with pytest.raises(KeyboardInterrupt):
        open_samples(dumps, store=store, workers=1)
    with (store / opening.JOURNAL).open("a") as journal:
        journal.write('{"path": "cut o')  # what a full disk leaves
    fleet = open_samples(dumps, store=store, workers=1)
    assert len(read) == 4 + 3
    assert fleet.files["status"].value_counts().to_dict() == {"kept": 3, "read": 3}
    dump(dumps / "machine 2" / "perf.txt", 77, intervals=20)
    again = open_samples(dumps, store=store)
    assert read[7:] == ["machine 2/perf.txt"]
    assert len(again) == len(fleet) + 8
    alone = open_samples(store)
    assert len(alone) == len(again)
    assert alone.machines == again.machines


def test_a_full_disk_is_said_and_loses_nothing(dumps, tmp_path, monkeypatch):
    store = tmp_path / "store"
    written = []
    true = opening.write_part

    def full(samples, path):
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return true(samples, path)

    monkeypatch.setattr(opening, "write_part", full)
    with pytest.raises(UnavailableError, match=r"No space left on device.*run the same again"):
        open_samples(dumps, store=store, workers=1)
    assert open_samples(dumps, store=store).files["status"].value_counts().to_dict() == {"kept": 2, "read": 4}


def test_relative_folders_and_patterns(dumps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fleet = pk.open_samples("the dumps/*/perf.txt", store="my store", memory=False)
    assert fleet.machines == [f"machine {i}" for i in range(6)]
    monkeypatch.chdir("/")
    assert len(fleet.to_samples()) == 6 * 12 * 3
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match="6 of 6 files are dumps"):
        open_samples("the dumps")
    with pytest.raises(MissingFileError, match="nowhere"):
        open_samples("nowhere/*.parquet")
    with pytest.raises(SettingError, match="memory=False"):
        pk.open_samples("the dumps/*/perf.txt", memory=True, store="x")
    assert isinstance(open_samples("the dumps/*/perf.txt"), pk.Samples)


def test_labels_come_from_folders_paths_and_a_table(tmp_path):
    for i in range(4):
        dump(tmp_path / "in" / f"service=s{i % 2}" / f"m{i}.csv", i, started="Mon Nov  2 10:00:00 2026")
    types = pd.DataFrame({"machine": [f"m{i}" for i in range(3)], "type": ["big", "small", "big"]})
    fleet = open_samples(tmp_path / "in", store=tmp_path / "s", paths="{machine}.csv", labels=types)
    runs = fleet.runs.set_index("machine")
    assert runs["service"].to_dict() == {"m0": "s0", "m1": "s1", "m2": "s0", "m3": "s1"}
    assert runs["type"].to_dict() == {"m0": "big", "m1": "small", "m2": "big", "m3": ""}
    assert set(runs["day"]) == {"2026-11-02"}
    assert "1 of 4 runs are not in the table of labels" in fleet.summary()
    assert fleet.where(type="big", service="s0").machines == ["m0", "m2"]
    with pytest.raises(SettingError, match=r"no label 'typ'.*type"):
        fleet.where(typ="big")
    with pytest.raises(SettingError, match="type='bigger'"):
        fleet.where(type="bigger")
    with pytest.raises(DataError, match="no run is in the table"):
        open_samples(tmp_path / "s", labels=pd.DataFrame({"machine": ["x"], "type": ["y"]}))
    with pytest.raises(DataError, match="twice"):
        open_samples(tmp_path / "s", labels=pd.concat([types, types]))
    saved = fleet.save(tmp_path / "fleet.json")
    pd.testing.assert_frame_equal(pk.Fleet.load(saved).to_frame(), fleet.to_frame())


def test_files_with_another_time_are_left_out_and_said(tmp_path):
    for i in range(3):
        dump(tmp_path / "in" / f"{i}.csv", i)
    odd = tmp_path / "in" / "odd.csv"
    odd.write_text((tmp_path / "in" / "0.csv").read_text().replace(",cycles,", ",ref-clock,"))
    fleet = open_samples(tmp_path / "in", store=tmp_path / "s")
    assert fleet.time_event == "cycles"
    row = fleet.files.set_index("file").loc["odd.csv"]
    assert row["status"] == "failed"
    assert "time is seconds" in row["reason"]
    assert len(fleet.parts) == 3


def test_parts_hold_what_was_written(tmp_path):
    """Also several runs and places, missing counts, shares of time, and events whose times are their own."""
    rows = [
        {"run": run, "place": place, "interval": k, "at": k + 1.0, "seconds": 1.0, "event": event, "count": 5.0 * k + 1,
         "running": 0.5 if event == "a" else 1.0}
        for run in ("x", "y") for place in ("CPU0", "CPU1") for k in range(7)
        for event in ("cycles", "instructions", "a", "b") if not (event == "b" and k == 3)
    ]  # fmt: skip
    samples = pk.Samples.from_counts(pd.DataFrame(rows))
    part = write_part(samples, tmp_path / "part.parquet")
    assert not part.whole
    assert dict(zip(part.events, part.missing, strict=True)) == {"a": 0, "b": 4}
    again = pk.open_samples(tmp_path, memory=False).to_samples()
    assert again.time_event == "cycles"
    (batch,) = _of_samples(samples, at=False)
    assert {event: np.nanmax(shares) for event, shares in batch.running.items()} == {"a": 0.5, "b": 1.0}
    wide = samples.to_wide()
    pd.testing.assert_frame_equal(again.to_wide()[list(wide)], wide, check_like=True)
    apart = samples.table.copy()
    apart["time"] = np.arange(1.0, len(apart) + 1)
    own = pk.Samples(apart, samples.runs)
    assert write_part(own, tmp_path / "own.parquet").whole


def test_a_draw_of_intervals_is_of_the_fleet_and_says_of_how_many(tmp_path):
    """Each interval is drawn whole, as it is in the fleet, as often as any other, of the runs that were chosen."""
    for i in range(5):
        samples, _ = pk.synthetic_cpi(intervals=300, workload=f"w{i}", seed=i)
        if i == 4:  # times of its own for each event, so it is read as a whole
            later = samples.table["time"] + samples.table["event"].cat.codes
            samples = pk.Samples(samples.table.assign(time=later), samples.runs)
        write_part(samples, tmp_path / f"{i}.parquet")
    two = pk.Samples.concat([pk.synthetic_cpi(intervals=100, workload=w, seed=9)[0] for w in ("a", "b")])
    write_part(two, tmp_path / "two.parquet")
    fleet = open_samples(tmp_path)
    fleet = fleet.where(run=[r for r in fleet.runs["run"] if r != "b"])
    drawn = fleet.sample(800, seed=3)
    assert drawn.notes == ("800 of the 1,600 intervals of a fleet, drawn at random (seed 3)",)
    assert drawn.n_intervals == 800
    keys = ["run", "place", "interval", "event"]
    everything = fleet.to_samples().table.astype({"run": str, "event": str}).set_index(keys)
    mine = drawn.table.astype({"run": str, "event": str}).set_index(keys)
    assert len(mine) == 800 * two.table["event"].nunique()
    pd.testing.assert_frame_equal(mine, everything.loc[mine.index], check_dtype=False)
    per_run = drawn.table.drop_duplicates(["run", "interval"])["run"].value_counts()
    assert "b" not in per_run[per_run > 0]
    for run, n in per_run[per_run > 0].items():  # hypergeometric: 150 +- 8 of 300, 50 +- 5 of 100
        assert abs(n - (50 if run == "a" else 150)) < 40, run
    assert fleet.sample(800, seed=3).table.equals(drawn.table)
    assert not fleet.sample(800, seed=4).table.equals(drawn.table)
    assert fleet.sample(10**9).n_intervals == 1600
    with pytest.raises(DataError, match=r"found Fleet: draw some with .sample"):
        pk.explore(fleet)


@pytest.mark.filterwarnings("default")
def test_a_killed_worker_changes_no_sum_and_no_file_counts_twice(tmp_path):
    """A worker of a cluster is killed in the middle; the others do its files again, and sums are those of threads."""
    pytest.importorskip("distributed", reason="the optional cluster packages are not installed")
    for i in range(24):
        samples, _ = pk.synthetic_cpi(intervals=40, workload=f"w{i}", seed=i)
        write_part(samples, tmp_path / f"{i}.parquet")
    fleet = pk.open_samples(tmp_path, memory=False)
    pieces = [(piece,) for piece in fleet.pieces()[1]]
    from perfkit.base.in_order import in_order
    from tests.fleet.killing import sums

    marker = str(tmp_path / "killed")
    expected = [sums(piece, "") for piece in pieces]
    found = list(in_order(lambda piece: sums(piece, marker), pieces, cluster="local:2"))
    assert (tmp_path / "killed").read_text().startswith("pid ")
    assert found == expected
    assert os.getpid() != int((tmp_path / "killed").read_text().split()[1])
    assert signal.SIGKILL


def test_intervals_drawn_are_the_same_in_whatever_order_the_runs_are_listed(tmp_path):
    for i in range(4):
        dump(tmp_path / "in" / f"m{i}.csv", i)
    fleet = open_samples(tmp_path / "in", store=tmp_path / "store")
    other = replace(fleet, runs=fleet.runs[::-1])
    pd.testing.assert_frame_equal(other.sample(40, seed=3).table, fleet.sample(40, seed=3).table)


@pytest.mark.parametrize(("samples", "tasks"), [([9, 1, 9], [2, 1]), ([9, 9], [2]), ([10, 10], [1, 1])])
def test_a_task_ends_with_the_file_that_fills_it(monkeypatch, samples, tasks):
    monkeypatch.setattr("perfkit.samples.fleet._CHUNK", 10)
    pieces = [Piece(SimpleNamespace(n_samples=n, whole=True, groups=(n,)), (), {}) for n in samples]
    assert [len(task) for task in _chunks(pieces)] == tasks


def test_a_part_keeps_what_was_said_of_its_file(tmp_path):
    whole = pk.read_samples(dump(tmp_path / "a.csv", broken=True), errors="collect")
    assert len(whole.problems) == len(whole.accounting) == 1
    back = load_part(write_part(whole, tmp_path / "a.parquet"))
    assert back.problems.to_dict("records") == whole.problems.to_dict("records")
    assert back.accounting.to_dict("records") == whole.accounting.to_dict("records")
    assert back.notes == whole.notes
    nothing = replace(whole, problems=no_problems(), accounting=no_accounting(), notes=())
    again = load_part(write_part(nothing, tmp_path / "b.parquet"))
    assert (len(again.problems), len(again.accounting), again.notes) == (0, 0, ())
    assert list(again.accounting) == list(whole.accounting)
