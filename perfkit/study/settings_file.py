"""Settings files: YAML whose top is a mapping, and faults in one line each."""

from pathlib import Path
from typing import Any

import pydantic
import yaml
from pydantic import BaseModel

from perfkit.errors import FormatError
from perfkit.files import reading, whole_text
from perfkit.names import did_you_mean
from perfkit.study.parts import Range

_MOST_YAML = 200_000
# How a type of pydantic's faults begins -> what it expected, in plain words.
_EXPECTED = {
    "greater_than_equal": "a number of at least {ge}", "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}", "less_than": "a number below {lt}",
    "finite_number": "a finite number",
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "text",
    "literal_error": "{expected}", "too_short": "a list of at least {min_length}", "tuple": "a list", "list": "a list",
    "dict": "a mapping", "model": "a mapping of settings",
}  # fmt: skip


def _written_out(loaded: Any, known: dict[int, int]) -> int:
    """Return how many values a document holds once its aliases are written out (infinity where one holds itself)."""
    if not isinstance(loaded, dict | list):
        return 1
    if id(loaded) not in known:
        known[id(loaded)] = _MOST_YAML + 1  # as long as it is not known
        inside = loaded.values() if isinstance(loaded, dict) else loaded
        known[id(loaded)] = 1 + sum(_written_out(one, known) for one in inside)
    return known[id(loaded)]


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping."""
    text = whole_text(path, "a YAML file")
    try:
        with reading(path, "a YAML file"):
            loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FormatError(f"{path} is not YAML: {error}") from None
    if _written_out(loaded, {}) > _MOST_YAML:
        raise FormatError(
            f"{path}: its aliases stand for over {_MOST_YAML:,} values; write what they mean, or less of it"
        )
    if not isinstance(loaded, dict):
        raise FormatError(f"{path} holds {type(loaded).__name__}, expected a mapping of settings")
    return {str(key): value for key, value in loaded.items()}


def explain(error: pydantic.ValidationError, model: type[BaseModel]) -> str:
    """Turn pydantic's report into one line per fault, naming the nearest key for an unknown one."""
    lines = []
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            keys = _keys_at(model, fault["loc"][:-1])
            lines.append(f"unknown key {path!r}; {did_you_mean(str(fault['loc'][-1]), keys)}")
        elif fault["type"] == "missing":
            lines.append(f"{path} is missing")
        else:
            expected = next((text for kind, text in _EXPECTED.items() if fault["type"].startswith(kind)), "")
            found = fault.get("input")
            if expected:
                lines.append(f"{path}: expected {expected.format(**fault.get('ctx', {}))}; found {found!r:.80}")
                continue
            shown = "" if isinstance(found, BaseModel | dict | list) else f" (found {found!r:.80})"
            message = fault["msg"].removeprefix("Value error, ")
            lines.append(f"{path}: {message}{shown}" if path else message)
    return "; ".join(dict.fromkeys(lines))


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
