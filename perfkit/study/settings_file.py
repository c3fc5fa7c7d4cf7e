"""Settings files: YAML whose top is a mapping, and faults in one line each."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
import yaml
from pydantic import BaseModel

from perfkit.base.files import reading, whole_text
from perfkit.errors import FormatError, SettingError, did_you_mean, listed
from perfkit.study.parts import Range

_MOST_YAML = 200_000
# How a type of pydantic's faults begins -> what it expected, in plain words.
_EXPECTED = {
    "greater_than_equal": "a number of at least {ge}", "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}", "less_than": "a number below {lt}",
    "finite_number": "a finite number",
    "string_pattern_mismatch": "a name of at most 80 letters, digits, '.', '_' and '-', a letter or digit first, "
    "without spaces",
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "text",
    "literal_error": "{expected}", "too_short": "a list of at least {min_length}", "tuple": "a list", "list": "a list",
    "dict": "a mapping", "model": "a mapping of settings",
}  # fmt: skip


class _OnceEach(yaml.SafeLoader):
    """YAML in which a key stands once: of two, the library takes the last and says nothing."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode) and key.value != "<<":
                problem = f"the key {key.value!r} stands there twice: leave one out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return node


def line_of_setting(path: Path, location: tuple[int | str, ...]) -> str:
    """Return the file, and the line in it of the deepest part of a location that is there: ``study.yaml, line 3``."""
    node = yaml.compose(whole_text(path, "a YAML file"), yaml.SafeLoader)
    mark = None
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k.start_mark, v) for k, v in node.value if k.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part].start_mark, node.value[part])
        else:
            found = None
        if found is None:
            break
        mark, node = found
    return f"{path}, line {mark.line + 1}" if mark else str(path)


def placed(path: Path, error: Exception) -> str:
    """Return what is wrong with a settings file, behind its name and the line of the first fault."""
    reason = error.__context__
    faults = reason.errors() if isinstance(reason, pydantic.ValidationError) else []
    return f"{line_of_setting(path, faults[0]['loc'] if faults else ())}: {error}"


def text_at(settings: Mapping[str, Any], key: str, path: Path) -> str:
    """Return a setting that must be text.

    Raises
    ------
    SettingError
        It is something else.
    """
    if not isinstance(settings[key], str):
        raise SettingError(f"{line_of_setting(path, (key,))}: {key}: expected text; found {_shown(settings[key])}")
    return str(settings[key])


def _written_out(loaded: Any, known: dict[int, int]) -> int:
    """Return how many values a document holds once its aliases are written out (infinity where one holds itself)."""
    if not isinstance(loaded, dict | list):
        return 1
    if id(loaded) not in known:
        known[id(loaded)] = _MOST_YAML + 1  # as long as it is not known
        inside = loaded.values() if isinstance(loaded, dict) else loaded
        known[id(loaded)] = 1 + sum(_written_out(one, known) for one in inside)
    return known[id(loaded)]


def load_yaml(text: str, path: Path) -> Any:
    """Return what YAML text holds; `path` names it in errors, which are one line each.

    Raises
    ------
    FormatError
        It is no YAML, or a key stands there twice; with the line.
    """
    try:
        with reading(path, "a YAML file"):
            return yaml.load(text, _OnceEach)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
        place = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        raise FormatError(f"{place}: not YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise FormatError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping.

    Raises
    ------
    FormatError
        It is no YAML, a key stands there twice, or its top is no mapping; with the line where there is one.
    """
    loaded = load_yaml(whole_text(path, "a YAML file"), path)
    if _written_out(loaded, {}) > _MOST_YAML:
        raise FormatError(
            f"{path}: its aliases stand for over {_MOST_YAML:,} values; write what they mean, or less of it"
        )
    if not isinstance(loaded, dict):
        raise FormatError(f"{path} holds {type(loaded).__name__}, expected a mapping of settings")
    return {str(key): value for key, value in loaded.items()}


def explain(error: pydantic.ValidationError, model: type[BaseModel]) -> str:
    """Turn pydantic's report into one line per fault, naming the nearest key for an unknown one."""
    lines: list[str] = []
    wanted: dict[tuple[str, str], list[str]] = {}  # of a value that may be of several kinds: each of them
    for fault in error.errors():
        path = _path(fault["loc"])
        if fault["type"] == "extra_forbidden":
            keys = _keys_at(model, fault["loc"][:-1])
            lines.append(f"unknown key {path!r}; {did_you_mean(str(fault['loc'][-1]), keys)}")
        elif fault["type"] == "missing":
            lines.append(f"{path} is missing")
        else:
            found = fault.get("input")
            expected = next((text for kind, text in _EXPECTED.items() if fault["type"].startswith(kind)), "")
            if expected:
                told = wanted.setdefault((path, _shown(found)), [])
                told.append(expected.format(**fault.get("ctx", {})) + " as a key" * (fault["loc"][-1] == "[key]"))
                continue
            shown = "" if isinstance(found, BaseModel | dict | list) else f" (found {_shown(found)})"
            message = fault["msg"].removeprefix("Value error, ")
            lines.append(f"{path}: {message}{shown}" if path else message)
    for (path, shown), kinds in wanted.items():
        every = [kind for kind in dict.fromkeys(kinds) if kind != "a whole number" or "a number" not in kinds]
        lines.append(f"{path}: expected {listed(every, last='or')}; found {shown}")
    return "; ".join(dict.fromkeys(lines))


# What pydantic adds to a location, which is no part of the file: which kind of several it tried.
_TRIED = re.compile(r"(int|float|bool|str|\[key\]|Range)$|(tuple|list|dict|function|constrained|literal)[-\[].*")


def _path(location: tuple[int | str, ...]) -> str:
    """Return where a value stands in the file, as dotted keys."""
    return ".".join(str(part) for part in location if isinstance(part, int) or not _TRIED.match(part))


def _shown(value: Any) -> str:
    """Return a value as YAML writes it, cut where it is long."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f"{value!r:.80}"


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are known where an unknown one was found."""
    for part in location:
        field = model.model_fields.get(str(part))
        kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if models:
            model = models[0]
        elif part == "Range":
            model = Range
    return [field.alias or name for name, field in model.model_fields.items()]
