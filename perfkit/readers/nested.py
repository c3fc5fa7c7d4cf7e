"""Counts inside of documents: runs with counters in them, as JSON, YAML, TOML or INI.

A set of counts is an object with time and work among its names, a list of objects of an event and its value, or an
object of lists, one per event. What stands above it names its run: a ``name``, or the key where there are several.
Numbers are taken as they are written: YAML's octal and sexagesimal numbers are no counts.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.document import values
from perfkit.readers.grid import Grid
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.open import Opened
from perfkit.readers.records import columns_of, is_plain_number, without_frames
from perfkit.readers.report import Dump, Report
from perfkit.samples.clocks import is_name_of_clock
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

NAME = "nested"
TITLE = "runs with counts in them (JSON, YAML, TOML, INI)"

_NAMED = re.compile(r'["\']?([\w.:/\-]+)["\']?\s*[:=]\s*(?=["\'\[{]?\s*["\']?\d|\{)')  # a name before a number or more
_LINE = re.compile(
    r"\s*(?:- +)*(?:[\"']?[\w.:/ \-]+[\"']?\s*[:=](?:\s.*|[^=].*)?|-(?: .*)?|---.*|\.\.\.|\[.*\]|[;#].*)?$"
)
_EVENTS, _COUNTS = ("event", "name", "counter", "metric"), ("value", "count")
_RUNS = ("run", "name", "workload", "benchmark", "bench", "program", "application", "app", "command", "test", "label",
         "id")  # fmt: skip
_OF_ROWS = ("at", "seconds", "interval", "place", "cpu", "core", "socket", "thread", "region", "function")
_JSON = ("{", "[{", "[[{", "[\n", "[ ")  # else a heading of TOML or INI
_LOOKED_AT, _MOST, _MOST_SHOWN = 200, 5_000_000, 8


@dataclass(frozen=True)
class _Found:
    """A set of counts, the names above it, and how deep it lies in what: of two depths one may sum up the other."""

    counts: dict[str, Any]
    names: tuple[str, ...] = ()
    path: str = ""

    def below(self, step: str, *names: str) -> "_Found":
        return replace(self, names=(*names, *self.names), path=step + self.path)


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: a document in which time and work are before numbers."""
    text = head.lstrip("\ufeff \t\r\n")
    if not text.startswith(_JSON):
        lines = (text.rpartition("\n")[0] or text).splitlines()[:_LOOKED_AT]
        if not all(_LINE.fullmatch(line) for line in lines):
            return False
    told = {normalise(n) for n in _NAMED.findall(text)} | {
        normalise(n) for n in re.findall(rf"""\b(?:{"|".join(_EVENTS)})["']?\s*[:=]\s*["']?([\w.:/\-]+)""", text)
    }
    return bool(told & set(TIME_EVENTS[:-1])) and bool(told & set(WORK_EVENTS))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    whole = _parsed(content)
    if values(whole) < 0:
        raise FormatError(f"{report.file}: a document nested so deep that it holds no counts of runs")
    passed = dict[str, None]()
    found = list(_found(whole, report, passed))
    if not found:
        raise FormatError(
            f"{report.file}: expected runs with counts in them, time and work among their names (cycles: 3000, "
            f"instructions: 6000); found none in {', '.join([*passed][:_MOST_SHOWN]) or 'the document'}. Write whole "
            "decimal numbers, or a table: a header, a column per event, a row per interval"
        )
    depths = {re.sub(r"[^/\[\]]+", "", f.path): f.path for f in found}
    if len(depths) > 1:
        one, other = [*depths.values()][:2]
        raise FormatError(
            f"{report.file}: counts of time and work stand at {one or '/'} and, at another depth, at {other or '/'}: "
            "totals beside their parts would be counted twice. Keep those of one depth"
        )
    if passed:
        shown = ", ".join([*passed][:_MOST_SHOWN])
        report.note(f"beside the counts, not read: {shown}{', ...' if len(passed) > _MOST_SHOWN else ''}")
    records = [({"run": ", ".join(f.names)} if f.names else {}) | f.counts for f in found]
    records, _ = without_frames(records, None, report)
    names, columns = columns_of(records)
    return plain_table.to_dump(Grid(names, columns, first_line=1), report, run)


def _found(node: Any, report: Report, passed: dict[str, None]) -> Iterator[_Found]:
    """Give the sets of counts in a part of a document; ``passed`` takes the names of what else is there."""
    if isinstance(node, list):
        if (whole := _of_events(node)) is not None:
            yield _Found(whole)
            return
        inside = [[*_found(child, report, passed)] for child in node]
        several = any(len(each) > 1 for each in inside)  # runs of rows; else each is a row
        for number, (child, each) in enumerate(zip(node, inside, strict=True), 1):
            unnamed = several and not (isinstance(child, dict) and _names_of(child))
            yield from (f.below("[]", *([str(number)] if unnamed else [])) for f in each)
    elif isinstance(node, dict):
        yield from _of_object(node, report, passed)


