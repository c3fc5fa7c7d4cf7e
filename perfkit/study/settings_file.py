"""Settings files: YAML whose top is a mapping, and faults in one line each."""

from pathlib import Path
from typing import Any

import pydantic
import yaml
from pydantic import BaseModel

from perfkit.errors import FormatError
from perfkit.names import nearest
from perfkit.study.parts import Range


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not YAML: {error}") from None
    if not isinstance(loaded, dict):
        raise FormatError(f"{path} holds {type(loaded).__name__}, expected a mapping of settings")
    return {str(key): value for key, value in loaded.items()}


def explain(error: pydantic.ValidationError, model: type[BaseModel]) -> str:
    """Turn pydantic's report into one line a fault, naming the nearest key for an unknown one."""
    lines = []
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            keys = _keys_at(model, fault["loc"][:-1])
            lines.append(f"unknown key {path!r}; {nearest(str(fault['loc'][-1]), keys)}")
        else:
            found = fault.get("input")
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
