"""Reports on one's own data: one screen per method, and nothing in it but the data it was given.

The lessons (the notebooks) teach a method on the data that ship; a report answers. Each entry of `REPORTS` is named by
its method and reads only what its parameters name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfkit.cli.pages import answer
from perfkit.errors import SettingError, listed

# A parameter: its type, its default as text, and its help; the form in which a notebook's are listed.
_Parameters = dict[str, dict[str, str]]


@dataclass(frozen=True)
class ReportKind:
    """A report: what it is asked with, which of that it cannot do without, and what makes its page."""

    parameters: _Parameters
    needs: tuple[str, ...]
    made: Callable[..., answer.AnswerPage]

    def page(self, name: str, values: Mapping[str, Any]) -> answer.AnswerPage:
        """Return the page.

        Raises
        ------
        SettingError
            A parameter that names the data is missing.
        """
        missing = [f"-p {needed} FILE" for needed in self.needs if not values.get(needed)]
        if missing:
            raise SettingError(f"report {name} needs {listed(missing)}: it reports on your data")
        defaults = {key: _plain(known) for key, known in self.parameters.items()}
        return self.made(**{**defaults, **values})


def _plain(known: Mapping[str, str]) -> Any:
    return int(known["default"]) if known["inferred_type_name"] == "int" else known["default"]


def _parameters(*rows: tuple[str, str, str]) -> _Parameters:
    """Return parameters from (name, default, help); a default of digits is a whole number."""
    return {
        name: {
            "name": name,
            "inferred_type_name": "int" if default.isdigit() else "str",
            "default": default,
            "help": told,
        }
        for name, default, told in rows
    }


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _spire(analysed: str, training: str, model: str, time_event: str, work_event: str) -> answer.AnswerPage:
    from perfkit.fitters.spire.model import Spire, SpireModel
    from perfkit.readers.open_samples import open_samples

    if bool(training) == bool(model):
        raise SettingError("report spire needs training runs (-p training 'runs/*.txt') or a model (-p model FILE)")

    def opened(text: str) -> Any:
        return open_samples(_list(text), memory=True, time_event=time_event, work_event=work_event)

    if model:
        return answer.of_spire(SpireModel.load(model).rank(opened(analysed)), model)
    learnt = opened(training)
    return answer.of_spire(Spire().fit(learnt).rank(opened(analysed)), training, runs=len(learnt.runs))


def _cpi(source: str, form: str, method: str, aggregate: int, time_event: str, work_event: str) -> answer.AnswerPage:
    from perfkit.fitters.cpi.stack import CpiStack
    from perfkit.readers.open_samples import open_samples

    samples = open_samples(_list(source), memory=True, time_event=time_event, work_event=work_event)
    settings: dict[str, Any] = {"form": form, "method": method, "aggregate": aggregate}
    return answer.of_cpi(CpiStack(**settings).fit(samples))


def _dump(dump: str, model: str) -> answer.AnswerPage:
    from perfkit.exploration.exploration import explore
    from perfkit.exploration.methods import Tried

    tried: list[Tried] = []
    return answer.of_exploration(explore(_list(dump), model=model or None, tried_out=tried), tried)


def _gus(kernel: str, function: str, arguments: str, core: str) -> answer.AnswerPage:
    from perfkit.collectors.open_traces import open_traces
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus

    trace = _only(open_traces(kernel, function=function, arguments=arguments), "trace")
    result = Gus(Microarchitecture.load(core)).run(trace)
    return answer.of_gus(result, result.sensitivity())


def _roofline(what: str, function: str, arguments: str, core: str) -> answer.AnswerPage:
    from perfkit.collectors.own_code import open_dags
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.dag.branches import predict_branches
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.relax import relax
    from perfkit.simulators.dag.schedule import DagScheduler

    machine = Microarchitecture.load(core)
    dag = _only(open_dags(what, function=function, arguments=arguments, core=machine), "DAG")
    if hasattr(dag, "trace"):
        dag = (predict_branches(dag, machine) if dag.branch_slot >= 0 else dag).in_memory()
    scheduler = DagScheduler(DagCore.from_microarchitecture(machine))
    schedule = scheduler.run(dag)
    return answer.of_roofline(schedule.roofline(), relax(dag, scheduler, schedule))


def _study(analysis: str, table: str) -> answer.AnswerPage:
    from perfkit.fitters.studies.analysis import Analysis

    asked = Analysis.from_yaml(analysis)
    return answer.of_study((asked.of_files(*_list(table)) if table else asked).run())


def _only(found: Mapping[str, Any], what: str) -> Any:
    if len(found) != 1:
        raise SettingError(f"a report is on one {what}; found {', '.join(found)}")
    return next(iter(found.values()))


_AXES = (
    ("time_event", "", 'event that measures time ("": chosen from the data)'),
    ("work_event", "", 'event that measures work ("": chosen from the data)'),
)
_CODE = (
    ("function", "", 'of a source: the function ("": its only one)'),
    ("arguments", "", "of a source: what the function is called with, such as f8[1000] (an array), 2.0 and 1000"),
    ("core", "host", "core to simulate: a name, a core file (*.toml) or host: this machine's"),
)
REPORTS: dict[str, ReportKind] = {
    "spire": ReportKind(
        _parameters(
            ("analysed", "", "samples of the workload: dumps or patterns (dumps/*.txt), separated by commas"),
            ("training", "", "samples of other runs to learn the rooflines from, likewise"),
            ("model", "", "or a model trained before (perfkit spire train)"),
            *_AXES,
        ),
        ("analysed",),
        _spire,
    ),
    "cpi": ReportKind(
        _parameters(
            ("source", "", "samples to break down: dumps or patterns, separated by commas"),
            ("form", "ipc", "form of the model: ipc (divided by cycles) or cpi (by instructions)"),
            ("method", "nnls", "nnls, ols, lasso or huber"),
            ("aggregate", "1", "sum so many consecutive intervals before the fit"),
            *_AXES,
        ),
        ("source",),
        _cpi,
    ),
    "dump": ReportKind(
        _parameters(
            ("dump", "", "dumps or patterns, separated by commas"),
            ("model", "", "a model of SPIRE trained on your machine (perfkit spire train)"),
        ),
        ("dump",),
        _dump,
    ),
    "gus": ReportKind(
        _parameters(("kernel", "", "a trace file (perfkit trace), a shipped trace, or a C or C++ source"), *_CODE),
        ("kernel",),
        _gus,
    ),
    "roofline": ReportKind(
        _parameters(("what", "", "kernel.c, module:function, ./program or a trace file"), *_CODE),
        ("what",),
        _roofline,
    ),
    "study": ReportKind(
        _parameters(
            ("analysis", "", "analysis file (YAML; docs/studies.md)"),
            ("table", "", "analyse these files instead of the analysis file's input"),
        ),
        ("analysis",),
        _study,
    ),
}
