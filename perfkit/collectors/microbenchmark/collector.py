"""`Microbenchmark`: compile a study's variants in parallel, measure them one at a time, and keep every repetition."""

import fcntl
import json
import math
import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfkit._version import __version__
from perfkit.collectors.host import toolchain
from perfkit.collectors.host.machine_state import MachineState, now, prepared, read_state
from perfkit.collectors.microbenchmark import compile as compiling
from perfkit.collectors.microbenchmark.policy import Verdict, best, judge_repetitions
from perfkit.collectors.microbenchmark.process import (
    Experiment,
    KernelError,
    MeasuringProcess,
    Request,
    event_numbers,
)  # fmt: skip
from perfkit.collectors.microbenchmark.sources import Variant, variant
from perfkit.collectors.microbenchmark.store import Store, write_whole
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError
from perfkit.study.runs import StudyRuns
from perfkit.study.study import CALM, Configuration, Study, fill, split_compiler

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
        Object files to compile.
    seconds : float
        Estimated time for what is left.
    faults : tuple of str
        What will fail: compilers that are not there, too many threads, events without counters.
    """

    configurations: int
    done: int
    objects: int
    seconds: float
    faults: tuple[str, ...]


# Estimates of `plan`, in seconds, from the shipped studies on a two-core machine: an object's fixed cost, a variant's.
_OBJECT_COST, _VARIANT_COST, _WINDOW_COST = 0.6, 0.02, 12e-6
_FLUSH_COST, _OWN_FLUSH_COST = 6e-10, 6e-5  # seconds a byte of memory; seconds a kernel's own PK_FLUSH


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
        Variants in an object file.
    seed : int
        Of the order of measurement: shuffled, so that a machine that drifts does not look like an effect of a
        dimension.
    limit : int
        The largest space that is measured without being asked twice.
    spread : bool
        Compile and measure each batch wherever joblib runs it, e.g. on the nodes of a dask cluster, instead of
        measuring everything here. Measurements still exclude each other on every node.
    progress : callable, optional
        Called as ``progress(done, total, what)``.

    Examples
    --------
    >>> runs = Microbenchmark(repetitions=5).collect(Study("gather.c", {"N": [1, 2]}))   # doctest: +SKIP
    """

    folder: Path | str | None = None
    repetitions: int | None = None
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    batch: int = 128
    seed: int = 0
    limit: int = CALM
    spread: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.batch < 1 or self.limit < 1:
            raise SettingError("jobs, batch and limit are at least 1")
        if self.repetitions is not None and self.repetitions < 3:
            raise SettingError(
                f"repetitions={self.repetitions}: the policy drops two extremes, so at least 3 are needed"
            )

    def plan(self, study: Study) -> Plan:
        """Count the space, check what can be checked, and estimate the time."""
        study = self._with_policy(study)
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
        objects = sum(math.ceil(n / self.batch) for n in groups.values())
        compile_time = (objects * _OBJECT_COST + left * _VARIANT_COST) / self.jobs
        window = _WINDOW_COST
        if study.cache == "cold":
            window += _OWN_FLUSH_COST if "PK_FLUSH" in (study.source or "") else study.memory * _FLUSH_COST
        experiment = study.policy.repetitions * study.policy.windows * window * (1 + len(study.events))
        return Plan(total, total - left, objects, compile_time + left * experiment * 1.5, tuple(self._faults(study)))

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
        study = self._with_policy(study)
        self._checked_count(study)
        if self.folder is not None:
            # Absolute: compilers and the measuring process run in folders of their own.
            return self._collect(study, Path(self.folder).absolute())
        with tempfile.TemporaryDirectory(prefix="perfkit-study-") as place:
            return self._collect(study, Path(place))

    def _with_policy(self, study: Study) -> Study:
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
        for compiler in dict.fromkeys(split_compiler(text)[0] for text in study.compilers):
            try:
                toolchain.find_tool(compiler)
            except UnavailableError as error:
                yield str(error)
        usable = _cpus(study)
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
            write_whole(folder / "study.yaml", study.to_yaml())
            with prepared(study.machine) as state:
                metadata = _metadata(study, state)
                _same_machine(folder, metadata)
                write_whole(folder / "metadata.json", json.dumps(metadata, indent=1) + "\n")
                for reason in state.refused.values():
                    warnings.warn(f"machine state: {reason}", PerfkitWarning, stacklevel=3)
                done = {record["key"] for record in store.records()}
                space = [(one, one.key(fingerprint)) for one in study.configurations()]
                total = len(space)
                todo = [(one, key) for one, key in space if key not in done]
                self._say(total - len(todo), total, "compiling")
                if self.spread:
                    self._spread(study, todo, total, store)
                else:
                    self._here(study, space, todo, store, folder)
            stored = {record["key"]: record for record in store.records()}
            wanted = [one.key(fingerprint) for one in study.configurations()]
            records = [stored[key] for key in wanted]
        return StudyRuns.from_records(records, metadata, study.derive)

    def _here(
        self,
        study: Study,
        space: Sequence[tuple[Configuration, str]],
        todo: Sequence[tuple[Configuration, str]],
        store: Store,
        folder: Path,
    ) -> None:
        """Compile everything in parallel, then measure with nothing else running."""
        from joblib import Parallel, delayed

        objects = folder / "objects"
        harness = compiling.build_harness(objects)
        total, wanted = len(space), {key for _, key in todo}
        # Cut from the whole space, so that a study that goes on finds the objects that it compiled before.
        cut = _batches(study, space, self.batch)
        jobs = [one for one in cut if any(each.key in wanted for each in one.variants)]
        built: dict[str, compiling.Built] = {}
        finished = Parallel(n_jobs=min(self.jobs, max(len(jobs), 1)), return_as="generator")(
            delayed(compiling.compile_batch)(one, objects) for one in jobs
        )
        for results in finished:
            built |= {one.key: one for one in results}
            self._say(total - len(todo), total, f"compiling ({len(built)} variants)")
        shuffled = list(todo)
        random.Random(self.seed).shuffle(shuffled)  # noqa: S311 (an order, not a secret)
        with measuring_lock():
            for number, record in enumerate(measure_all(study, shuffled, built, harness, objects)):
                store.add(record)
                self._say(total - len(todo) + number + 1, total, "measuring")
        if folder.exists():
            _remove_objects(objects)

    def _spread(self, study: Study, todo: Sequence[tuple[Configuration, str]], total: int, store: Store) -> None:
        """Let joblib's backend place whole batches: each is compiled and measured where it lands."""
        from joblib import Parallel, delayed

        plain = study.to_yaml()
        cuts = [todo[at : at + self.batch] for at in range(0, len(todo), self.batch)]
        done = total - len(todo)
        tasks = (delayed(collect_batch)(plain, cut) for cut in cuts)
        for records in Parallel(n_jobs=self.jobs)(tasks):
            for record in records:
                store.add(record)
                done += 1
                self._say(done, total, "measuring")

    def _say(self, done: int, total: int, what: str) -> None:
        if self.progress is not None:
            self.progress(done, total, what)


