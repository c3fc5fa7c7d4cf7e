"""What the other methods hold for the bottleneck, and which one to believe."""

from perfkit.collectors.profile.hot import Profile
from perfkit.diagnosis.diagnosis import Diagnosis, Opinion
from perfkit.errors import PerfkitError
from perfkit.scoring.dag_gus import group

_DAG_LIMIT = 60_000  # instructions of the trace that the extended roofline schedules


def opinions(answer: Diagnosis, found: Profile | None) -> tuple[Opinion, ...]:
    """Return the methods' opinions, the sensitivity's first."""
    resource = answer.bottleneck
    gain = float(answer.ranked.speedup[:, -1].max())
    told = [
        Opinion("sensitivity", f"{resource} ({gain:+.0%} at twice the capacity)" if resource else "no single resource")
    ]
    told += [_account(answer), _causality(answer), *_roofline(answer)]
    if found is not None and (seen := _samples(answer, found)) is not None:
        told.append(seen)
    return (*told, _belief(answer, told))


def _account(answer: Diagnosis) -> Opinion:
    cause, share = max(answer.causes().items(), key=lambda row: row[1])
    agrees = bool(answer.bottleneck) and group(cause) == group(answer.bottleneck)
    return Opinion("account of the cycles", f"{cause} takes {share:.0%} of them", agrees)


def _causality(answer: Diagnosis) -> Opinion:
    top = answer.lines.iloc[0]
    if not top["causality"]:
        return Opinion("causality", "no instruction delays what comes two windows later")
    slowest = answer.lines.sort_values("time", ascending=False).iloc[0]
    same = top["place"] == slowest["place"]
    beside = (
        "where most of the simulated time is, too" if same else f"most of the simulated time is at {slowest['place']}"
    )
    return Opinion("causality", f"{top['place']} is responsible ({top['causality']:.0%}); {beside}", bool(same))


def _roofline(answer: Diagnosis) -> list[Opinion]:
    """Return the extended roofline's opinion, of the beginning of the trace."""
    from perfkit.collectors.dag.x86_dag import trace_source
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.relax import relax
    from perfkit.simulators.dag.schedule import DagScheduler

    trace, core = answer.result.trace.head(_DAG_LIMIT), answer.result.settings.core
    try:
        dag = trace_source(trace, whole=True, core=core).in_memory()
        scheduler = DagScheduler(DagCore.from_microarchitecture(core))
        found = relax(dag, scheduler, scheduler.run(dag))
    except PerfkitError as error:
        return [Opinion("extended roofline", f"cannot say: {error}")]
    table = found.to_frame()
    tied = table[(table["gain"] >= table["gain"].max() - 0.02) & (table["gain"] > 0.005)]["resource"].tolist()
    agrees = any(group(each) == group(answer.bottleneck) for each in tied) if answer.bottleneck else not tied
    part = (
        f" (first {trace.instruction_count:,} instructions)"
        if trace.instruction_count < answer.result.instructions
        else ""
    )
    return [Opinion("extended roofline", f"{found.bottleneck or 'no single resource'}{part}", agrees)]


def _samples(answer: Diagnosis, found: Profile) -> Opinion | None:
    """Compare where the samples of the recorded functions are with where the simulated time is, by line."""
    if found.unit != "samples":
        return None
    code = answer.result.trace.code
    places = dict(
        zip(
            answer.result.trace.object_addresses().tolist(),
            zip(code.file, code.line.tolist(), strict=True),
            strict=True,
        )
    )
    by_line: dict[tuple[str, int], int] = {}
    for path, address, n in found.addresses.itertuples(index=False):
        if path == answer.file and places.get(address, ("", 0))[1]:
            by_line[places[address]] = by_line.get(places[address], 0) + n
    if not by_line:
        return None
    (file, line), most = max(by_line.items(), key=lambda row: row[1])
    total = sum(by_line.values())
    table = answer.lines
    time = table[(table["file"] == file) & (table["line"] == line)]["time"].sum()
    name = f"{file.rpartition('/')[2]}:{line}"
    return Opinion(
        "samples of the run",
        f"{name} has {most / total:.0%} of them ({time:.0%} of the simulated time)",
        bool(time > 0.5 * most / total),
    )


def _belief(answer: Diagnosis, told: list[Opinion]) -> Opinion:
    against = [each.method for each in told if each.agrees is False]
    if answer.uncertain:
        return Opinion("believe", "uncertain: the measured runs disagree on whether the simulation is near them")
    if answer.is_far:
        return Opinion("believe", f"none firmly: the simulation is {answer.apart:+.0%} from the measured cycles")
    if not against:
        return Opinion(
            "believe",
            "the sensitivity: nothing "
            + ("contradicts it" if answer.measured else "measured contradicts or supports it"),
        )
    trust = (
        "its cycles are those measured" if answer.measured else "it changes one thing and simulates everything again"
    )
    return Opinion("believe", f"the sensitivity, for {trust}; with care where {', '.join(against)} disagree")
