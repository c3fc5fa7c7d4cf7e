"""The shipped data sets and their manifests."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError

ROOT = Path(__file__).resolve().parents[1]


def test_every_shipped_data_set_is_what_its_manifest_says():
    listed = pk.datasets.catalogue()
    assert {"spire/train", "spire/front_end", "spire/table-3"} <= {d.name for d in listed}
    for dataset in listed:
        dataset.check()
        script = re.search(r"[\w./-]+\.py", dataset.made_by)
        assert script, f"{dataset.name}: no script in made_by = {dataset.made_by!r}"
        assert (ROOT / script[0]).is_file(), f"{dataset.name}: {script[0]} is absent"


def test_a_strict_type_checker_knows_what_each_data_set_is(tmp_path):
    """A new data set belongs into the lists of names in `perfkit.datasets`: its type is Any there, if it is not."""
    names = pk.datasets.names()
    consumer = tmp_path / "consumer.py"
    lines = ["import perfkit as pk", *(f'reveal_type(pk.datasets.load("{name}"))' for name in names)]
    consumer.write_text("\n".join([*lines, "reveal_type(pk.datasets.load(str()))"]) + "\n")
    (tmp_path / "pandas").mkdir()  # in the place of pandas-stubs
    (tmp_path / "pandas" / "__init__.pyi").write_text("class DataFrame: ...\n")
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, f"--cache-dir={ROOT / '.mypy_cache' / 'datasets'}", str(consumer)],
        env={**os.environ, "MYPYPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    revealed = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert len(revealed) == len(names) + 1, done.stdout + done.stderr
    kinds = {name: type(pk.datasets.load(name)).__name__ for name in names}
    assert dict(zip(names, [kind.rpartition(".")[2] for kind in revealed], strict=False)) == kinds
    assert revealed[-1] == "Any", "a name that is not known before the program runs"


def test_every_file_of_a_data_folder_is_described():
    described = {d.path.resolve() for d in pk.datasets.catalogue()}
    for manifest in (ROOT / "data").glob("*/manifest.toml"):
        others = {p.resolve() for p in manifest.parent.iterdir() if p.name != "manifest.toml" and p.is_file()}
        assert others <= described


def test_generated_samples_say_so():
    train = pk.datasets.load("spire/train")
    assert train.kind == "generated"
    assert set(train.runs["kind"]) == {"generated"}
    assert len(train.runs) == 23
    assert "not measured" in train.runs["host"].iloc[0]


def test_the_list_is_a_table():
    frame = pk.datasets.to_frame()
    assert frame["name"].tolist() == pk.datasets.names()
    assert (frame["bytes"] > 0).all()


def test_an_unknown_name_is_an_error_that_helps():
    with pytest.raises(SettingError, match=r"did you mean .*spire/train"):
        pk.datasets.load("spire/trains")


def test_the_papers_tables():
    first, second, third = (pk.datasets.load(f"spire/table-{i}") for i in (1, 2, 3))
    assert first["use"].value_counts().to_dict() == {"training": 23, "testing": 4}
    assert first.groupby("use")["main_bottleneck"].count().to_dict() == {"testing": 4, "training": 0}
    assert second.groupby("workload")["rank"].max().to_dict() == dict.fromkeys(["TNN", "Scikit", "ONNX", "Parboil"], 10)
    # Each list rises, and every abbreviation in it is explained.
    assert second.groupby("workload")["estimated_ipc"].apply(lambda e: e.is_monotonic_increasing).all()
    assert set(second["abbreviation"]) <= set(third["abbreviation"])
    assert third["event"].is_unique
    assert set(third["area_from"]) == {"text", "inferred"}


def write(folder, text, content=b"a,b\n1,2\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.csv").write_bytes(content)
    (folder / "manifest.toml").write_text(text)
    return folder.parent


def entry(name="x", **changed):
    fields = {
        "file": "x.csv",
        "sha256": hashlib.sha256(b"a,b\n1,2\n").hexdigest(),
        "format": "csv",
        "kind": "generated",
        "holds": "two numbers",
        "units": "none",
        "source": "this test",
        "licence": "MIT",
        "made_by": "tests/test_datasets.py",
        **changed,
    }
    lines = [f'{k} = "{v}"' for k, v in fields.items() if v is not None]
    return f'["{name}"]\n' + "\n".join(lines) + "\n"


def test_another_root(tmp_path):
    root = write(tmp_path / "folder", entry())
    pd.testing.assert_frame_equal(pk.datasets.load("x", root), pd.DataFrame({"a": [1], "b": [2]}))
    assert pk.datasets.path("x", root).name == "x.csv"


def test_a_changed_or_absent_file_is_refused(tmp_path):
    root = write(tmp_path / "folder", entry(), b"a,b\n1,3\n")
    with pytest.raises(DataError, match="was changed"):
        pk.datasets.load("x", root)
    (tmp_path / "folder" / "x.csv").unlink()
    with pytest.raises(DataError, match="absent"):
        pk.datasets.load("x", root)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not toml", "expected TOML"),
        ("x = 1", "one table per data set"),
        (entry(sha256=None), "lacking: sha256"),
        (entry(kind="guessed"), "kind is one of"),
        (entry() + entry("y").replace("y", "x"), "expected TOML"),
    ],
)
def test_a_bad_manifest_is_refused(tmp_path, text, why):
    with pytest.raises(DataError, match=why):
        pk.datasets.names(write(tmp_path / "folder", text))


def test_an_installed_package_finds_its_data_inside_itself(tmp_path):
    """A wheel holds data/ as perfkit/_data; a copy of the package laid out so must find it there."""
    shutil.copytree(ROOT / "perfkit", tmp_path / "perfkit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", tmp_path / "perfkit" / "_data")
    code = "import perfkit as pk; print(pk.datasets.path('spire/core')); print(pk.datasets.load('spire/core').kind)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "perfkit" / "_data" / "samples" / "spire-core.parquet"), "generated"]


def test_one_name_in_two_manifests_is_refused(tmp_path):
    write(tmp_path / "a", entry())
    with pytest.raises(DataError, match=re.escape("is also in")):
        pk.datasets.names(write(tmp_path / "b", entry()))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(SettingError, match="unknown format 'odd'"):
        pk.datasets.load("x", write(tmp_path / "a", entry(format="odd")))


@pytest.mark.parametrize("script", ["spire_samples.py", "spire_tables.py"])
def test_the_scripts_make_the_same_content_again(tmp_path, script):
    """The scripts find their folder beside themselves, so a copy writes elsewhere."""
    copy = tmp_path / "data" / "make" / script
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / "data" / "make" / script).read_text())
    subprocess.run([sys.executable, str(copy)], check=True, cwd=ROOT, capture_output=True, env=_environment())
    made = pk.datasets.catalogue(tmp_path / "data")
    assert made
    for dataset in made:
        ours, shipped = dataset.load(), pk.datasets.load(dataset.name)
        if isinstance(ours, pk.Samples):
            ours, shipped = ours.table, shipped.table
        pd.testing.assert_frame_equal(ours, shipped)


def _environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}
