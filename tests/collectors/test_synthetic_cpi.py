"""Generated CPI stacks: the truth adds up, the seed decides, and everything says that it was generated."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError

DATA = Path(__file__).resolve().parents[2] / "data" / "cpi"


def test_the_truth_sums_to_the_cpi_of_the_samples():
    samples, truth = pk.synthetic_cpi(intervals=200, noise=0.05, seed=1)
    assert truth.components.sum() == pytest.approx(truth.cpi)
    assert 1 / samples.throughput() == pytest.approx(truth.cpi)
    rates = samples.describe()["rate"]
    for event, penalty in truth.penalties.items():
        assert truth.components[event] == pytest.approx(penalty * rates[event])


def test_without_noise_every_interval_obeys_the_stack():
    samples, truth = pk.synthetic_cpi(intervals=50, noise=0.0, seed=2)
    wide = samples.to_wide()
    cycles = truth.base * wide["instructions"] + wide[list(truth.penalties.index)] @ truth.penalties
    assert cycles.to_numpy() == pytest.approx(wide["cycles"].to_numpy(), rel=1e-5)  # counts are whole numbers


def test_the_seed_decides_and_the_kind_is_generated():
    one, two = (pk.synthetic_cpi(intervals=20, seed=7)[0] for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    assert not pk.synthetic_cpi(intervals=20, seed=8)[0].table.equals(one.table)
    assert one.kind == "generated"
    assert json.loads(one.runs["parameters"].iloc[0])["base"] == 0.35


def test_idle_events_cost_nothing_and_count_noise_leaves_the_truth():
    quiet, truth = pk.synthetic_cpi(intervals=100, idle={"page-faults": 0.5}, seed=3)
    assert truth.penalties["page-faults"] == 0
    noisy, same = pk.synthetic_cpi(intervals=100, idle={"page-faults": 0.5}, count_noise=0.1, seed=3)
    assert same.components.to_dict() == pytest.approx(truth.components.to_dict())
    a, b = quiet.to_wide()["branch-misses"], noisy.to_wide()["branch-misses"]
    assert np.std(np.log(b / a)) == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"base": 0}, "base is cycles"),
        ({"intervals": 0}, "must be at least 1"),
        ({"penalties": {"x": -1}}, "at least 0; found -1 for x"),
        ({"penalties": {"x": 1}, "idle": {"x": 1}}, "x cannot have a penalty and be idle"),
    ],
)
def test_impossible_truths_are_refused(settings, match):
    with pytest.raises(SettingError, match=match):
        pk.synthetic_cpi(**settings)


def test_shipped_files_are_those_of_the_manifest_and_of_the_generator():
    manifest = tomllib.loads((DATA / "manifest.toml").read_text())
    files = {DATA / entry["file"] for entry in manifest.values()}
    assert files == {p for p in DATA.rglob("*") if p.suffix in (".csv", ".parquet")}
    for name, entry in manifest.items():
        assert hashlib.sha256((DATA / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], name
        assert entry["kind"] == ("published" if name.startswith("cpi/paper") else "generated")


def test_the_shipped_truth_is_recovered_from_the_shipped_samples():
    truth = pd.read_csv(DATA / "truth.csv", index_col="part")
    planted = pk.CpiStack().fit(pk.Samples.from_parquet(DATA / "planted.parquet"))
    parts = truth["planted"].drop("unattributed").index
    assert np.abs(planted.components[parts] - truth["planted"][parts]).max() < 0.02
    stacks = pk.CpiStack().fit_each(pk.Samples.from_parquet(DATA / "workloads.parquet"))
    for name in ("compute", "branchy", "memory"):
        known = truth[name].dropna().drop("unattributed")
        assert np.abs(stacks[name].components[known.index] - known).max() < 0.05 * stacks[name].cpi


def test_the_script_makes_the_shipped_data_again(tmp_path):
    """The script finds its folder beside itself, so a copy of it writes elsewhere."""
    root = DATA.parents[1]
    copy = tmp_path / "data" / "make" / "cpi.py"
    copy.parent.mkdir(parents=True)
    copy.write_text((root / "data" / "make" / "cpi.py").read_text())
    shutil.copytree(DATA / "tables", tmp_path / "data" / "cpi" / "tables")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, str(copy)], check=True, cwd=root, capture_output=True, env=environment)
    made = pk.datasets.catalogue(tmp_path / "data")
    assert [d.name for d in made] == [n for n in pk.datasets.names() if n.startswith("cpi/")]
    for dataset in made:
        ours, shipped = dataset.load(), pk.datasets.load(dataset.name)
        if isinstance(ours, pk.Samples):
            ours, shipped = ours.table, shipped.table
        pd.testing.assert_frame_equal(ours, shipped)