def _of_object(node: dict[str, Any], report: Report, passed: dict[str, None]) -> Iterator[_Found]:
    names = _names_of(node)
    cells = {k: n for k, v in node.items() if (n := _cell(v)) is not None and k.lower() not in _RUNS}
    rows = [cells] if _counts_both({k for k, v in cells.items() if _is_number(v)}) else _of_columns(node)
    told = {k: v for k, v in cells.items() if k.lower() in _OF_ROWS or is_name_of_clock(k)}
    if not rows and _counts_both({*cells, *(k for k, v in node.items() if v is None)}):
        report.problem(0, json.dumps(cells), "expected whole decimal numbers as counts of time and work")
    inside = dict[str, list[_Found]]()
    for key, child in node.items():
        beside = dict[str, None]()
        inside[key] = [] if key in cells else [*_found(child, report, beside)]
        passed |= beside if inside[key] else {}
    inside = {k: each for k, each in inside.items() if each}
    yield from (_Found(told | r, names) for r in rows or ())
    alone = len(inside) == 1 and not rows and [f.path for f in next(iter(inside.values()))] == [""]
    for key, each in inside.items():
        label = [key] if len(inside) > 1 else []
        for f in each:
            more = told if alone and not told.keys() & f.counts.keys() else {}
            yield replace(f, counts=more | f.counts).below(f"/{key}", *names, *label)
    kept = {*(told if alone or rows else ()), *inside, *(k for r in rows or () for k in r)}
    kept |= {k for k, v in node.items() if v is None}
    passed |= dict.fromkeys(k for k in node if k not in kept and k.lower() not in _RUNS)


def _names_of(node: dict[str, Any]) -> tuple[str, ...]:
    lower = {k.lower(): v for k, v in node.items()}
    return tuple(str(lower[k]) for k in _RUNS if isinstance(lower.get(k), str | int) and lower[k] != "")


def _counts_both(names: set[str]) -> bool:
    known = {normalise(n) for n in names}
    return bool(known & set(TIME_EVENTS[:-1])) and bool(known & set(WORK_EVENTS))


def _cell(value: Any) -> Any:
    """Return a number or text, also one in an object of its own (``{"value": 3000}``); None for what is none."""
    if isinstance(value, dict) and {*value} <= {"value", "unit"} and not value.get("unit"):
        value = value.get("value")
    return value if is_plain_number(value) or isinstance(value, str) else None


def _is_number(cell: Any) -> bool:
    return is_plain_number(cell) or (isinstance(cell, str) and NUMBER_PATTERN.fullmatch(cell) is not None)


def _of_events(node: list[Any]) -> dict[str, Any] | None:
    """Return the counts of a list of objects, each an event and its value; None for other lists."""
    out = dict[str, Any]()
    for each in node:
        if not isinstance(each, dict) or len(each) != 2:
            return None
        event = next((each[k] for k in _EVENTS if isinstance(each.get(k), str)), None)
        count = next((each[k] for k in _COUNTS if _is_number(each.get(k))), None)
        if event is None or count is None or event in out:
            return None
        out[event] = count
    return out if _counts_both({*out}) else None


def _of_columns(node: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object of equally long lists, one per event; None for other objects."""
    lists = {k: v for k, v in node.items() if isinstance(v, list) and v and all(x is None or _is_number(x) for x in v)}
    if not _counts_both({*lists}) or len({len(v) for v in lists.values()}) != 1:
        return None
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


# ------------------------------------------------------------------ texts


def _parsed(content: Opened) -> Any:
    """Return what a document holds; numbers of YAML and INI as they are written.

    Raises
    ------
    FormatError
        It is damaged, too long, or holds aliases.
    """
    text = content.text().lstrip("\ufeff")
    try:
        if text.lstrip().startswith(_JSON):
            return _of_json(text)
        if _is_yaml(text):
            if len(text) > _MOST:
                raise FormatError(
                    f"{content.name}: YAML of {len(text):,} characters; at most {_MOST:,} are read. Write it as JSON"
                )
            documents = list(yaml.load_all(text, _Plain))
            return documents[0] if len(documents) == 1 else documents
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            ini = configparser.RawConfigParser(default_section="", strict=True, empty_lines_in_values=False)
            ini.optionxform = str  # type: ignore[assignment,method-assign]
            ini.read_string(text)
            return {section: dict(ini[section]) for section in ini.sections()}
    except (ValueError, RecursionError, yaml.YAMLError, configparser.Error) as error:
        why = " ".join(str(error).split())[:300]
        raise FormatError(f"{content.name}: a document that is damaged, or cannot be read exactly: {why}") from error


def _of_json(text: str) -> Any:
    """Return a document, or several, one behind another, as a list."""
    decoder, documents, at = json.JSONDecoder(), [], 0
    while at < len(text):
        one, at = decoder.raw_decode(text, at)
        documents.append(one)
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
    return documents[0] if len(documents) == 1 else documents


def _is_yaml(text: str) -> bool:
    """Whether the first line that is no comment has a colon behind its name, or begins a list."""
    for line in text.splitlines():
        if line.strip() and not re.match(r"\s*[#;]|---", line):
            return re.match(r"\s*(?:-(?:\s|$)|[^=]*?:(?:\s|$))", line) is not None
    return False


class _Plain(yaml.BaseLoader):
    """YAML whose numbers stay as they are written, in which a key stands once, and without aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases are not read", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands there twice", key.start_mark
                )
            seen.add(str(key.value))
        return node