def collect_batch(study_text: str, todo: Sequence[tuple[Configuration, str]]) -> list[dict[str, Any]]:
    """Compile and measure a batch on whatever machine this runs on; returns the store's records."""
    import yaml

    study = Study(**yaml.safe_load(study_text))
    with tempfile.TemporaryDirectory(prefix="perfkit-study-") as place:
        objects = Path(place) / "objects"
        harness = compiling.build_harness(objects)
        built: dict[str, compiling.Built] = {}
        for one in _batches(study, todo, len(todo)):
            built |= {result.key: result for result in compiling.compile_batch(one, objects)}
        with measuring_lock():
            return list(measure_all(study, todo, built, harness, objects))


def _batches(study: Study, todo: Sequence[tuple[Configuration, str]], size: int) -> Iterator[compiling.Batch]:
    groups: dict[tuple[str, str], list[Variant]] = {}
    for one, key in todo:
        groups.setdefault((one.compiler, one.flags), []).append(variant(study, one, key))
    for (compiler, flags), variants in groups.items():
        whole = compiling.Batch(compiler, flags, study.language, study.source or "", tuple(variants), study.static)
        yield from compiling.batches(whole, size)


def measure_all(
    study: Study,
    todo: Sequence[tuple[Configuration, str]],
    built: dict[str, compiling.Built],
    harness: Path,
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Measure each configuration in order and yield its record; one process a number of threads."""
    cpus = _cpus(study)
    events: list[str] = []
    for threads in dict.fromkeys(one.threads for one, _ in todo):
        mine = [(one, key) for one, key in todo if one.threads == threads]
        if threads > len(cpus):
            for one, key in mine:
                yield _record(
                    one, key, message=f"{threads} threads need as many CPUs; this process may use {len(cpus)}"
                )
            continue
        fifo = study.machine.scheduler == "fifo"
        with MeasuringProcess(harness, folder, cpus[:threads], threads, fifo) as process:
            if not events:
                events = _countable(study)
            if fifo and not process.is_fifo:
                reason = "machine state: the FIFO scheduling class was refused (it needs root); measuring without it"
                warnings.warn(reason, PerfkitWarning, stacklevel=2)
            for one, key in mine:
                result = built[key]
                if result.failed:
                    yield _record(one, key, message=result.message)
                else:
                    yield _measure_one(study, one, key, result, process, events, folder)


def _measure_one(
    study: Study,
    one: Configuration,
    key: str,
    built: compiling.Built,
    process: MeasuringProcess,
    events: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """Apply the repetition policy to one configuration: timing first, then each event in runs of its own."""
    experiments: list[dict[str, Any]] = []
    try:
        _commands(study.preamble, one)
        request = _request(study, one, key, built, folder)
        chosen, verdict, tries = _settle(study, process, request, study.policy.metric, experiments)
        counts = {}
        for event in events:
            counted = Request(**{**request.__dict__, "event": event})
            _, count, _ = _settle(study, process, counted, "event", experiments)
            counts[event] = count.mean
        _commands(study.finalize, one)
    except (KernelError, UnavailableError) as error:
        return _record(one, key, message=str(error), experiments=experiments, static=built.static)
    figures = {
        name: judge_repetitions([getattr(run, name) for run in chosen.runs], 1).mean for name in ("tsc", "ns", "cycles")
    }
    return _record(
        one, key, status="ok", settled=verdict.settled, attempts=tries, steps=chosen.steps, spread=verdict.spread,
        **figures, events=counts, reports=chosen.reports, static=built.static, experiments=experiments,
    )  # fmt: skip


def _settle(
    study: Study, process: MeasuringProcess, request: Request, metric: str, experiments: list[dict[str, Any]]
) -> tuple[Experiment, Verdict, int]:
    """Repeat the experiment until it settles or the attempts are used up; every run is appended to `experiments`."""
    verdicts, made = [], []
    for attempt in range(study.policy.attempts):
        got = process.measure(request, study.time_limit)
        made.append(got)
        runs = [[run.tsc, run.ns, run.cycles, run.event, run.kept, run.tried] for run in got.runs]
        experiments.append({"event": request.event or "", "attempt": attempt, "runs": [_nullable(run) for run in runs]})
        verdicts.append(judge_repetitions([getattr(run, metric) for run in got.runs], study.policy.tolerance))
        if verdicts[-1].settled:
            break
    at = best(verdicts)
    return made[at], verdicts[at], len(made)


def _request(study: Study, one: Configuration, key: str, built: compiling.Built, folder: Path) -> Request:
    path = Path(built.object).relative_to(folder) if Path(built.object).is_absolute() else Path(built.object)
    return Request(
        object=f"./{path}", variant=key, repetitions=study.policy.repetitions, windows=study.policy.windows,
        steps=study.steps, warmup=study.warmup, cold=study.cache == "cold",
        memory=study.memory, huge=study.pages == "huge", threads=one.threads,
    )  # fmt: skip


def _countable(study: Study) -> list[str]:
    """Return the events that this machine counts, and warn of the others: their columns stay missing."""
    hard = [name for name in study.events if event_numbers(name)[0] != 1]
    reason = read_state().counters if hard else ""
    if not reason:
        return list(study.events)
    warnings.warn(f"no hardware counters here ({reason}): {', '.join(hard)} stay missing", PerfkitWarning, stacklevel=2)
    return [name for name in study.events if name not in hard]


def _record(one: Configuration, key: str, **parts: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "key": key, "values": one.values, "compiler": one.compiler, "flags": one.flags, "threads": one.threads,
        "status": "failed", "message": "", "settled": False, "at": now(),
    }  # fmt: skip
    record |= {name: value for name, value in parts.items() if name not in {"events", "reports", "static"}}
    for name in ("tsc", "ns", "cycles", "spread"):
        if isinstance(record.get(name), float) and not math.isfinite(record[name]):
            record[name] = None
    for name in ("events", "reports", "static"):
        record[name] = {k: v if math.isfinite(v) else None for k, v in parts.get(name, {}).items()}
    return record


def _nullable(run: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in run]


def _commands(commands: Sequence[str], one: Configuration) -> None:
    """Run preamble or finalize commands as argument lists; a failing one fails the row."""
    for text in commands:
        values = {**one.values, "threads": one.threads, "compiler": one.compiler, "flags": one.flags}
        words = [fill(word, values) for word in shlex.split(text)]
        try:
            done = toolchain.run_tool(words, timeout=60, stdin=subprocess.DEVNULL)
        except UnavailableError as error:
            raise KernelError(f"the command {text!r} did not run: {error}") from None
        if done.returncode:
            raise KernelError(f"the command {text!r} failed with {done.returncode}: {done.stderr.strip()[:200]}")


def _cpus(study: Study) -> list[int]:
    """Return the CPUs to pin to; by default the last ones, since the first serves most interrupts."""
    allowed = sorted(os.sched_getaffinity(0))
    if not study.affinity:
        return allowed[::-1]
    foreign = [cpu for cpu in study.affinity if cpu not in allowed]
    if foreign:
        raise SettingError(f"affinity names CPU {foreign[0]}, this process may use {allowed}")
    return list(study.affinity)


def _metadata(study: Study, state: MachineState) -> dict[str, Any]:
    versions = {}
    for text in study.compilers:
        name = split_compiler(text)[0]
        try:
            versions[name] = toolchain.version(name)
        except UnavailableError as error:
            versions[name] = f"missing: {error}"
    return {
        "study": study.name, "fingerprint": study.fingerprint(), "kind": "measured", "date": now(),
        "perfkit": __version__, "compilers": versions, "machine": json.loads(json.dumps(state.to_dict())),
        "policy": study.policy.model_dump(), "cache": study.cache,
    }  # fmt: skip


def _same_machine(folder: Path, metadata: dict[str, Any]) -> None:
    """Refuse to go on with a study that another kind of machine or compiler began: the rows would not compare."""
    path = folder / "metadata.json"
    if not path.exists():
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    for name in ("processor", "family", "model", "stepping"):
        if before["machine"][name] != metadata["machine"][name]:
            raise SettingError(
                f"{folder} was measured on {before['machine']['processor']!r}, this is "
                f"{metadata['machine']['processor']!r}: name another folder"
            )
    for name in set(before["compilers"]) & set(metadata["compilers"]):
        if before["compilers"][name] != metadata["compilers"][name]:
            raise SettingError(f"{folder} was measured with {before['compilers'][name]!r}: name another folder")


def _remove_objects(objects: Path) -> None:
    for path in objects.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def measuring_lock(path: Path | None = None) -> Iterator[None]:
    """Hold this machine's measuring lock: two studies of one user never time at once."""
    path = path or Path(tempfile.gettempdir()) / f"perfkit-measuring-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
