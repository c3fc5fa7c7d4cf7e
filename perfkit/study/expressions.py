"""Expressions that users write in study and analysis files, evaluated without ``eval``.

The grammar is Python's, cut down to arithmetic, comparisons, ``and``/``or``/``not``, ``a if b else c``, lists, names
and the functions of `FUNCTIONS`. There are no attributes, no subscripts, no imports, and powers, products, texts,
lists and nesting are bounded, so an expression can neither run code nor eat the memory. (A study file as a whole is
code all the same: it holds a kernel that is compiled and run.)
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfkit.errors import SettingError, did_you_mean, expect

_LARGEST_POWER = 4096
_LONGEST = 10_000
_DEEPEST = 100


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and base.bit_length() * abs(exponent) > _LARGEST_POWER:
        raise SettingError(f"{base}**{exponent} has over {_LARGEST_POWER} bits: write a smaller power")
    found = base**exponent
    if isinstance(found, complex):
        raise SettingError(f"{base}**{exponent} is no real number")
    return found


def _times(left: Any, right: Any) -> Any:
    if isinstance(left, str | list) or isinstance(right, str | list):
        raise SettingError("text and lists cannot be multiplied in an expression")
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > _LARGEST_POWER:
        raise SettingError(f"a product of over {_LARGEST_POWER} bits: write smaller numbers")
    return left * right


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, str | list) and isinstance(right, str | list) and len(left) + len(right) > _LONGEST:
        raise SettingError(f"text and lists of over {_LONGEST} elements are not allowed in an expression")
    return left + right


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise SettingError("text cannot be formatted in an expression: % is the remainder of numbers")
    return left % right


def _range(*bounds: int) -> list[int]:
    values = range(*bounds)
    if len(values) > _LONGEST:
        raise SettingError(f"range of {len(values)} values in an expression: at most {_LONGEST} are allowed")
    return list(values)


def _distinct(*values: Any) -> int:
    """How many different values there are, e.g. cache lines touched: ``distinct(IDX0 // 16, IDX1 // 16)``."""
    if len(values) == 1 and isinstance(values[0], list):
        values = tuple(values[0])
    return len(set(values))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "max": max, "round": round, "len": len, "int": int, "float": float, "str": str,
    "sum": sum, "range": _range, "distinct": _distinct,
    "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp,
    "floor": math.floor, "ceil": math.ceil, "isnan": math.isnan,
}  # fmt: skip

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _plus, ast.Sub: operator.sub, ast.Mult: _times, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: _modulo, ast.Pow: _power,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda item, many: item in many, ast.NotIn: lambda item, many: item not in many,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A parsed expression, checked when it is made.

    Parameters
    ----------
    text : str
        The expression, e.g. ``"bytes / ns if ns > 0 else nan"``.

    Raises
    ------
    SettingError
        If the text is not an expression, or uses what is not allowed.

    Examples
    --------
    >>> Expression("distinct(a // 16, b // 16) * 2")({"a": 3, "b": 40})
    4
    """

    text: str

    def __post_init__(self) -> None:
        expect(isinstance(self.text, str), self.text, "an expression", "text", 'write one, as "WIDTH == 256"')
        _check(self._tree(), self.text)

    def _tree(self) -> ast.expr:
        if len(self.text) > 2000:
            raise SettingError(f"an expression has at most 2000 characters, not {len(self.text)}")
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = error.msg if isinstance(error, SyntaxError) else error
            raise SettingError(f"cannot read the expression {self.text!r}: {why}") from None

    @property
    def names(self) -> frozenset[str]:
        """The names that the expression needs a value for."""
        tree = self._tree()
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        return frozenset(
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and id(node) not in called and node.id not in _CONSTANTS
        )

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Evaluate with `values` for the names; raises SettingError that names what is missing or wrong."""
        try:
            return _value(self._tree(), values)
        except SettingError as error:
            raise SettingError(f"in the expression {self.text!r}: {error}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise SettingError(
                f"the expression {self.text!r} fails with {_shown(values, self.names)}: {error}"
            ) from None

    def over(self, frame: Any) -> list[Any]:
        """Evaluate for every row of a DataFrame; rows where a needed value is missing give NaN."""
        names = sorted(self.names)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise SettingError(
                f"the expression {self.text!r} needs {missing[0]!r}; {did_you_mean(missing[0], frame.columns)}"
            )
        if not names:
            return [self({}) for _ in range(len(frame))]
        tree = self._tree()
        out = []
        for row in zip(*(frame[name].tolist() for name in names), strict=True):
            if any(value is None or value != value for value in row):
                out.append(math.nan)
                continue
            values = dict(zip(names, row, strict=True))
            try:
                out.append(_value(tree, values))
            except ZeroDivisionError:
                out.append(math.nan)
            except (ArithmeticError, TypeError, ValueError) as error:
                raise SettingError(
                    f"the expression {self.text!r} fails with {_shown(values, names)}: {error}"
                ) from None
        return out


_CONSTANTS = {"True": True, "False": False, "nan": math.nan, "inf": math.inf, "pi": math.pi}


def _shown(values: Mapping[str, Any], names: Any) -> str:
    return ", ".join(f"{name}={values.get(name)!r}" for name in sorted(names)) or "no names"


def _check_depth(node: ast.expr) -> None:
    """Refuse expressions nested so deep that evaluating them would not come back."""
    level: list[ast.AST] = [node]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if not level:
            return
    raise SettingError(f"an expression is nested at most {_DEEPEST} levels deep")


def _check(node: ast.expr, text: str) -> None:
    """Refuse everything that the grammar of this module leaves out, before anything is evaluated."""
    _check_depth(node)
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and not isinstance(child.value, bool | int | float | str):
            raise SettingError(f"{child.value!r} is neither a number nor text in {text!r}")
        if isinstance(child, ast.Call):
            if not isinstance(child.func, ast.Name) or child.keywords:
                raise SettingError(f"only plain calls of known functions are allowed in {text!r}")
            if child.func.id not in FUNCTIONS:
                raise SettingError(
                    f"unknown function {child.func.id!r} in {text!r}; {did_you_mean(child.func.id, FUNCTIONS)}"
                )
        elif (isinstance(child, ast.BinOp) and type(child.op) not in _BINARY) or (
            isinstance(child, ast.UnaryOp) and type(child.op) not in _UNARY
        ):
            raise SettingError(f"the operator {type(child.op).__name__} is not allowed in {text!r}")
        elif isinstance(child, ast.Compare) and any(type(op) not in _COMPARE for op in child.ops):
            raise SettingError(f"only == != < <= > >= in, not in are allowed in {text!r}")
        elif isinstance(child, ast.expr) and not isinstance(child, _ALLOWED):
            raise SettingError(f"{type(child).__name__} is not allowed in the expression {text!r}")


_ALLOWED = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Name, ast.Constant, ast.List, ast.Tuple,
)  # fmt: skip


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in values:
            return values[node.id]
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        raise SettingError(f"unknown name {node.id!r}; {did_you_mean(node.id, values)}")
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        for part in node.values:
            if bool(_value(part, values)) is wanted:
                return wanted
        return not wanted
    if isinstance(node, ast.Compare):
        left = _value(node.left, values)
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            right = _value(right_node, values)
            if not _COMPARE[type(operation)](left, right):
                return False
            left = right
        return True
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, values) else node.orelse, values)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, values) for item in node.elts]
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return FUNCTIONS[node.func.id](*(_value(argument, values) for argument in node.args))
