"""A time of the simulator: of one configuration, or of sixteen in lockstep as one vector.

Algorithm 1 of the Gus paper is made of max and + only, so the lanes of several configurations never branch apart.
Arrays of times have one element, or one row of sixteen, for each thing that has a time; `load` gives an ``int64`` from
the one and a vector of sixteen from the other. `perfkit.simulators.gus.recurrence` is written once, in the operations
below, and numba compiles it for each. The vectors are a type of their own because loops over lanes keep every time in
memory.
"""
# ruff: noqa: ARG001 - numba calls these with all arguments by name, used or not

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

LANES = 16
# numba says more of their types than is so once they decorate a function.
_intrinsic: Any = intrinsic
_overload: Any = overload
_VECTOR = ir.VectorType(ir.IntType(64), LANES)


class _LanesType(types.Type):
    """numba's type of sixteen times."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES} x int64)")


_LANES = _LanesType()


def is_lanes(kind: Any) -> bool:
    """Whether a numba type is that of sixteen times."""
    return isinstance(kind, _LanesType)


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _element(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the address of element or row ``args[1]`` of the array ``args[0]``: contiguous, the index in range."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    if signature.args[0].ndim == 1:
        return builder.gep(array.data, [index])
    first = builder.gep(array.data, [builder.mul(index, ir.Constant(ir.IntType(64), LANES))])
    return builder.bitcast(first, _VECTOR.as_pointer())


@_intrinsic
def load(_typing: Any, array: Any, index: Any) -> Any:
    """Return the time, or the row of times, at an index that is known to be in range."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_element(context, builder, signature, args))
        found.align = 8
        return found

    return (types.int64 if array.ndim == 1 else _LANES)(array, index), generate


@_intrinsic
def store(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Put a time, or a row of times, at an index that is known to be in range."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _element(context, builder, signature, args)).align = 8
        return context.get_dummy_value()

    return types.void(array, index, types.int64 if array.ndim == 1 else _LANES), generate


@_intrinsic
def later(_typing: Any, one: Any, other: Any) -> Any:
    """Return the later of two times, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.icmp_signed(">", args[1], args[0]), args[1], args[0])

    kind = _LANES if isinstance(one, _LanesType) else types.int64
    return kind(kind, kind), generate


@_intrinsic
def _sum(_typing: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.add(*args)

    return _LANES(_LANES, _LANES), generate


@_overload(operator.add, strict=False)
def _add(one: Any, other: Any) -> Any:
    if isinstance(one, _LanesType) and isinstance(other, _LanesType):
        return lambda one, other: _sum(one, other)
    return None


@_intrinsic
def reaches(_typing: Any, one: Any, other: Any) -> Any:
    """Return whether ``one`` is as late as ``other`` in any lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.icmp_signed(">=", *args)
        if isinstance(signature.args[0], _LanesType):
            bits = builder.bitcast(found, ir.IntType(LANES))
            found = builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        return found

    kind = _LANES if isinstance(one, _LanesType) else types.int64
    return types.boolean(kind, kind), generate


@_intrinsic
def like(_typing: Any, time: Any, number: Any) -> Any:
    """Return a number as a time of the kind of ``time``: in every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _everywhere(builder, args[1]) if isinstance(signature.args[0], _LanesType) else args[1]

    kind = _LANES if isinstance(time, _LanesType) else types.int64
    return kind(kind, types.int64), generate


@_intrinsic
def times(_typing: Any, time: Any, number: Any) -> Any:
    """Return a time multiplied by a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        factor = _everywhere(builder, args[1]) if isinstance(signature.args[0], _LanesType) else args[1]
        return builder.mul(args[0], factor)

    kind = _LANES if isinstance(time, _LanesType) else types.int64
    return kind(kind, types.int64), generate


@_intrinsic
def gather(_typing: Any, array: Any, place: Any, back: Any) -> Any:
    """Return what each lane put into a ring (of a power of two entries) ``back[lane]`` entries before ``place``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ring = context.make_array(signature.args[0])(context, builder, args[0])
        sizes = context.make_array(signature.args[2])(context, builder, args[2])
        length = builder.extract_value(ring.shape, 0)
        mask = builder.sub(length, ir.Constant(length.type, 1))
        lanes = LANES if signature.args[0].ndim == 2 else 1
        found = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(lanes):
            number = ir.Constant(ir.IntType(64), lane)
            back_by = builder.load(builder.gep(sizes.data, [number]))
            row = builder.and_(builder.sub(args[1], back_by), mask)
            at = builder.add(builder.mul(row, ir.Constant(row.type, lanes)), number)
            one = builder.load(builder.gep(ring.data, [at]))
            if lanes == 1:
                return one
            found = builder.insert_element(found, one, ir.Constant(ir.IntType(32), lane))
        return found

    return (types.int64 if array.ndim == 1 else _LANES)(array, types.int64, back), generate


def _everywhere(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    every = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, one, every)


def padded(values: Any) -> Any:
    """Return a list of configurations, the first one repeated until they fill the lanes."""
    values = tuple(values)
    return values + (values[0],) * (LANES - len(values))


def zeros(entries: int, lanes: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return times of nought for so many things: of one configuration, or a row of lanes each."""
    return np.zeros((max(1, entries), LANES) if lanes else max(1, entries), dtype=np.int64)
