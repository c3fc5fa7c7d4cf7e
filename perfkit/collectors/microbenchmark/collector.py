"""`Microbenchmark`: compile a study's variants in parallel, measure them one at a time, and keep every repetition."""

import json
import logging
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perfkit.collectors.host import toolchain
from perfkit.collectors.host.machine_state import prepared, read_state
from perfkit.collectors.host.osaca import architecture
from perfkit.collectors.microbenchmark import compile as compiling
from perfkit.collectors.microbenchmark.files_read import LINKED, files_of
from perfkit.collectors.microbenchmark.inputs import Inputs
from perfkit.collectors.microbenchmark.lock import measuring_lock
from perfkit.collectors.microbenchmark.origin import check_files, check_origin, metadata_of
from perfkit.collectors.microbenchmark.passes import Task, measure_all, record_of, usable_cpus
from perfkit.collectors.microbenchmark.process import deaf_to_interrupts, event_numbers
from perfkit.collectors.microbenchmark.sources import idle_dimensions
from perfkit.collectors.microbenchmark.store import Store, write_whole
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError, counted, expect
from perfkit.study.design import SequentialDesign, expect_budget
from perfkit.study.expressions import Expression
from perfkit.study.runs import StudyRuns
from perfkit.study.study import CALM, Study, split_compiler

Progress = Callable[[int, int, str], None]
"""Called with what is done, what there is, and what is being done."""


@dataclass(frozen=True)
class Plan:
    """What a study would do, found without compiling or measuring anything.

    Parameters
    ----------
    configurations, done : int
        The space, and how much of it the folder already holds.
    objects : int
        Objects to compile.
    seconds : float
        Estimated time for what is left if every row settles at once; of whole programs, without the time that they run
        themselves.
    most_seconds : float
        The same if no row settles before its last attempt.
    faults : tuple of str
        What will fail: compilers that are not there, too many threads, events without counters; and what is measured
        once although it is given several times.
    """

    configurations: int
    done: int
    objects: int
    seconds: float
    most_seconds: float
    faults: tuple[str, ...]


_REPEATED = "{} given again, by equal values of a list or equal flags: each is measured once"
# Estimates of `plan`, in seconds, from the shipped studies on a two-core machine: a compiler's headers, a variant.
_GROUP_COST, _VARIANT_COST, _WINDOW_COST = 0.6, 0.075, 14e-6
_FLUSH_COST, _OWN_FLUSH_COST = 6e-10, 6e-5  # seconds per byte of memory; seconds per PK_FLUSH of a kernel's own
_PROCESS_COST = 2e-3  # a window of a whole program that does nothing: a process


