"""``perfkit spire`` and ``perfkit data``."""

import json

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli import main as program
from perfkit.cli.main import app
from perfkit.errors import PerfkitError


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, PerfkitError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_a_table_for_people():
    out = run("spire", "--train", "spire/train", "--analyse", "spire/memory", "--top", "3").stdout
    assert "longest_lat_cache.miss" in out
    assert "of generated samples; analysed: generated samples" in out
    assert len([line for line in out.splitlines() if "% of the time" in line]) == 3


def test_json_is_the_ranking():
    out = run("spire", "--train", "spire/train", "--analyse", "spire/memory", "--json").stdout
    content = json.loads(out)
    ranking = pk.Spire().fit(pk.datasets.load("spire/train")).rank(pk.datasets.load("spire/memory"))
    assert content["throughput_bound"] == ranking.throughput_bound
    assert [e["event"] for e in content["events"]] == ranking.to_frame()["event"].tolist()
    assert [e["area"] for e in content["events"]] == [pk.Areas.load().of(e["event"]) for e in content["events"]]
    assert (content["kind"], content["training_kind"]) == ("generated", "generated")


def test_several_files_and_a_saved_model(tmp_path):
    files = [str(pk.datasets.load(f"spire/{n}").to_parquet(tmp_path / f"{n}.parquet")) for n in ("core", "memory")]
    saved = str(tmp_path / "model.json")
    first = run("spire", "--train", *files, "--analyse", "spire/front_end", "--save-model", saved).stdout
    again = run("spire", "--model", saved, "--analyse", "spire/front_end").stdout
    assert first == again
    both = pk.Samples.concat([pk.datasets.load("spire/core"), pk.datasets.load("spire/memory")])
    assert f"{pk.Spire().fit(both).rank(pk.datasets.load('spire/front_end')).throughput_bound:.4g}" in first


def test_own_areas_and_axes(tmp_path):
    areas = tmp_path / "areas.toml"
    areas.write_text('other = ["longest_lat_cache.miss"]\n')
    arguments = ["--train", "spire/train", "--analyse", "spire/memory", "--json", "--areas", str(areas)]
    content = json.loads(run("spire", *arguments, "--time-event", "seconds").stdout)
    assert {e["event"]: e["area"] for e in content["events"]}["longest_lat_cache.miss"] == "other"
    assert content["time_event"] == "seconds"


def test_notes_go_to_the_error_stream(tmp_path):
    few = pk.datasets.load("spire/memory").select(events=["longest_lat_cache.miss"])
    path = str(few.to_parquet(tmp_path / "few.parquet"))
    result = run("spire", "--train", "spire/train", "--analyse", path, "--json")
    assert "note: ranked without 24 events only in training" in result.stderr
    json.loads(result.stdout)


@pytest.mark.parametrize("arguments", [[], ["--train", "spire/train", "--model", "x.json"]])
def test_training_or_a_model_is_needed(arguments):
    with pytest.raises(PerfkitError, match="either --train"):
        run("spire", *arguments, "--analyse", "spire/memory")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--train", "absent.txt"], r"'absent\.txt' is neither a data set nor a file"),
        (["--train", "spire/trian"], "nearest names: spire/train"),
        (["--train", "spire/table-1"], "holds no samples"),
        (["--model", "absent.json"], "no file 'absent.json'"),
        (["--train", "spire/train", "--areas", "absent.toml"], "no file 'absent.toml'"),
    ],
)
def test_what_is_not_there_is_named(arguments, why):
    with pytest.raises(PerfkitError, match=why):
        run("spire", *arguments, "--analyse", "spire/memory")


def test_the_list_of_data_sets():
    out = run("data").stdout
    assert [line.split()[0] for line in out.splitlines()] == pk.datasets.names()
    assert json.loads(run("data", "--json").stdout)[0]["name"] == pk.datasets.names()[0]
    described = run("data", "spire/train").stdout
    assert pk.datasets.find("spire/train").sha256 in described
    assert json.loads(run("data", "spire/train", "--json").stdout)["kind"] == "generated"


def test_an_error_is_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["perfkit", "data", "no such"])
    with pytest.raises(SystemExit) as error:
        program()
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith("perfkit: unknown data set 'no such'")


def test_training_on_one_run_is_told_of(tmp_path):
    said = "trained on one run (memory)"
    assert said in run("spire", "train", "spire/memory", "-o", str(tmp_path / "a.spire")).stderr
    assert said in run("spire", "--train", "spire/memory", "--analyse", "spire/core").stderr
    both = run("spire", "--train", "spire/memory", "spire/core", "--analyse", "spire/front_end")
    assert "trained on one run" not in both.stderr
