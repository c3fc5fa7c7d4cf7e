"""What may go wrong around a study's folder: each ends in one clear line, and nothing that was measured is lost."""

import errno
import json
import logging
import os
import subprocess
import threading
import time

import pytest

import perfkit as pk
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.collector import host_facts
from perfkit.collectors.microbenchmark.lock import measuring_lock
from perfkit.collectors.microbenchmark.store import Store
from perfkit.errors import DataError, FormatError, PerfkitWarning, SettingError
from perfkit.study.runs import read_records
from perfkit.study.study import Study

QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}
KERNEL = "PK_REGION { long sum = 0; for (long i = 0; i < N; i++) { sum += i; PK_KEEP(sum); } }"


@pytest.mark.measures
@pytest.mark.words
def test_failed_rows_are_tried_again_when_asked_to(tmp_path, monkeypatch):
    """Also after the compiler that was missing has been installed."""
    study = Study(KERNEL, {"N": [1, 2]}, compilers=["cc-of-tomorrow", "gcc"], policy=QUICK)
    first = Microbenchmark(folder=tmp_path / "out", jobs=1).collect(study)
    assert first.counts()["failed"] == 2
    good = {row["key"]: row for row in read_records(tmp_path / "out") if row["status"] == "ok"}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cc-of-tomorrow").symlink_to("/usr/bin/gcc")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.warns(PerfkitWarning, match="2 configurations failed before and are not tried again: --retry"):
        assert Microbenchmark(folder=tmp_path / "out", jobs=1).collect(study).counts()["failed"] == 2
    runs = Microbenchmark(folder=tmp_path / "out", jobs=1, retry=True).collect(study)
    assert runs.counts()["ok"] == 4
    stored = {row["key"]: row for row in read_records(tmp_path / "out")}
    assert len(stored) == 4
    assert {key: stored[key] for key in good} == good


@pytest.mark.measures
@pytest.mark.words
def test_a_changed_header_is_refused_and_put_back_is_taken(tmp_path):
    (tmp_path / "part.h").write_text("#define STEP 1\n")
    (tmp_path / "k.c").write_text('#include "part.h"\nPK_REGION { for (long i = 0; i < N; i += STEP) PK_KEEP(i); }\n')
    study = Study(tmp_path / "k.c", {"N": [8]}, policy=QUICK)
    Microbenchmark(folder=tmp_path / "out", jobs=1).collect(study)
    (tmp_path / "part.h").write_text("#define STEP 2\n")
    larger = study.replace(dimensions={"N": [8, 16]})
    with pytest.raises(SettingError, match=r"part\.h has changed since rows of .* were measured"):
        Microbenchmark(folder=tmp_path / "out", jobs=1).collect(larger)
    (tmp_path / "part.h").write_text("#define STEP 1\n")
    assert Microbenchmark(folder=tmp_path / "out", jobs=1).collect(larger).counts()["ok"] == 2


@pytest.mark.measures
@pytest.mark.words
def test_damaged_metadata_and_records_are_named(tmp_path):
    study = Study(KERNEL, {"N": [1]}, policy=QUICK)
    Microbenchmark(folder=tmp_path, jobs=1).collect(study)
    whole = (tmp_path / "metadata.json").read_text()
    for text in ("{", "[]", "{}"):
        (tmp_path / "metadata.json").write_text(text)
        with pytest.raises(FormatError, match=r"metadata\.json is damaged"):
            Microbenchmark(folder=tmp_path, jobs=1).collect(study)
    machine = json.loads(whole)
    machine["machine"]["kernel"] = "5.0-other"
    (tmp_path / "metadata.json").write_text(json.dumps(machine))
    with pytest.warns(PerfkitWarning, match="the machine's kernel was '5.0-other'"):
        Microbenchmark(folder=tmp_path, jobs=1).collect(study)
    (tmp_path / "results.jsonl").write_text('{"key": "abc"}\n')
    with pytest.raises(DataError, match="line 1 is damaged"):
        Microbenchmark(folder=tmp_path, jobs=1).collect(study)


def test_a_full_disk_is_one_line_and_keeps_the_rows(tmp_path, monkeypatch):
    row = {"key": "a", "values": {}, "compiler": "gcc", "flags": "", "threads": 1, "status": "ok", "message": ""}
    write = os.write
    with Store(tmp_path, "mark") as store:
        store.add(row)

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(DataError, match="there is no space left on its disk; make room"):
            store.add({**row, "key": "b"})
        monkeypatch.setattr(os, "write", write)
    with Store(tmp_path, "mark") as store:
        assert [one["key"] for one in store.records()] == ["a"]