@dataclass(frozen=True)
class Microbenchmark:
    """Measures studies (MARTA's profiler, section II-A).

    Parameters
    ----------
    folder : Path, optional
        The durable store. A study that was stopped, or killed, goes on from there. Without it, results are only
        returned.
    repetitions : int, optional
        Overrides the study's X.
    jobs : int
        Parallel compilations (joblib).
    batch : int
        Variants that one task compiles, each an object of its own.
    seed : int
        Of the passes' orders: shuffled, so that a machine that drifts does not look like an effect of a dimension.
    retry : bool
        Measure the rows again that failed before.
    limit : int
        The largest space that is measured without being asked twice.
    spread : bool
        Compile and measure each batch wherever joblib runs it, e.g. on the nodes of a dask cluster, instead of
        measuring everything here. Measurements still exclude each other on every node.
    cluster : str, optional
        Measure on dask's workers: ``tcp://HOST:PORT``, ``slurm``, ``slurm:JOBS`` or ``local:WORKERS``; rows are stored
        as they arrive, each with its host and processor.
    budget : int, optional
        Measure at most so many configurations, chosen by a model (`SequentialDesign`), and predict the others: their
        rows have the status "predicted" and no figures of their own.
    error : float
        With a budget: the median relative error of predictions at which measuring stops, by the design's own estimate.
    progress : callable, optional
        Called as ``progress(done, total, what)``.

    Examples
    --------
    >>> runs = Microbenchmark(repetitions=5).collect(Study("gather.c", {"N": [1, 2]}))   # doctest: +SKIP
    """

    folder: Path | str | None = None
    repetitions: int | None = None
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    batch: int = 32
    seed: int = 0
    retry: bool = False
    limit: int = CALM
    spread: bool = False
    cluster: str | None = None
    budget: int | None = None
    error: float = 0.05
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.batch < 1 or self.limit < 1:
            raise SettingError("jobs, batch and limit are at least 1")
        if self.budget is not None and (self.cluster is not None or self.spread):
            raise SettingError("a budget is spent on one machine: leave out `cluster` (`spread`), or the budget")
        if self.budget is not None:
            expect_budget(self.budget)  # before a folder is made
        if self.repetitions is not None and self.repetitions < 3:
            raise SettingError(
                f"repetitions={self.repetitions}: the policy drops two extremes, so at least 3 are needed"
            )

    def plan(self, study: Study) -> Plan:
        """Count the space, check what can be checked, and estimate the time."""
        study = self._settled_study(study)
        total = self._checked_count(study)
        done = set()
        if self.folder is not None and Path(self.folder, "results.jsonl").exists():
            with Store(Path(self.folder), study.fingerprint()) as store:
                done = {record["key"] for record in store.records()}
        groups: dict[tuple[str, str], int] = {}
        mark = study.fingerprint()
        left = 0
        for one in study.configurations():
            if one.key(mark) not in done:
                left += 1
                groups[one.compiler, one.flags] = groups.get((one.compiler, one.flags), 0) + 1
        compile_time = (len(groups) * _GROUP_COST + left * _VARIANT_COST) / self.jobs
        window = _PROCESS_COST if study.is_program else _WINDOW_COST
        if study.cache == "cold":
            memory = study.memory if isinstance(study.memory, int) else 0
            window += _OWN_FLUSH_COST if "PK_FLUSH" in (study.source or "") else memory * _FLUSH_COST
        policy = study.policy
        experiment = policy.repetitions * policy.windows * window * 1.2
        most = policy.attempts * (1 + len(study.events))
        passes = min(policy.passes, policy.attempts) + len(study.events)
        seconds, longest = (compile_time + left * experiment * each for each in (passes, most))
        return Plan(total, total - left, left, seconds, longest, tuple(self._faults(study)))

    def collect(self, study: Study) -> StudyRuns:
        """Measure every configuration that the folder does not hold yet.

        Raises
        ------
        SettingError
            If the space is empty, larger than `limit`, or the folder belongs to another study or machine.
        UnavailableError
            If this machine cannot measure at all (no C compiler, not x86-64).
        """
        if os.uname().machine != "x86_64":
            raise UnavailableError(
                f"microbenchmarks need the TSC of an x86-64 machine, this one is {os.uname().machine}"
            )
        study = self._settled_study(study)
        self._checked_count(study)
        if self.folder is not None:
            # Absolute: compilers and the measuring process run in folders of their own.
            return self._collect(study, Path(self.folder).absolute())
        with tempfile.TemporaryDirectory(prefix="perfkit-study-") as place:
            return self._collect(study, Path(place))

    def _settled_study(self, study: Study) -> Study:
        """Fill in what the study leaves to this machine and these settings."""
        how = "read one with perfkit.Study.from_yaml, or make one with perfkit.Study(...)"
        expect(isinstance(study, Study), study, "Microbenchmark", "a Study", how)
        if study.uses_host(derived=True) and not study.host:
            try:
                study = study.replace(host=host_facts())
            except UnavailableError:
                if study.uses_host():
                    raise  # else a derived column stays missing, and says so
        if self.repetitions is None:
            return study
        return study.replace(policy={**study.policy.model_dump(), "repetitions": self.repetitions})

    def _checked_count(self, study: Study) -> int:
        count = study.count(self.limit)
        if count > self.limit:
            raise SettingError(
                f"the study {study.name!r} has {'more than ' if study.where else ''}{count} configurations, over the "
                f"limit of {self.limit}: constrain it, or raise the limit (--yes)"
            )
        if count == 0:
            raise SettingError(f"the study {study.name!r} has no configurations: its constraints exclude all")
        return count

    def _faults(self, study: Study) -> Iterator[str]:
        if again := study.repeated():
            yield _REPEATED.format(counted(again, "configurations"))
        for compiler in dict.fromkeys(split_compiler(text, study.folder)[0] for text in study.compilers):
            try:
                toolchain.find_tool(compiler)
            except UnavailableError as error:
                yield str(error)
        for one, program in (("mca", "llvm-mca"), ("osaca", "osaca")):
            if one in study.static:
                try:
                    if one == "mca":
                        toolchain.find_mca()
                    else:
                        toolchain.find_tool(program)
                        architecture(read_state())
                except UnavailableError as error:
                    yield f"static: {one} is asked for, but {error}"
        usable = usable_cpus(study)
        if max(study.threads) > len(usable):
            yield f"{max(study.threads)} threads on {len(usable)} CPUs: those rows will be marked failed"
        hard = [name for name in study.events if event_numbers(name)[0] != 1]
        counters = read_state().counters if hard else ""
        if counters:
            yield f"no hardware counters here ({counters}): {', '.join(hard)} will be missing"

    def _collect(self, study: Study, folder: Path) -> StudyRuns:
        fingerprint = study.fingerprint()
        for event in study.events:
            event_numbers(event)
        with Store(folder, fingerprint) as store:
            with prepared(study.machine) as state:
                metadata = metadata_of(study, state)
                check_origin(folder, metadata, here=self.cluster is None and not self.spread)
                write_whole(folder / "study.yaml", study.to_yaml())
                _keep(folder, metadata)
                for reason in state.refused.values():
                    warnings.warn(f"machine state: {reason}", PerfkitWarning, stacklevel=3)
                if self.retry:
                    store.drop_failed()
                done = {record["key"]: record["status"] for record in store.records()}
                space = [(one, one.key(fingerprint)) for one in study.configurations()]
                todo = [(one, key) for one, key in space if key not in done]
                if again := study.repeated():
                    logging.getLogger(__name__).warning(_REPEATED.format(counted(again, "configurations")))
                failed = sum(done.get(key, "ok") != "ok" for _, key in space)
                if failed:
                    text = f"{failed} configurations failed before and are not tried again: --retry (retry=True) does"
                    warnings.warn(text, PerfkitWarning, stacklevel=3)
                predicted: dict[str, dict[str, Any]] = {}
                self._say(len(space) - len(todo), len(space), "compiling")
                if self.budget is not None:
                    predicted = self._with_budget(study, space, store, metadata)
                elif self.cluster is not None:
                    self._on_cluster(study, todo, len(space), store, metadata)
                elif self.spread:
                    self._spread(study, todo, len(space), store, metadata)
                else:
                    self._here(study, todo, len(space), store, metadata)
                _remove_objects(folder / "objects")
                store.finish()
            stored = {record["key"]: record for record in store.records()}
            records = [stored[key] if key in stored else predicted[key] for _, key in space]
        return StudyRuns.from_records(records, metadata, study.derive)

    def _with_budget(
        self, study: Study, space: Sequence[Task], store: Store, metadata: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Measure what a sequential design asks for, and return the records of what it predicts instead."""
        assert self.budget is not None
        design = SequentialDesign(_known_before(study, space), self.budget, self.error, self.seed)
        place = {key: row for row, (_, key) in enumerate(space)}
        metric, seen = study.policy.metric, set()
        design.awaited |= {place[key]: value for key, value in store.predictions().items() if key in place}
        rows: list[int] = []
        while True:
            new = [record for record in store.records() if record["key"] in place and record["key"] not in seen]
            seen |= {record["key"] for record in new}
            values = [record.get(metric) for record in new]
            plain = [math.nan if value is None else float(value) for value in values]
            design.observe([place[record["key"]] for record in new], plain)
            rows = design.propose()
            if not rows:
                break
            store.keep_predictions({space[row][1]: value for row, value in design.awaited.items()})
            self._here(study, [space[row] for row in rows], len(space), store, metadata, len(seen))
        found = design.predictions(_own_interval(store.records()))
        metadata["budget"] = {
            "configurations": len(space), "measured": len(seen), "predicted": len(found), "metric": metric,
            "wanted_error": self.error, "error_estimate": None if math.isnan(design.estimate) else design.estimate,
        }  # fmt: skip
        _keep(store.folder, metadata)
        said = f"is estimated at {design.estimate:.1%} or less"
        if math.isnan(design.estimate):
            said = "is not known: too few were predicted before they were measured"
        logging.getLogger(__name__).warning(
            "%d of %d configurations were measured and %d predicted; the median error of a prediction %s (%.1f%% were "
            "asked for)", len(seen), len(space), len(found), said, 100 * self.error,
        )  # fmt: skip
        message, out = f"not measured: predicted from {len(seen)} measured configurations", {}
        for row, one in found.iterrows():
            configuration, key = space[row]
            figures: dict[str, Any] = {
                "predicted": float(one["predicted"]),
                "predicted_low": float(one["low"]),
                "predicted_high": float(one["high"]),
            }
            out[key] = record_of(configuration, key, status="predicted", message=message, **figures)
        return out

    def _here(
        self,
        study: Study,
        todo: Sequence[Task],
        total: int,
        store: Store,
        metadata: dict[str, Any],
        before: int | None = None,
    ) -> None:
        """Compile everything in parallel, then measure with nothing else running."""
        folder = store.folder
        objects = folder / "objects"
        harness = compiling.build_harness(objects)
        before = total - len(todo) if before is None else before
        built = self._compiled(study, todo, objects, before, total)
        if built:
            files = files_of(one.files for one in built.values())
            own = files_of(one.own for one in built.values())
            check_files(folder, metadata["files"] | metadata["own"])
            texts = [path for path, state in files.items() if state and not path.endswith(LINKED)]
            for name in idle_dimensions(study, texts):
                logging.getLogger(__name__).warning(
                    "the dimension %s: no source or header of yours mentions it, and no argument; unless a system "
                    "header does, its rows repeat one measurement", name,
                )  # fmt: skip
            metadata["files"] |= files
            metadata["own"] |= own
            _keep(folder, metadata)
        done = [before]

        def say(what: str) -> None:
            self._say(done[0], total, what)

        inputs = Inputs(study, todo)

        def note(key: str, experiment: dict[str, Any]) -> None:
            if inputs.note(key, metadata):
                _keep(folder, metadata)
            store.add_experiment(key, experiment)

        with measuring_lock(say=say):
            earlier = store.experiments()
            for record in measure_all(study, todo, built, harness, objects, self.seed, earlier, note, say):
                store.add(record)
                done[0] += 1
                say("measuring")

    def _compiled(
        self, study: Study, todo: Sequence[Task], objects: Path, before: int, total: int
    ) -> dict[str, compiling.Built]:
        from joblib import Parallel, delayed

        jobs = list(compiling.batches_of(study, todo, self._cut(len(todo))))
        built: dict[str, compiling.Built] = {}
        # Threads: the work is the compilers'. Processes would take a second to start, and outlive a `kill -9`.
        parallel = Parallel(n_jobs=min(self.jobs, max(len(jobs), 1)), prefer="threads", return_as="generator_unordered")
        with deaf_to_interrupts():  # starts the workers
            finished = parallel(delayed(compiling.compile_batch)(one, objects) for one in jobs)
        for results in finished:
            built |= {one.key: one for one in results}
            self._say(before, total, f"compiling ({len(built)} of {len(todo)} variants)")
        return built

    def _cut(self, variants: int) -> int:
        """Return the variants of a task: few enough that every processor has some, enough to share their headers."""
        return max(min(self.batch, math.ceil(variants / self.jobs)), 1)

    def _spread(self, study: Study, todo: Sequence[Task], total: int, store: Store, metadata: dict[str, Any]) -> None:
        """Let joblib's backend place whole batches: each is compiled and measured where it lands."""
        from joblib import Parallel, delayed

        plain = study.to_yaml()
        cuts = [todo[at : at + self.batch] for at in range(0, len(todo), self.batch)]
        done = total - len(todo)
        tasks = (delayed(collect_batch)(plain, cut) for cut in cuts)
        with deaf_to_interrupts():  # starts the workers
            batches = Parallel(n_jobs=self.jobs, return_as="generator_unordered")(tasks)
        for records in batches:
            for record in records:
                _note(store, metadata, record)
                store.add(record)
                done += 1
                self._say(done, total, "measuring")

    def _on_cluster(
        self, study: Study, todo: Sequence[Task], total: int, store: Store, metadata: dict[str, Any]
    ) -> None:
        from perfkit.collectors.microbenchmark.cluster import collect_on

        assert self.cluster is not None
        before = total - len(todo)
        rows = collect_on(
            self.cluster, study, todo, self.batch, self.seed, lambda done, what: self._say(before + done, total, what),
            lambda record: _note(store, metadata, record),
        )  # fmt: skip
        for record in rows:
            store.add(record)

    def _say(self, done: int, total: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done, total, what)


def _keep(folder: Path, metadata: dict[str, Any]) -> None:
    write_whole(folder / "metadata.json", json.dumps(metadata, indent=1) + "\n")


def _note(store: Store, metadata: dict[str, Any], record: dict[str, Any]) -> None:
    """Take out of a row that was compiled elsewhere the states of the files that it was made of, and keep them.

    Raises
    ------
    SettingError
        Rows before it were made of another state of one of them.
    """
    anew = False
    for kind in ("files", "own"):
        files, before = record.pop(kind, {}), metadata[kind]
        for path, found in files.items():
            known = before.get(path, found)
            if known != found:
                mend = "put it back" if known else "none was there: take it away"
                raise SettingError(
                    f"the header, source, library or input {path} that {record.get('host') or 'a worker'} read is not "
                    f"that of the rows of {store.folder} before: {mend}, or name another folder; the rows that arrived "
                    "are kept"
                )
        anew = anew or bool(files.keys() - before.keys())
        before |= files
    if anew:
        _keep(store.folder, metadata)


def _own_interval(records: Iterable[Mapping[str, Any]]) -> float:
    """Return half of the relative interval between a row's passes: the median over the rows that have one, else 0."""
    ends = [(record.get("low") or math.nan, record.get("high") or math.nan) for record in records]
    halves = [(high - low) / (high + low) for low, high in ends if 0 < low <= high]
    return float(np.median(halves)) if halves else 0.0


def collect_batch(study_text: str, todo: Sequence[Task]) -> list[dict[str, Any]]:
    """Compile and measure a batch on whatever machine this runs on; its records hold `files` and `own` of `Built`."""
    import yaml

    study = Study(**yaml.safe_load(study_text))
    with tempfile.TemporaryDirectory(prefix="perfkit-study-") as place:
        objects = Path(place) / "objects"
        harness = compiling.build_harness(objects)
        built: dict[str, compiling.Built] = {}
        for one in compiling.batches_of(study, todo, len(todo)):
            built |= {result.key: result for result in compiling.compile_batch(one, objects)}
        inputs = Inputs(study, todo)
        with measuring_lock():
            found = list(measure_all(study, todo, built, harness, objects))
        out = []
        for record in found:
            made, read = built[record["key"]], inputs.read_by(record["key"]) if record["status"] == "ok" else {}
            out.append(record | {"files": made.files | read, "own": made.own})
        return out


def _known_before(study: Study, space: Sequence[Task]) -> pd.DataFrame:
    """Return what is known of every configuration before it is measured: dimensions, and columns derived from them."""
    rows = []
    for one, _ in space:
        rows.append({**one.values, "compiler": one.compiler, "flags": one.flags, "threads": one.threads})  # noqa: PD011
    frame = pd.DataFrame(rows)
    for column, text in study.derive.items():
        if Expression(text).names <= {*frame.columns, *study.host}:
            frame[column] = Expression(text).over(frame.assign(**study.host))
    return frame


def host_facts() -> dict[str, int]:
    """Return this host's `HOST_FACTS`.

    Raises
    ------
    UnavailableError
        If it does not show its caches.
    """
    caches = read_state().caches
    data = {name: size for name, size in caches.items() if not name.endswith("i")}
    if not data:
        raise UnavailableError(
            "this machine does not show its caches (/sys/devices/system/cpu/cpu0/cache): give the study "
            "`host: {LAST_CACHE: BYTES, CPUS: N}`"
        )
    return {"LAST_CACHE": data[max(data)], "CPUS": len(os.sched_getaffinity(0))}


def _remove_objects(objects: Path) -> None:
    if not objects.is_dir():
        return
    for path in objects.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
