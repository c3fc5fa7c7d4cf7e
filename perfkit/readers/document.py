"""What the readers of whole JSON documents share: parsing without surprises, and counting the values in them."""

import json
from typing import Any

from perfkit.errors import FormatError
from perfkit.readers.open import Opened

_DEEPEST = 60


def parse(content: Opened, what: str) -> dict[str, Any]:
    """Return a document that is one JSON object.

    Raises
    ------
    FormatError
        It is no JSON, is truncated, is nested absurdly deep, or is not an object.
    """
    text = content.text()
    try:
        whole = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        line = int(getattr(error, "lineno", 1))
        shown = text.split("\n")[line - 1][:120] if text else ""
        raise FormatError(
            f"{content.name}, line {line}: JSON that is truncated or not {what} ({error}). Found: {shown!r}"
        ) from error
    if not isinstance(whole, dict):
        raise FormatError(f"{content.name}: expected {what}, a JSON object; found a {type(whole).__name__}")
    if values(whole) < 0:
        raise FormatError(f"{content.name}: JSON nested more than {_DEEPEST} levels deep, which is not {what}")
    return whole


def values(document: Any) -> int:
    """Return how many values (numbers, texts, nulls, empty lists) a document holds; -1 where it is nested too deep."""
    total, todo = 0, [(document, 0)]
    while todo:
        each, depth = todo.pop()
        if depth > _DEEPEST:
            return -1
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        if inside:
            todo.extend((x, depth + 1) for x in inside)
        else:
            total += 1
    return total