def test_waiting_for_another_study_is_said(tmp_path, caplog):
    said, held = [], threading.Event()

    def hold():
        with measuring_lock(tmp_path / "lock"):
            held.set()
            time.sleep(0.3)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(10)
    with caplog.at_level(logging.WARNING), measuring_lock(tmp_path / "lock", said.append):
        pass
    other.join()
    assert said == ["waiting for another study"]
    assert f"waiting for another study, which is measuring (process {os.getpid()}" in caplog.text


def test_a_header_that_changes_while_the_study_is_compiled_is_refused(tmp_path):
    (tmp_path / "part.h").write_text("#define STEP 1\n")
    (tmp_path / "k.c").write_text('#include "part.h"\nPK_REGION { PK_KEEP(step); }\n')

    def change(done: int, total: int, what: str) -> None:
        if "compiling (1 of 2" in what:
            (tmp_path / "part.h").write_text("#define STEP 2\n")

    study = Study(tmp_path / "k.c", {"N": [1, 2]}, policy=QUICK)
    with pytest.raises(SettingError, match=r"part\.h has changed while the study was compiled: no more was measured"):
        Microbenchmark(folder=tmp_path / "out", jobs=1, batch=1, progress=change).collect(study)
    assert not list(read_records(tmp_path / "out"))


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("how", [{"libraries": ["libf.a"]}, {"libraries": ["f"], "flags": ["-O2 -L."]}])
def test_a_rebuilt_library_is_refused(tmp_path, how):
    def build(turns: int) -> None:
        (tmp_path / "f.c").write_text(f'void f(long n) {{ while (n-- > {turns}) __asm__ volatile(""); }}\n')
        for words in (["gcc", "-c", "-fPIC", "f.c"], ["ar", "rcs", "libf.a", "f.o"]):
            subprocess.run(words, cwd=tmp_path, check=True)

    build(0)
    (tmp_path / "k.c").write_text("void f(long n);\nPK_REGION { f(N); }\n")
    study = Study(tmp_path / "k.c", {"N": [8]}, policy=QUICK, folder=str(tmp_path), **how)
    assert Microbenchmark(folder=tmp_path / "out", jobs=1).collect(study).counts()["ok"] == 1
    build(1)
    with pytest.raises(SettingError, match=r"library .*libf\.a has changed since rows of .* were measured"):
        Microbenchmark(folder=tmp_path / "out", jobs=1).collect(study.replace(dimensions={"N": [8, 16]}))


def test_streams_arrays_have_four_times_the_last_cache():
    study = pk.Study.from_yaml(pk.datasets.path("studies/stream.yaml"))
    with pytest.raises(SettingError, match="depends on the host"):
        next(study.configurations())
    for cache in (1 << 20, 32 << 20, 105 << 20, 256 << 20, 1 << 30):
        here = study.replace(host={"LAST_CACHE": cache, "CPUS": 2})
        one = next(here.configurations())
        array = 64 * 2 ** one.values["BLOCKS_LOG2"]
        assert max(4 * cache, 64 << 21) <= array < max(8 * cache, 64 << 22)
        assert here.memory_of(one) >= 3 * array
        assert here.fingerprint() == study.fingerprint()
    assert host_facts()["LAST_CACHE"] > 0


@pytest.mark.measures
@pytest.mark.words
def test_derived_columns_know_the_host_and_are_shown():
    derive = {"share": "8 * N / LAST_CACHE", "each": "cycles / N"}
    kernel = "PK_REGION { for (long i = 0; i < N; i++) PK_KEEP(i); }"
    policy = {"repetitions": 3, "attempts": 2, "windows": 3, "tolerance": 0.5}
    runs = Microbenchmark(jobs=1).collect(pk.Study(kernel, {"N": [64, 128]}, derive=derive, policy=policy))
    shares = [8 * n / host_facts()["LAST_CACHE"] for n in (64, 128)]
    assert runs.figures()["share"].tolist() == pytest.approx(shares)
    assert runs.figures()["each"].tolist() == pytest.approx((runs.table["cycles"] / runs.table["N"]).tolist())
